"""Weights & Biases: logs runs to the project in ``WANDB_PROJECT``.

Without that variable, or with ``WANDB_MODE=disabled``, nothing is imported or sent, even if the
package is installed. ``WANDB_MODE=offline`` writes to ``RUN/wandb`` only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent


def is_enabled() -> bool:
    """Return whether the environment names a project."""
    on = os.environ.get("WANDB_MODE", "").lower() != "disabled"
    return on and bool(os.environ.get("WANDB_PROJECT"))


@hookimpl
def run_started(event: RunEvent) -> None:
    """Start a run, or resume it."""
    if is_enabled():
        from .tracking import start

        start(event)


@hookimpl
def step_logged(event: RunEvent) -> None:
    """Log scalars, the loss by level and images."""
    if is_enabled():
        from .tracking import write

        write(event)


evaluated = step_logged


@hookimpl
def run_ended(event: RunEvent) -> str | None:
    """Finish the run and return its address."""
    if not is_enabled():
        return None
    from .tracking import end

    return end(event)
