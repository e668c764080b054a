"""The explanation of a config: defaults, suppliers, parameter count, remarks of plugins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from ..contracts.adaptive import is_trained
from ..contracts.dataset import DataSpec
from ..contracts.weighting import check_submodules
from ..errors import ElbowroomError
from ..objective.loss import Objective
from ..registry.components import installed
from .assembly import Parts, build_objective, build_parts, network_signature
from .sections import Config, dump_yaml, to_plain
from .spec import ComponentSpec


@attrs.frozen(eq=False)
class Remark:
    """A plugin's addition to an explanation: one line, and JSON data under ``name``."""

    name: str
    line: str
    record: Any
    style: str = ""  # of the line, as rich names it


@attrs.frozen(eq=False)
class Explanation:
    """The explanation of a config."""

    config: dict[str, Any]  # resolved
    yaml: str
    components: dict[str, dict[str, Any]]  # kind -> name, distribution, version, owner
    parameters: int | None
    no_parameters: str  # why they are unknown
    data: DataSpec | None = None  # the form of the data, if known
    remarks: tuple[str, ...] = ()  # of the process on the schedule
    learning: tuple[str, ...] = ()  # kinds of component that training changes, but for the network
    added: tuple[Remark, ...] = ()  # by plugins

    def record(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "config": self.config,
            "components": self.components,
            "parameters": self.parameters,
            "parameters_unknown_because": self.no_parameters or None,
            "data": None if self.data is None else attrs.asdict(self.data),
            "remarks": list(self.remarks),
            "learning": list(self.learning),
            **{remark.name: remark.record for remark in self.added},
        }


def explain_config(config: Config) -> Explanation:
    """Explain a config, without data files and memory for weights if possible."""
    try:
        parts = build_parts(config)
    except ElbowroomError as error:
        if config.data is None:
            raise
        # explain the rest without a data set that is not on this machine
        parts = build_parts(attrs.evolve(config, data=None))
        count, reason = None, f"the data cannot be read: {error}"
    else:
        count, reason = count_parameters(parts)
    config = attrs.evolve(parts.config, data=config.data)
    objective = build_objective(parts)
    check_submodules(objective.weighting)
    return Explanation(
        to_plain(config),
        dump_yaml(config),
        dict(describe_components(config)),
        count,
        reason,
        parts.spec,
        parts.process.remarks(parts.schedule),
        tuple(kind for kind, part in _learning(objective) if is_trained(part)),
        tuple(installed().hook.explain(parts=parts)),
    )


def _learning(objective: Objective) -> Iterator[tuple[str, object]]:
    """The parts of an objective that may learn, by kind."""
    yield "schedule", objective.schedule
    yield "weighting", objective.weighting
    yield "time_sampler", objective.times


def count_parameters(parts: Parts) -> tuple[int | None, str]:
    """(count, "") or (None, why not)."""
    import torch

    if parts.config.denoiser is None:
        return None, "the config names no denoiser"
    if parts.spec is None:
        return None, "the config names no data"
    with torch.random.fork_rng(devices=[]), _without_normal(), torch.device("meta"):
        network = parts.config.denoiser.build(network_signature(parts.config, parts.process))
    return sum(parameter.numel() for parameter in network.parameters()), ""


def _without_normal() -> Any:
    """Skip ``normal_``: on the meta device it has no effect, and it imports torch._dynamo."""
    from torch.overrides import TorchFunctionMode

    class WithoutNormal(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            given = kwargs or {}
            if getattr(func, "__name__", "") == "normal_":
                return (*args, *given.values())[0]
            return func(*args, **given)

    return WithoutNormal()


def describe_components(config: Config) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each component the config names: kind -> who supplies it."""
    whole = attrs.asdict(config, recurse=False).values()
    inner = [one for one in whole if attrs.has(type(one)) and not isinstance(one, ComponentSpec)]
    for section in (config, *inner):
        for spec in attrs.asdict(section, recurse=False).values():
            if isinstance(spec, ComponentSpec):
                yield spec.kind, describe_component(spec)


def describe_component(spec: ComponentSpec) -> dict[str, Any]:
    """Who supplies one."""
    supplier: dict[str, Any] = {"name": spec.name, "distribution": None, "version": None}
    if spec.component is None:
        return {**supplier, "owner": "Python"}
    return {**supplier, "owner": str(spec.component.owner), **spec.component.owner.record()}
