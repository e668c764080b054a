"""Commands in forked children, as a shell would see them.

Everything is imported before the first fork and no thread has been started, so children are as good
as new processes and begin at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator

import attrs

_PATIENCE = 120.0  # seconds; whoever takes longer hangs


@attrs.frozen
class Ended:
    """How a command ended: its exit code (minus a signal), and what it said."""

    code: int
    out: str
    err: str

    @property
    def fault(self) -> str:
        """What no user should see: a traceback, a hang, an exit code nobody promised."""
        if "Traceback (most recent call last)" in self.err:
            return "a traceback"
        if self.code == -signal.SIGALRM:
            return "it hung"
        if self.code not in (0, 2):
            return f"exit code {self.code}"
        if self.code == 2 and "error:" not in self.err:
            return "refused without a word"
        return ""


def warm_up() -> None:
    """Import what a child would import at its first use."""
    import sklearn.datasets  # noqa: F401
    import torch
    import torch._dynamo

    torch.set_num_threads(1)
    torch.func.jvp(torch.sin, (torch.ones(()),), (torch.ones(()),))


@contextlib.contextmanager
def started(
    *arguments: object, before: Callable[[], object] = lambda: None
) -> Iterator[tuple[int, Callable[[], Ended]]]:
    """``elbowroom ARGUMENTS`` in a child: its process id, and what waits for its end."""
    out, err = _Pipe(), _Pipe()  # no files: these have no room where the disk is full
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        _become([str(word) for word in arguments], out, err, before)

    def wait() -> Ended:
        code = _waited(pid, out, err)
        return Ended(code, out.text, err.text)

    with out, err:
        yield pid, wait


class _Pipe:
    """What a child says, held in memory."""

    def __init__(self) -> None:
        self.end, self.entry = os.pipe()
        os.set_blocking(self.end, False)
        self._said = b""

    def __enter__(self) -> None:
        os.close(self.entry)

    def __exit__(self, *_: object) -> None:
        os.close(self.end)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self.end, 1 << 16):
                self._said += part

    @property
    def text(self) -> str:
        return self._said.decode(errors="replace")


def ran(*arguments: object, before: Callable[[], object] = lambda: None) -> Ended:
    """``elbowroom ARGUMENTS`` to its end."""
    with started(*arguments, before=before) as (_, wait):
        return wait()


def _become(arguments: list[str], out: _Pipe, err: _Pipe, before: Callable[[], object]) -> None:
    code = 1
    try:
        for number, pipe in ((1, out), (2, err)):
            os.dup2(pipe.entry, number)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        sys.argv = ["elbowroom", *arguments]
        before()
        from elbowroom.cli import main

        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _waited(pid: int, *said: _Pipe) -> int:
    end = time.monotonic() + _PATIENCE
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        for pipe in said:
            pipe.drain()
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -signal.SIGALRM
        time.sleep(0.002)
