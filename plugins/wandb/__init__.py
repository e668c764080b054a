"""Weights & Biases: what a run logs, sent to the project that ``WANDB_PROJECT`` names.

Without that variable, or with ``WANDB_MODE=disabled``, nothing is imported and nothing is sent: an
installed package alone never is consent. ``WANDB_MODE=offline`` keeps everything in ``RUN/wandb``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent


def is_asked_for() -> bool:
    """Does the environment name a project?"""
    on = os.environ.get("WANDB_MODE", "").lower() != "disabled"
    return on and bool(os.environ.get("WANDB_PROJECT"))


@hookimpl
def run_started(event: RunEvent) -> None:
    """Begin a run, or go on with it."""
    if is_asked_for():
        from .tracking import start

        start(event)


@hookimpl
def step_logged(event: RunEvent) -> None:
    """Scalars, and the loss by level."""
    if is_asked_for():
        from .tracking import write

        write(event)


@hookimpl
def evaluated(event: RunEvent) -> None:
    """Measurements and pictures of an evaluation."""
    if is_asked_for():
        from .tracking import write

        write(event)


@hookimpl
def run_ended(event: RunEvent) -> str | None:
    """Finish the run, and say where it is."""
    if not is_asked_for():
        return None
    from .tracking import end

    return end(event)
