"""Running the points of a comparison: start what is missing, follow progress and outcome."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from elbowroom import ElbowroomError
from elbowroom.files import JSONFileError, is_count, locked, parse_json, read_json, replace_file
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.launchers.launcher import Ended, Job, Launcher
from elbowroom.plugins.training.signals import Interrupt
from elbowroom.runs import RunFolder, resolve_device

from .comparison import Comparison
from .point import Point

Watch = Callable[[Sequence[Point]], None]


def run_comparison(
    comparison: Comparison,
    points: Sequence[Point],
    launcher: Launcher,
    jobs: int = 1,
    watch: Watch = lambda _: None,
) -> None:
    """Run the points that are not finished; status and results are set on the points.

    On SIGINT, SIGTERM and SIGHUP running points save their run and end as interrupted. A second
    comparison in the same folder is refused meanwhile.
    """
    for point in points:
        _read_status(point)
    missing = [point for point in points if point.status == "waiting"]
    watch(points)
    if not missing:
        return
    by_name = {point.name: point for point in missing}
    with locked(comparison.out, "comparing"), Interrupt() as interrupt:
        if len(missing) > 1 and jobs > 1:
            _prepare_metrics(comparison, missing)
        with closing(_events(launcher, _waves(missing), jobs)) as events:
            for event in events:
                if event is not None:
                    _read_outcome(by_name[event.name], event)
                for point in missing:
                    if point.status in ("waiting", "running"):
                        _read_progress(point)
                watch(points)
                if interrupt.signal:
                    break
    for point in missing:
        if point.status in ("waiting", "running"):
            _read_interrupted(point)
    watch(points)


def _events(
    launcher: Launcher, waves: Sequence[Sequence[Job]], jobs: int
) -> Generator[Ended | None, None, None]:
    for wave in waves:
        with closing(launcher.run(wave, jobs)) as events:  # type: ignore[type-var]  # a generator
            yield from events


def _waves(points: Sequence[Point]) -> list[list[Job]]:
    """Jobs of points that train, then of those that reuse one of these trainings."""
    folders = {point.folder for point in points}
    waves: tuple[list[Job], list[Job]] = ([], [])
    for point in points:
        waves[point.same_training in folders].append(_job(point))
    return [wave for wave in waves if wave]


def _job(point: Point) -> Job:
    """Write the job of a point."""
    try:
        point.job.mkdir(parents=True, exist_ok=True)
        for old in ("outcome.json", "progress.json"):
            (point.job / old).unlink(missing_ok=True)
        replace_file(point.job / "job.json", json.dumps(point.job_record(), indent=1).encode())
    except OSError as error:
        raise ElbowroomError(f"cannot write to {point.job}: {error.strerror}") from error
    command = (*_same_imports(), "-m", "elbowroom.plugins.compare.worker", str(point.job.resolve()))
    return Job(point.name, command, point.job / "output.txt")


def _same_imports() -> tuple[str, ...]:
    """Options that keep ``python -m`` from importing from the working folder.

    Unless this process does so too: the folder may have files of others.
    """
    from_here = {"", str(Path.cwd())} & set(sys.path)
    return () if from_here or sys.version_info < (3, 11) else ("-P",)


def _prepare_metrics(comparison: Comparison, points: Sequence[Point]) -> None:
    """Fill the cache of features of real data once, before points run in parallel."""
    seen: list[Any] = []
    for point in points:
        spec = point.config.data if point.config else None
        if spec is None or spec in seen:
            continue
        seen.append(spec)
        with suppress(ElbowroomError):  # each point reports its own error
            subject = Subject(spec.build(), device=resolve_device(comparison.device))
            for metric in comparison.protocol.build().values():
                if metric.uses_samples:
                    metric.prepare(subject)


# -- status, from files


def _read_status(point: Point) -> None:
    """Set the status before anything runs."""
    if point.config is None:
        point.set_status("failed", point.reason)
        return
    try:
        point.set_status("finished" if point.load_results() else "waiting")
    except ElbowroomError as error:  # the folder has another run
        point.set_status("failed", str(error))


def _read_progress(point: Point) -> None:
    """Set the progress of a running job."""
    progress = _read(point.job / "progress.json")
    if not isinstance(progress, list) or len(progress) != 3 or not all(map(is_count, progress[1:])):
        return
    point.status = "running"
    point.task, point.done, point.total = str(progress[0]), *progress[1:]
    if point.task == "training":  # a resumed run is further than its first report
        point.done = max(point.done, last_step(RunFolder(point.folder).log))


def last_step(log: Path) -> int:
    """The step of the last complete line of a log, read from its end."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        with suppress(ValueError, TypeError, KeyError):
            return int(parse_json(line)["step"])
    return 0


def _read_outcome(point: Point, event: Ended) -> None:
    """Set the status of a point whose job ended."""
    if _read_result(point):
        return
    if event.code == 0:
        point.set_status("failed", "exit code 0, but no outcome was written")
        return
    how = f"killed by signal {-event.code}" if event.code < 0 else f"exit code {event.code}"
    point.set_status("failed", f"{how}{_last_line(point.job / 'output.txt')}")


def _read_result(point: Point) -> bool:
    """Set status and results by the outcome that the job wrote; returns whether it did."""
    outcome = _read(point.job / "outcome.json")
    if not isinstance(outcome, dict):
        return False
    status = outcome.get("status")
    if status not in ("finished", "failed", "interrupted"):
        return False
    point.set_status(status, str(outcome.get("reason", "")))
    if status == "finished":
        point.load_results()
    return True


def _read_interrupted(point: Point) -> None:
    if not _read_result(point):
        began = _read(point.job / "progress.json") is not None
        point.set_status("interrupted" if began else "waiting")


def _last_line(output: Path) -> str:
    try:
        lines = output.read_text("utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f": {lines[-1]}" if lines else ""


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except JSONFileError:
        return None
