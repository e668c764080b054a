"""Speed, measured side by side in one process.

Rivals are timed in turns, round after round, so that a busy machine is busy for all of them. Our
train step and the bare loop stand side by side and change places every other round, so that each
follows the other as often as it follows the rest. What is told are medians with their spread,
ratios within a round, and shares of the matrix-multiply peak measured in the same rounds.

    overhead     our train step / a bare loop of the same network, loss and optimiser, less one
    beside       the same difference with a network that takes no time, / our train step: what
                 the network's own ups and downs would hide
    peak share   floating-point operations of matrix products and convolutions / time / the peak
    operations   of a training step and of one sample, as the plugin ``cost`` counts them: attention
                 too, whose fused kernel on a CPU is no matrix product to torch's counter
"""

from __future__ import annotations

import itertools
import resource
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import attrs
import elbowroom
import torch
from elbowroom import (
    Config,
    ConfigError,
    Dataset,
    Diffusion,
    ElbowroomError,
    Noise,
    Sampler,
)
from elbowroom.config import Parts, build_model, build_parts
from elbowroom.plugins.training.host_memory import retain_memory
from elbowroom.plugins.training.ranks import Ranks
from elbowroom.plugins.training.step import Training
from elbowroom.registry import Registry
from torch import Tensor

from .bare_loop import BareLoop, can_be_written_out
from .replay_network import Silenceable
from .timing import Timing

Rivals = dict[str, Callable[[], object]]

_SIDE = 1024  # of the matrices whose product is the peak
_OURS, _BARE, _SILENT = "train step", "bare loop", "{}, network silent"


@attrs.frozen(eq=False)
class BenchReport:
    """What was measured."""

    timings: Mapping[str, Timing]
    flops: Mapping[str, float]  # floating-point operations of one call
    batch_size: int
    sampler_calls: Mapping[str, float]  # network calls a sample
    parameters: int
    peak_bytes: int
    operations: Mapping[str, float] = attrs.Factory(dict)  # of a training step, of one sample

    @property
    def peak(self) -> float:
        """Operations a second of a large matrix product."""
        return 2 * _SIDE**3 / self.timings["matmul"].median

    @property
    def overhead(self) -> Timing | None:
        """Our train step over the bare loop, where there is one."""
        bare = self.timings.get(_BARE)
        return None if bare is None else self.timings[_OURS].over(bare)

    @property
    def beside(self) -> Timing | None:
        """What our train step takes longer beside the network, as a share of all of it."""
        ours, bare = (self.timings.get(_SILENT.format(name)) for name in (_OURS, _BARE))
        return None if ours is None or bare is None else ours.minus(bare).over(self.timings[_OURS])

    def record(self) -> dict[str, Any]:
        """Plain numbers."""
        rows = {}
        for name, timing in self.timings.items():
            rows[name] = {"seconds": timing.median, "spread": timing.spread}
            if name in self.flops:
                rows[name]["peak_share"] = self.flops[name] / timing.median / self.peak
            if name in self.sampler_calls:
                rows[name]["calls"] = self.sampler_calls[name]
            if name in self.operations:
                rows[name]["operations"] = self.operations[name]
        return {
            "timings": rows,
            "images_per_second": self.batch_size / self.timings[_OURS].median,
            "overhead": None if self.overhead is None else _ratio(self.overhead, "ratio"),
            "beside_network": None if self.beside is None else _ratio(self.beside, "share"),
            "matmul_flops": self.peak,
            "parameters": self.parameters,
            "peak_bytes": self.peak_bytes,
            "threads": torch.get_num_threads(),
        }


def _ratio(ratio: Timing, name: str) -> dict[str, float]:
    low, high = ratio.interval
    return {name: ratio.median, "low": low, "high": high}


def bench(
    config: Config,
    registry: Registry,
    *,
    rounds: int = 7,
    samples: int = 16,
    only: Collection[str] | None = None,
    watch: Callable[[int, str], None] = lambda *_: None,
) -> BenchReport:
    """Time a config's training and sampling; ``only`` names the samplers, None takes all."""
    parts = build_parts(config)
    if parts.data is None:
        raise ConfigError("data: a benchmark needs a data set, and this config names none")
    samplers = _chosen(_samplers(parts, registry), only)
    ours = _Ours.of(parts, parts.data)
    feed = ours.training.feed
    training: list[_Loop] = [ours]
    if can_be_written_out(parts):
        training.append(_Bare.of(parts, parts.data))
    labels, calls = _labels(parts.data, samples), dict[str, float]()
    groups: list[Rivals] = [
        {
            f"sampler {name}": _sampling(ours.model, sampler, samples, labels, calls, name)
            for name, sampler in samplers.items()
        },
        {"matmul": _matmul(), "data": lambda: feed.split.take(feed.rows(0))},
        {_SILENT.format(loop.name): loop.silent_turn for loop in training},
        {loop.name: loop.turn for loop in training},
    ]
    with retain_memory(torch.device("cpu")):  # as a run has it
        timings = _timed(groups, rounds, watch)
    counted = {"matmul": groups[1]["matmul"], **groups[0], **groups[-1]}
    flops = {name: _flops(run) for name, run in counted.items()}
    feed.close()
    sampler_calls = {f"sampler {name}": value for name, value in calls.items()}
    return BenchReport(
        timings,
        flops,
        config.train.batch_size,
        sampler_calls,
        sum(p.numel() for p in ours.model.parameters()),
        peak_memory(),
        _operations(config, sampler_calls),
    )


def _operations(config: Config, calls: Mapping[str, float]) -> dict[str, float]:
    """Of a training step, and of one sample by each sampler; nothing if ``cost`` is switched off.

    No sampler is guided here: a call shows the network each sample once.
    """
    count = getattr(elbowroom, "cost", None)
    if count is None:
        return {}
    found = count(config)
    each = {name: looks * found.look_flops for name, looks in calls.items()}
    return {_OURS: found.step_flops, **each}


def _timed(
    groups: list[Rivals], rounds: int, watch: Callable[[int, str], None]
) -> dict[str, Timing]:
    """Every rival in every round; the samplers, which come first, are told last."""
    rivals = {name: run for group in groups for name, run in group.items()}
    for _ in range(2):  # allocators, kernels and caches; the network's answer, to be repeated
        for group in reversed(groups[1:]):
            for run in group.values():
                run()
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(rounds):
        for name in _order(groups, turn):
            watch(turn, name)
            began = time.perf_counter()
            rivals[name]()
            seconds[name].append(time.perf_counter() - began)
    told = sorted(rivals, key=lambda name: name in groups[0])
    return {name: Timing(tuple(seconds[name])) for name in told}


def _order(groups: list[Rivals], turn: int) -> list[str]:
    """Group after group; within each, forwards and backwards in turns."""
    step = -1 if turn % 2 else 1
    return list(itertools.chain.from_iterable(list(group)[::step] for group in groups))


def peak_memory() -> int:
    """The most memory this process ever held, in bytes."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else 1024 * held


# -- the rivals


@attrs.define(eq=False)
class _Loop(ABC):
    """A training loop, with its network or without."""

    network: Silenceable

    name: ClassVar[str]

    @abstractmethod
    def turn(self) -> None:
        """One step."""

    def silent_turn(self) -> None:
        """One step in which the network only repeats itself."""
        self.network.silent = True
        self.turn()
        self.network.silent = False


@attrs.define(eq=False)
class _Ours(_Loop):
    training: Training
    model: Diffusion
    n: int = 0

    name = _OURS

    @classmethod
    def of(cls, parts: Parts, data: Dataset) -> _Ours:
        model = build_model(parts)
        training = Training(
            model, data, parts.config.train, seed=0, ranks=Ranks(torch.device("cpu"))
        )
        model.denoiser = Silenceable(model.denoiser)
        return cls(model.denoiser, training, model)

    def turn(self) -> None:
        self.training.step(self.n)
        self.n += 1


@attrs.define(eq=False)
class _Bare(_Loop):
    loop: BareLoop

    name = _BARE

    @classmethod
    def of(cls, parts: Parts, data: Dataset) -> _Bare:
        loop = BareLoop(parts, data)
        loop.network = Silenceable(loop.network)
        return cls(loop.network, loop)

    def turn(self) -> None:
        self.loop.turn()


def _matmul() -> Callable[[], object]:
    a, b = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
    return lambda: a @ b


def _samplers(parts: Parts, registry: Registry) -> dict[str, Sampler]:
    """Every registered sampler that serves the process, and ancestral sampling step by step."""
    steps = parts.sampler.steps if parts.sampler is not None else 64
    found: dict[str, Sampler] = {}
    for name, component in registry.components("sampler").items():
        try:
            sampler: Sampler = component.load()(steps=steps)
        except (TypeError, ElbowroomError):  # it needs more than a number of steps
            continue
        if sampler.needs <= parts.process.traits:
            found[name] = sampler
    walking = found.get("ancestral")
    if walking is not None and hasattr(walking, "skip"):
        # a step-by-step walk is an option of this sampler, not of the contract
        found["ancestral, every step"] = attrs.evolve(walking, skip=False)  # type: ignore[call-arg]
    return found


def _chosen(found: dict[str, Sampler], only: Collection[str] | None) -> dict[str, Sampler]:
    if only is None:
        return found
    for name in only:
        if name not in found:
            known = ", ".join(found)
            raise ConfigError(f"--sampler {name}: none of that name serves here; there are {known}")
    return {name: sampler for name, sampler in found.items() if name in only}


def _labels(data: Dataset, count: int) -> Tensor | None:
    return None if data.spec.classes is None else torch.arange(count) % data.spec.classes


def _sampling(
    model: Diffusion,
    sampler: Sampler,
    count: int,
    labels: Tensor | None,
    calls: dict[str, float],
    name: str,
) -> Callable[[], object]:
    def run() -> None:
        model.eval()
        with torch.no_grad():
            drawn = sampler.sample(model, Noise.of(0, count), labels)
        calls[name] = float(drawn.calls.double().mean())
        model.train()

    return run


def _flops(step: Callable[[], object]) -> float:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        step()
    return float(counter.get_total_flops())
