"""Weightings: the factor w of an objective on the weight of the ELBO.

The training loss of one example at a time t drawn with density p(t) is, for every process,

    w(t) * elbo_weight(t) * sum of plain losses / p(t),      elbo_weight = rate * price,

and w = 1 is the ELBO. Theorem 2 of Shi & Titsias: the objective is a weighted sum of improved
variational bounds if and only if w is non-negative and does not fall with t. The certificate
(:mod:`elbowroom.plugins.paper.certificate`) checks this.

A weighting that depends only on ``level.log_snr`` is the same function under every schedule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import IncompatibleError
from .adaptive import is_trained

if TYPE_CHECKING:
    from torch import Tensor

    from .level import Level
    from .process import Process
    from .schedule import Schedule


class Weighting(ABC):
    """w as a function of the level. Define ``__call__``.

    Example:
        >>> class Sigmoid(Weighting):
        ...     def __call__(self, level):
        ...         return (-level.log_snr).sigmoid()
    """

    @abstractmethod
    def __call__(self, level: Level) -> Tensor:
        """w at the level; NaN at a level without a schedule if it depends on one."""

    def plain_weight(self, level: Level) -> Tensor:
        """w * elbo_weight, the factor of the plain loss. Override if it is simpler."""
        return self(level) * level.elbo_weight

    def penalty(self, level: Level) -> Tensor | float:
        """An additive term per example, for weightings with learned parameters."""
        return 0.0

    def over_positions(self, shape: tuple[int, ...]) -> Tensor | None:
        """Non-negative weights of positions, of mean 1, broadcast to ``shape``; None: uniform."""
        return None

    def prepare(self, schedule: Schedule, process: Process, steps: int | None = None) -> Weighting:
        """The weighting for this schedule and process (default: itself).

        With ``steps`` time is discrete: w is evaluated at i/steps only (``Level.of_step``).
        """
        return self


def check_submodules(weighting: Weighting) -> None:
    """Refuse a trainable weighting inside one that is not a module: it would not be trained."""
    from torch import nn

    inside = weighting.modules() if isinstance(weighting, nn.Module) else ()
    reached = {id(module) for module in inside}
    for part, holder in _made_from(weighting):
        if id(part) not in reached and is_trained(part):
            raise IncompatibleError(
                f"weighting {type(holder).__name__} is made from {type(part).__name__}, which "
                "changes with training, and does not follow it: what is learned would be neither "
                "used nor saved"
            )


def _made_from(weighting: Weighting) -> Iterator[tuple[Weighting, Weighting]]:
    """The weightings that one holds, at any depth, with the one that holds them."""
    seen, waiting = {id(weighting)}, [weighting]
    while waiting:
        holder = waiting.pop()
        for part in _held(holder):
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)
                yield part, holder


def _held(weighting: Weighting) -> Iterator[Weighting]:
    """Those in its attributes, also in lists and mappings there."""
    values = [*getattr(weighting, "__dict__", {}).values()]
    values += [getattr(weighting, f.name, None) for f in getattr(weighting, "__attrs_attrs__", ())]
    for value in values:
        items = value.values() if isinstance(value, dict) else value
        several = items if isinstance(value, list | tuple | dict) else (value,)
        yield from (one for one in several if isinstance(one, Weighting))


def positions_of(weighting: Weighting, process: Process) -> Tensor | None:
    """What positions of a process's data count, of the data's shape where the process is bound."""
    import torch

    shape = process.shape
    positions = weighting.over_positions(shape or ())
    if positions is None or shape is None:
        return positions
    try:
        return torch.broadcast_to(positions, shape)
    except RuntimeError as error:
        raise IncompatibleError(
            f"weighting {type(weighting).__name__} weighs positions of shape "
            f"{list(positions.shape)}, and an example has the shape {list(shape)}"
        ) from error
