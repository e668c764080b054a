"""The process of one point: ``python -m elbowroom.plugins.compare.worker JOB``.

It trains and evaluates what is missing, as ``elbowroom train`` and ``elbowroom evaluate`` do; a
training that another point has finished is reused. A point of several ranks starts itself again
under torchrun, once for each rank, so launchers need no support for it. The first rank decides and
writes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from elbowroom import ElbowroomError, RunEvent, train
from elbowroom.cli import log_details, set_up_logging
from elbowroom.files import replace_file
from elbowroom.plugins.evaluation.run import evaluate_run
from elbowroom.plugins.launchers.launcher import ENDS_WITH_INPUT
from elbowroom.plugins.training.loop import InterruptedRun
from elbowroom.plugins.training.ranks import process_group
from elbowroom.runs import RunFolder, code_overrides

from .point import Point
from .shared_training import adopt, can_adopt

FAILED, INTERRUPTED = 1, 75
_PATIENCE = 120.0  # seconds for another process to release the folder
_INTERVAL = 0.5  # seconds between writes of progress

_jobs: dict[Path, Path] = {}  # run -> job, of the point that this process trains


def run_point(job: Path) -> int:
    """Train and evaluate what is missing of a point; returns the exit code."""
    point = Point.of_job(job)
    config = point.config
    assert config is not None
    if point.ranks > 1 and "RANK" not in os.environ:
        return _under_torchrun(job, point.ranks)
    with process_group("cpu") as ranks:  # the first rank decides before any rank writes
        needs_training = ranks.first(lambda: _prepare(point))
    if needs_training:
        _jobs[point.folder] = job
        try:
            train(config, point.folder, device=point.device, auto_resume=True)
        except InterruptedRun as error:
            _end(job, "interrupted", f"at step {error.result.step} of {error.result.steps}")
            return error.exit_code
    with process_group("cpu") as ranks:
        missing = ranks.first(lambda: _missing(point))
    report, failed = throttled_progress(job), dict[str, str]()
    for folder, protocol in point.evaluations().items():
        if str(folder) in missing:
            failed |= evaluate_run(
                point.folder,
                code_overrides(config),
                protocol,
                out=folder,
                device=point.device,
                progress=report,
            ).failed
    _end(job, "finished", "; ".join(f"{name} failed: {why}" for name, why in failed.items()))
    return FAILED if failed else 0


def _missing(point: Point) -> list[str]:
    """Folders of evaluations that were not made yet, or in which a metric failed."""
    found = point.read_evaluations()
    return [str(folder) for folder, one in found.items() if one is None or one.failed]


def _prepare(point: Point) -> bool:
    """Reuse a finished training; returns whether the point has to be trained."""
    assert point.config is not None
    if point.folder.is_dir():  # an earlier process may still be saving
        with RunFolder(point.folder).locked(_PATIENCE):
            pass
    source = point.same_training
    if not point.trained and source is not None and can_adopt(point.config, source):
        adopt(point.config, point.folder, source)
    needs_training = not point.trained or bool(_missing(point) and point.damaged)
    if needs_training:
        write_progress(point.job, "training", 0, point.config.train.steps)
    return needs_training


def report_training(event: RunEvent) -> None:
    """Write the progress of a training step, if it is that of a point."""
    if event.folder in _jobs:
        write_progress(_jobs[event.folder], "training", event.step, event.steps)


def write_progress(job: Path, task: str, done: int, total: int) -> None:
    """Write ``progress.json`` on the first rank."""
    if not _is_first_rank():
        return
    temporary = job / ".progress.json"
    temporary.write_text(json.dumps([task, done, total]), "utf-8")
    temporary.replace(job / "progress.json")


def throttled_progress(job: Path) -> Callable[[str, int, int], None]:
    """A progress callback that writes new tasks immediately, others twice a second."""
    last = ("", 0.0)  # task and time of the last write

    def progress(task: str, done: int, total: int) -> None:
        nonlocal last
        if task != last[0] or time.monotonic() - last[1] > _INTERVAL:
            write_progress(job, task, done, total)
            last = (task, time.monotonic())

    return progress


def _under_torchrun(job: Path, ranks: int) -> int:
    """Run the same job once for each rank, cores divided among them; returns the exit code."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    if getattr(sys.flags, "safe_path", False):  # ranks import what this process imports
        os.environ["PYTHONSAFEPATH"] = "1"
    threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    os.environ["OMP_NUM_THREADS"] = str(max(1, threads // ranks))
    arguments = ["--standalone", "--nproc-per-node", str(ranks), "-m", __spec__.name, str(job)]
    try:
        torchrun(arguments)
    except ChildFailedError as error:
        return max(failure.exitcode for failure in error.failures.values()) or FAILED
    except SignalException:
        return INTERRUPTED  # the ranks have saved their run
    return 0


def _is_first_rank() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _end(job: Path, status: str, reason: str) -> None:
    """Write the outcome: that of the first rank, or a failure of another if there is none."""
    if not _is_first_rank() and (status != "failed" or (job / "outcome.json").exists()):
        return
    replace_file(job / "outcome.json", json.dumps({"status": status, "reason": reason}).encode())


def _end_with_parent() -> None:
    """Send SIGTERM to this process when its parent is gone: standard input then ends."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):  # not through sys.stdin: its lock aborts the exit
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="elbowroom-parent", daemon=True).start()


def main(arguments: list[str]) -> int:
    """Run the job of a folder; errors are written to ``outcome.json``."""
    job = Path(arguments[0])
    if os.environ.get(ENDS_WITH_INPUT) and "RANK" not in os.environ:  # torchrun stops its ranks
        _end_with_parent()
    try:
        return run_point(job)
    except ElbowroomError as error:
        _end(job, "failed", str(error))
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        _end(job, "interrupted", "by the keyboard")
        return 130
    except Exception as error:
        message = " ".join(str(error).split())
        _end(job, "failed", f"{type(error).__name__}: {message}")
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    set_up_logging()
    log_details()  # the output is the point's log
    sys.exit(main(sys.argv[1:]))
