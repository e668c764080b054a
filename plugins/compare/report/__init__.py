"""The report of a comparison: one HTML file that needs nothing else, made to be looked at.

It is made from ``results.json`` and the pictures in the run folders alone. Styles, script, pictures
and curves are inside; nothing is fetched, and the page forbids itself to try.
"""

from __future__ import annotations

from .page import page, write_report

__all__ = ["page", "write_report"]
