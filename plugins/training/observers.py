"""The observing plugins of a run, isolated from it and from each other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
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
    """The observing plugins of a run. One that fails is left out, with one warning."""

    def __init__(self, hook: Any = None, without: Collection[str] = ()) -> None:
        """``hook`` is pluggy's relay; ``without`` names plugins that shall not be told."""
        self._hook = hook
        self._without = set(without)
        self.failed: dict[str, str] = {}  # observer -> where and how
        self.remarks: list[str] = []  # what they would have the user know

    def tell(self, happened: str, event: RunEvent) -> None:
        """Call the hook ``happened`` of every observer; returned lines are kept as remarks."""
        self.remarks += [said for said in self._call(happened, event) if isinstance(said, str)]

    def scalars(self, event: RunEvent, model: Diffusion) -> dict[str, float]:
        """The scalars that observers add to a logging step (hook ``step_scalars``)."""
        added: dict[str, float] = {}
        for returned in self._call("step_scalars", event, _numbers, model=model):
            added |= returned
        return added

    def _call(
        self,
        happened: str,
        event: RunEvent,
        read: Callable[[Any], Any] = lambda returned: returned,
        **more: Any,
    ) -> Iterator[Any]:
        """What each observer returns; one that fails is left out from then on."""
        if self._hook is None:
            return
        given = {"event": event, **more}
        for implementation in reversed(getattr(self._hook, happened).get_hookimpls()):
            name = implementation.plugin_name
            if name in self._without or name.rpartition("/")[2] in self._without:
                continue
            try:
                arguments = {name: given[name] for name in implementation.argnames}
                yield read(implementation.function(**arguments))
            except (Exception, SystemExit) as error:  # whoever asks to stop uses a signal
                self._without.add(name)
                self.failed[name] = f"in {happened} at step {event.step}: {cause(error)}"
                with warnings.catch_warnings():
                    warnings.simplefilter("default")  # where warnings are errors it must go on too
                    warnings.warn(
                        f"observer {name} failed {self.failed[name]}; the run goes on without it",
                        stacklevel=2,
                    )


def _numbers(returned: Any) -> dict[str, float]:
    return {str(name): float(value) for name, value in (returned or {}).items()}
