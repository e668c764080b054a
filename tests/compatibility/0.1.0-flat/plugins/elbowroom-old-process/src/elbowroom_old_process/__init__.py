"""The process ``old-process`` for elbowroom."""

from __future__ import annotations

from elbowroom import hookimpl

PLUGIN_API = (1, 0)  # the plugin API this was made for


@hookimpl
def processes() -> dict[str, str]:
    """The class by its place: it is imported when it is used, so that listing plugins is fast."""
    return {
        "old-process": f"{__name__}.process:OldProcess",
    }
