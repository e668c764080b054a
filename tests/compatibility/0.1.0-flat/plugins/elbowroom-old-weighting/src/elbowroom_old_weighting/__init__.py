"""The weighting ``old-weighting`` for elbowroom."""

from __future__ import annotations

from elbowroom import hookimpl

PLUGIN_API = (1, 0)  # the plugin API this was made for


@hookimpl
def weightings() -> dict[str, str]:
    """The class by its place: it is imported when it is used, so that listing plugins is fast."""
    return {
        "old-weighting": f"{__name__}.weighting:OldWeighting",
    }
