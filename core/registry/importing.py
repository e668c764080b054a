"""Importing plugin code.

What it prints goes to standard error: standard output may be JSON. What it raises is reported as
the plugin's error, Ctrl-C aside.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

UserInterrupt = KeyboardInterrupt


@contextlib.contextmanager
def importing(*_: object) -> Iterator[None]:
    """Redirect standard output to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
