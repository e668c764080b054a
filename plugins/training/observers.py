"""The observing plugins of a run, isolated from it and from each other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from elbowroom import ConfigError, Diffusion, RunEvent, installed
from elbowroom.config import show
from elbowroom.errors import did_you_mean
from elbowroom.registry import cause


def check_observers(without: Collection[str]) -> None:
    """Refuse names that no installed plugin has."""
    if isinstance(without, str):
        raise ConfigError(f"without: got {show(without)}; allowed: a list of plugins")
    registry = installed()
    names = {plugin.name for plugin in registry.plugins} | set(registry.left_out)
    for name in without:
        if not isinstance(name, str) or name.rpartition("/")[2] not in names:
            near = did_you_mean(str(name), names)
            raise ConfigError(
                f"without: unknown plugin {show(name)}{near}; plugins: {', '.join(sorted(names))}"
            )


class Observers:
    """Notifies the observing plugins. One that fails is disabled with a warning."""

    def __init__(self, hook: Any = None, without: Collection[str] = ()) -> None:
        """``hook`` is pluggy's relay; plugins in ``without`` are not notified."""
        self._hook = hook
        self._without = set(without)
        self.failed: dict[str, str] = {}  # observer -> where and how it failed
        self.remarks: list[str] = []  # lines that observers return for the user

    def notify(self, hook: str, event: RunEvent) -> None:
        """Call ``hook`` of every observer; returned lines are kept as remarks."""
        self.remarks += [line for line in self._call(hook, event) if isinstance(line, str)]

    def scalars(self, event: RunEvent, model: Diffusion) -> dict[str, float]:
        """The scalars that observers add to a logging step (hook ``step_scalars``)."""
        added: dict[str, float] = {}
        for returned in self._call("step_scalars", event, _numbers, model=model):
            added |= returned
        return added

    def _call(
        self,
        hook: str,
        event: RunEvent,
        read: Callable[[Any], Any] = lambda returned: returned,
        **more: Any,
    ) -> Iterator[Any]:
        """Yield the result of each observer. One that fails is disabled."""
        if self._hook is None:
            return
        given = {"event": event, **more}
        for implementation in reversed(getattr(self._hook, hook).get_hookimpls()):
            name = implementation.plugin_name
            if name in self._without or name.rpartition("/")[2] in self._without:
                continue
            try:
                arguments = {name: given[name] for name in implementation.argnames}
                yield read(implementation.function(**arguments))
            except (Exception, SystemExit) as error:  # only a signal stops a run
                self._without.add(name)
                self.failed[name] = f"in {hook} at step {event.step}: {cause(error)}"
                with warnings.catch_warnings():
                    warnings.simplefilter("default")  # never an error, whatever the user's filter
                    warnings.warn(
                        f"observer {name} failed {self.failed[name]}; the run continues without it",
                        stacklevel=2,
                    )


def _numbers(returned: Any) -> dict[str, float]:
    return {str(name): float(value) for name, value in (returned or {}).items()}


def flatten(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``("train.steps", 1000)`` and so on, for loggers."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def tag(scalar: str) -> str:
    """The name of a scalar in loggers: ``train/loss``, ``validation/bits_per_dim``."""
    return scalar if "/" in scalar else f"train/{scalar}"
