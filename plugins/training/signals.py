"""Signals, taken politely: the run finishes its step, saves, and says how to go on.

SIGTERM, SIGHUP (the terminal is gone) and SIGINT (Ctrl-C) ask a run to stop; a second SIGINT stops
it at once. Under nohup SIGHUP is ignored, and stays so.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


def _asking() -> list[signal.Signals]:
    asking = [signal.SIGTERM, signal.SIGINT]
    hang_up: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on every system
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        asking.append(hang_up)
    return asking


class Interrupt:
    """While entered, remembers that a signal asked to stop. Outside the main thread: never."""

    def __init__(self) -> None:
        self.asked: str | None = None  # the signal's name
        self._interrupts = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in _asking():
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = self.asked or signal.Signals(number).name
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                raise KeyboardInterrupt
