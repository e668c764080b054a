"""What observers are told: one frozen object a hook, so that it can grow without breaking them.

Names of scalars: ``loss`` (what is minimised), ``bits_per_dim`` (the ELBO on training batches, its
boundary terms included), ``learning_rate``, ``gradient_norm``, ``images_per_second``, and in an
evaluation
``validation/bits_per_dim`` with ``validation/standard_error``. Curves: ``loss_by_level`` and
``elbo_by_level``, over lambda, in bits per dimension per unit of lambda: the area under the second
is the diffusion term, i.e. ``bits_per_dim`` less the boundary terms.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from .component import cause

if TYPE_CHECKING:
    from torch import Tensor


@attrs.frozen(eq=False)
class RunEvent:
    """Something happened in a run."""

    folder: Path
    step: int
    steps: int  # how many the run will take
    config: Mapping[str, Any]  # resolved
    scalars: Mapping[str, float] = attrs.Factory(dict)
    curves: Mapping[str, tuple[Tensor, Tensor]] = attrs.Factory(dict)  # name -> (x, y)
    images: Mapping[str, Tensor] = attrs.Factory(dict)  # name -> uint8 [H, W, C]
    reason: str = ""  # why a run ended: "finished", "interrupted" or "failed: ..."
    path: Path | None = None  # of the checkpoint that was saved


class Observers:
    """The observing plugins of a run. One that fails is left out, with one warning."""

    def __init__(self, hook: Any = None, without: Collection[str] = ()) -> None:
        """``hook`` is pluggy's relay; ``without`` names plugins that shall not be told."""
        self._hook = hook
        self._without = set(without)
        self.failed: dict[str, str] = {}  # observer -> where and how

    def tell(self, happened: str, event: RunEvent) -> None:
        """Call the hook ``happened`` of every observer."""
        if self._hook is None:
            return
        for implementation in reversed(getattr(self._hook, happened).get_hookimpls()):
            name = implementation.plugin_name
            if name in self._without or name.rpartition("/")[2] in self._without:
                continue
            try:
                implementation.function(**dict.fromkeys(implementation.argnames, event))
            except (Exception, SystemExit) as error:  # whoever asks to stop uses a signal
                self._without.add(name)
                self.failed[name] = f"in {happened} at step {event.step}: {cause(error)}"
                with warnings.catch_warnings():
                    warnings.simplefilter("default")  # where warnings are errors it must go on too
                    warnings.warn(
                        f"observer {name} failed {self.failed[name]}; the run goes on without it",
                        stacklevel=2,
                    )
