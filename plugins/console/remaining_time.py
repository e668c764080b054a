"""Progress by time: how long the rest will take, and never a minute without a word.

    left = (now - first) / (done - done at first) * (of - done)

*first* is when something was done for the first time, so that what happens once (starting up,
compiling) is not counted for every step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Clock = Callable[[], float]
_SILENCE = 20.0  # seconds; after so many without a word there is one


class RemainingTime:
    """How fast something goes on."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, int] | None = None

    def left(self, done: int, of: int) -> float | None:
        """Seconds until ``of``; None while nothing can be said."""
        now = self._clock()
        if self._first is None or done < self._first[1]:
            self._first = (now, done)
        began, before = self._first
        if done == before or done >= of:
            return None
        return (now - began) / (done - before) * (of - done)


class ProgressLines:
    """Where there is no terminal: a line when there has been none for a while."""

    def __init__(
        self,
        say: Callable[[str], None],
        clock: Clock = time.monotonic,
        silence: float = _SILENCE,
    ) -> None:
        self._say, self._clock, self._silence = say, clock, silence
        self._heard = clock()
        self._lock = threading.Lock()
        self.at("", 0, 0)

    def at(self, doing: str, done: int, of: int) -> None:
        """It is here now; said when it is time."""
        with self._lock:
            if getattr(self, "_doing", None) != doing:
                self._doing, self._since, self._pace = (
                    doing,
                    self._clock(),
                    RemainingTime(self._clock),
                )
            self._done, self._of = done, of
            self._left = self._pace.left(done, of)
        self.report()

    def restart_timer(self) -> None:
        """Someone else has said something."""
        self._heard = self._clock()

    def report(self) -> None:
        """Say where it is if it has been silent for long."""
        with self._lock:
            if not self._doing or self._clock() - self._heard < self._silence:
                return
            self._heard = self._clock()
            words = f"{self._doing} {self._done}/{self._of}" if self._of else self._doing
            words += f", {duration(self._clock() - self._since)} so far"
            if self._left is not None:
                words += f", {duration(self._left)} to go"
        self._say(words)

    @contextmanager
    def reporting(self, every: float = 1.0) -> Iterator[ProgressLines]:
        """Look every second whether it is time to say something."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(every):
                self.report()

        thread = threading.Thread(target=watch, daemon=True, name="elbowroom-progress")
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()


def duration(seconds: float) -> str:
    """``0:04:30``, and days where there are any."""
    whole = max(0, round(seconds))
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return clock if not days else f"{days} day{'s' if days > 1 else ''} {clock}"
