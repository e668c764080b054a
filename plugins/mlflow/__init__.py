"""MLflow: what a run logs, in the store that ``MLFLOW_TRACKING_URI`` names.

Without that variable nothing is imported and nothing is written. The experiment is that of
``MLFLOW_EXPERIMENT_NAME``, or ``elbowroom``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent


def is_asked_for() -> bool:
    """Does the environment name a store?"""
    return bool(os.environ.get("MLFLOW_TRACKING_URI"))


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
