"""Importing code of others: whatever it does, it must not take the command down with it.

raises anything        that plugin is broken: SystemExit and KeyboardInterrupt are no better
is stopped by Ctrl-C   the command stops: a signal is the user's, and told from a bare raise
prints                 to standard error: standard output may be JSON
takes long             is named after a few seconds, so that nobody waits for the unknown
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

PATIENCE = 5.0
"""Seconds after which an import is named."""


class UserInterrupt(KeyboardInterrupt):
    """Ctrl-C by the user, not a KeyboardInterrupt that some module raised by itself."""


@contextlib.contextmanager
def importing(what: Callable[[], str]) -> Iterator[None]:
    """Import code of others in here; ``what`` says whose, if it is asked.

    What goes wrong is raised as it is, and the caller may take any of it for the code's own
    failure, :class:`UserInterrupt` aside.
    """
    clock = threading.Timer(PATIENCE, _name, [what])
    clock.daemon = True
    clock.start()
    try:
        with contextlib.redirect_stdout(sys.stderr), _signals_told():
            yield
    finally:
        clock.cancel()


def _name(what: Callable[[], str]) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody listens any more
        sys.stderr.write(f"still importing {what()} ...\n")
        sys.stderr.flush()


@contextlib.contextmanager
def _signals_told() -> Iterator[None]:
    """While entered, Ctrl-C raises UserInterrupt where it would raise KeyboardInterrupt."""
    before: Any = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()  # none other hears signals
    if not here or not callable(before):
        yield
        return

    def told(number: int, frame: FrameType | None) -> None:
        try:
            before(number, frame)
        except KeyboardInterrupt as error:
            raise UserInterrupt from error

    signal.signal(signal.SIGINT, told)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is told:  # else the code has set its own
            signal.signal(signal.SIGINT, before)
