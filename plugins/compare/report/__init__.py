"""The report of a comparison: one HTML file with styles, script, images and curves inside.

Nothing is fetched, and the page's content policy forbids it.
"""

from __future__ import annotations

from .page import page, write_report

__all__ = ["page", "write_report"]
