"""Graceful shutdown on SIGINT, SIGTERM and SIGHUP.

The run finishes its step, saves a checkpoint and stops. A second SIGINT (Ctrl-C) raises
KeyboardInterrupt immediately. If SIGHUP is ignored (under nohup), it stays ignored.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupt:
    """Context manager that records the first signal to stop. Only active in the main thread."""

    def __init__(self) -> None:
        self.signal: str | None = None  # name of the signal, like "SIGTERM"
        self._interrupts = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in _handled_signals():
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or signal.Signals(number).name
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                raise KeyboardInterrupt


def _handled_signals() -> list[signal.Signals]:
    hang_up: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on Windows
    if hang_up is None or signal.getsignal(hang_up) is signal.SIG_IGN:
        return [signal.SIGTERM, signal.SIGINT]
    return [signal.SIGTERM, signal.SIGINT, hang_up]
