"""Commands in forked children, as a shell would see them.

Everything is imported before the first fork and no thread has been started, so children are as good
as new processes and begin at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

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
    from elbowroom import bench, comparison, evaluation, exporter, report, results, training  # noqa: F401
    from elbowroom.cli import app  # noqa: F401

    torch.set_num_threads(1)
    torch.func.jvp(torch.sin, (torch.ones(()),), (torch.ones(()),))


@contextlib.contextmanager
def started(
    *arguments: object, before: Callable[[], object] = lambda: None
) -> Iterator[tuple[int, Callable[[], Ended]]]:
    """``elbowroom ARGUMENTS`` in a child: its process id, and what waits for its end."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            _become([str(word) for word in arguments], out, err, before)

        def wait() -> Ended:
            code = _waited(pid)
            return Ended(code, out.read_text(errors="replace"), err.read_text(errors="replace"))

        yield pid, wait


def ran(*arguments: object, before: Callable[[], object] = lambda: None) -> Ended:
    """``elbowroom ARGUMENTS`` to its end."""
    with started(*arguments, before=before) as (_, wait):
        return wait()


def _become(arguments: list[str], out: Path, err: Path, before: Callable[[], object]) -> None:
    code = 1
    try:
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
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


def _waited(pid: int) -> int:
    end = time.monotonic() + _PATIENCE
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -signal.SIGALRM
        time.sleep(0.002)
