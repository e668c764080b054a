"""Sections that plugins add to the config.

A section is an attrs class. Its fields are its options, with defaults and validators; it is read by
the same strict reader as the sections of core.

    @attrs.frozen(kw_only=True)
    class Tracking(Section):
        project: str = "mine"
        every: int = attrs.field(default=100, validator=ge(1))

Registered as ``{"tracking": Tracking}`` by the hook ``sections``, it is ``config.tracking``.
"""

from __future__ import annotations


class Section:
    """Base of a config section: derive an attrs class from it."""
