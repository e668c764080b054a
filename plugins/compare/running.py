"""Running the points of a comparison: what is missing, how each stands, how it ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal

import attrs
from elbowroom import ElbowroomError
from elbowroom.files import JSONFileError, is_count, locked, parse_json, read_json, replace_file
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.launchers.launcher import Ended, Job, Launcher
from elbowroom.plugins.training.signals import Interrupt
from elbowroom.runs import RunFolder, resolve_device

from .comparison import Cell, Comparison

Status = Literal["finished", "failed", "interrupted", "running", "waiting"]


@attrs.frozen
class State:
    """How a point stands."""

    status: Status
    reason: str = ""
    doing: str = ""
    done: int = 0
    of: int = 0


Watch = Callable[[Mapping[str, State]], None]


def run_comparison(
    comparison: Comparison,
    cells: Sequence[Cell],
    launcher: Launcher,
    jobs: int = 1,
    watch: Watch = lambda _: None,
) -> dict[str, State]:
    """Run what is missing; how every point stands at the end, by name.

    SIGINT, SIGTERM and SIGHUP end it cleanly: running points save themselves, and stand as
    interrupted. A second comparison in the same folder is refused meanwhile.
    """
    states = {cell.name: _standing(cell) for cell in cells}
    missing = [cell for cell in cells if states[cell.name].status == "waiting"]
    if not missing:
        watch(states)
        return states
    by_name = {cell.name: cell for cell in missing}
    with locked(comparison.out, "comparing"), Interrupt() as interrupt:
        watch(states)
        if len(missing) > 1 and jobs > 1:
            _warm_up(comparison, missing)
        with closing(_events(launcher, _waves(missing), jobs)) as events:
            for event in events:
                if event is not None:
                    states[event.name] = _ended(by_name[event.name], event)
                for name, state in states.items():
                    if state.status in ("waiting", "running"):
                        states[name] = _progress(by_name[name])
                watch(states)
                if interrupt.asked:
                    break
    for name, state in states.items():
        if state.status in ("waiting", "running"):
            states[name] = _after_interrupt(by_name[name])
    watch(states)
    return states


def _events(
    launcher: Launcher, waves: Sequence[Sequence[Job]], jobs: int
) -> Generator[Ended | None, None, None]:
    for wave in waves:
        with closing(launcher.run(wave, jobs)) as events:  # type: ignore[type-var]  # a generator
            yield from events


def _waves(cells: Sequence[Cell]) -> list[list[Job]]:
    """Jobs: first of the points that train, then of those that take a training over."""
    coming = {cell.folder for cell in cells}
    waves: tuple[list[Job], list[Job]] = ([], [])
    for cell in cells:
        assert cell.point is not None
        waves[cell.point.like in coming].append(_written(cell))
    return [wave for wave in waves if wave]


def _standing(cell: Cell) -> State:
    """How a point stands before anything is run."""
    if cell.point is None:
        return State("failed", cell.problem)
    try:
        return State("waiting" if cell.point.missing() else "finished")
    except ElbowroomError as error:  # the folder has something else
        return State("failed", str(error))


def _written(cell: Cell) -> Job:
    """The job of a point, its folder made ready."""
    assert cell.point is not None
    try:
        cell.job.mkdir(parents=True, exist_ok=True)
        for left in ("outcome.json", "progress.json"):
            (cell.job / left).unlink(missing_ok=True)
        replace_file(cell.job / "job.json", json.dumps(cell.point.record(), indent=1).encode())
    except OSError as error:
        raise ElbowroomError(f"cannot write to {cell.job}: {error.strerror}") from error
    command = (*_same_imports(), "-m", "elbowroom.plugins.compare.point", str(cell.job.resolve()))
    return Job(cell.name, command, cell.job / "output.txt")


def _same_imports() -> tuple[str, ...]:
    """``python -m`` imports from the working folder, and the command elbowroom does not.

    A job shall import nothing that this process would not: the folder may be a stranger's.
    """
    from_here = {"", str(Path.cwd())} & set(sys.path)
    return () if from_here or sys.version_info < (3, 11) else ("-P",)


def _warm_up(comparison: Comparison, cells: Sequence[Cell]) -> None:
    """Make once what all points would make at the same time: what metrics keep of real data."""
    seen: list[Any] = []
    for cell in cells:
        spec = cell.point.config.data if cell.point else None
        if spec is None or spec in seen:
            continue
        seen.append(spec)
        with suppress(ElbowroomError):  # whatever is wrong, each point will say so itself
            subject = Subject(spec.build(), device=resolve_device(comparison.device))
            for metric in comparison.protocol.build().values():
                if metric.uses_samples:
                    metric.prepare(subject)


def _progress(cell: Cell) -> State:
    """What a running job left word of."""
    noted = _read(cell.job / "progress.json")
    if not isinstance(noted, list) or len(noted) != 3 or not all(map(is_count, noted[1:])):
        return State("waiting")
    doing, done, of = noted
    if doing == "training":  # a run that goes on was further than its first word says
        done = max(done, last_step(RunFolder(cell.folder).log))
    return State("running", "", str(doing), done, of)


def last_step(log: Path) -> int:
    """The step of the last whole line of a log, without reading all of it."""
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


def _ended(cell: Cell, event: Ended) -> State:
    """How a job ended."""
    if outcome := _outcome(cell):
        return outcome
    if event.code == 0:
        return State("failed", "exit code 0, but no outcome was written")
    how = f"killed by signal {-event.code}" if event.code < 0 else f"exit code {event.code}"
    return State("failed", f"{how}{_last_words(cell.job / 'output.txt')}")


def _outcome(cell: Cell) -> State | None:
    """What the job itself left word of."""
    outcome = _read(cell.job / "outcome.json")
    if isinstance(outcome, dict) and outcome.get("status") in ("finished", "failed", "interrupted"):
        return State(outcome["status"], str(outcome.get("reason", "")))
    return None


def _after_interrupt(cell: Cell) -> State:
    if outcome := _outcome(cell):
        return outcome
    began = _read(cell.job / "progress.json") is not None
    return State("interrupted" if began else "waiting")


def _last_words(output: Path) -> str:
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
