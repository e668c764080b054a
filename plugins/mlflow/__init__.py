"""MLflow: logs runs to the store in ``MLFLOW_TRACKING_URI``.

Without that variable nothing is imported or written. The experiment is that in
``MLFLOW_EXPERIMENT_NAME``, by default ``elbowroom``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent


def is_enabled() -> bool:
    """Return whether the environment names a store."""
    return bool(os.environ.get("MLFLOW_TRACKING_URI"))


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
    """Finish the run and return its id."""
    if not is_enabled():
        return None
    from .tracking import end

    return end(event)
