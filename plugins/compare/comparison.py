"""Comparing: the same benchmark for every point of a grid over config values.

    OUT/
      points/NAME/     a normal run each, named by its values
      jobs/NAME/       what was asked of it, how far it is, how it ended (see point.py)
      results.json     everything that was found (see results.py)
      results.csv      one line a point
      report.html      the same to be looked at (elbowroom.plugins.compare.report)

What is finished is not run again; what failed is shown with its reason while the others go on; what
was interrupted goes on from its last checkpoint at the next call. Points that differ in the sampler
alone are trained once: the others wait for the first of them and take its training over
(elbowroom.plugins.compare.shared_training).
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import attrs
from elbowroom import (
    Config,
    ConfigError,
    DataSpec,
    ElbowroomError,
    Ended,
    EvaluationProtocol,
    Interrupt,
    Job,
    JSONFileError,
    Launcher,
    RunFolder,
    Subject,
    is_count,
    load_config,
    locked,
    parse_json,
    place,
    read_json,
    remember_code,
    replace_file,
    settled,
    to_plain,
)

from .point import Point
from .shared_training import training_of

Status = Literal["finished", "failed", "interrupted", "running", "waiting"]


@attrs.frozen
class Axis:
    """One config value that is varied."""

    key: str
    values: tuple[str, ...]  # as they are typed after ``key=``

    @classmethod
    def parse(cls, text: str) -> Axis:
        """``process=gaussian,masked``; commas inside brackets and quotes belong to a value."""
        key, equals, rest = text.partition("=")
        values = tuple(value.strip() for value in _split(rest))
        if not equals or not key.strip() or not all(values):
            raise ConfigError(f"--vary {text}: write --vary KEY=VALUE,VALUE,...")
        if key.strip() == "seed":
            raise ConfigError("--vary seed: seeds are varied by --seeds N")
        return cls(key.strip(), values)._checked()

    @classmethod
    def of(cls, key: str, values: Sequence[Any]) -> Axis:
        """Values given in Python, written as they would be typed."""
        return cls(key, tuple(v if type(v) is str else json.dumps(v) for v in values))._checked()

    def _checked(self) -> Axis:
        twice = [value for value in self.values if self.values.count(value) > 1]
        if twice:
            text = f"{self.key}={','.join(self.values)}"
            raise ConfigError(f"--vary {text}: {twice[0]} is named twice")
        return self


def _short(value: str) -> str:
    """``{name: gaussian, predict: levels}`` as ``gaussian (predict: levels)``."""
    mapping = re.fullmatch(r"\{\s*name:\s*([^,{}]+?)\s*(?:,\s*(.+?)\s*)?\}", value)
    if mapping is None:
        return value
    name, options = mapping.groups()
    return f"{name} ({options})" if options else name


def parse_skip(text: str) -> dict[str, str]:
    """``process=gaussian weighting=simple``: values that are not wanted together."""
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise ConfigError(f"--skip {text}: {error}") from error
    if not words or not all(key and equals and value for key, equals, value in words):
        raise ConfigError(f"--skip {text}: write --skip 'KEY=VALUE KEY=VALUE'")
    return {key: value for key, _, value in words}


def _split(text: str) -> Iterator[str]:
    """Parts between commas, minding brackets and quotes."""
    depth, quote, start = 0, "", 0
    for k, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "{[(":
            depth += 1
        elif letter in "}])":
            depth -= 1
        elif letter == "," and not depth:
            yield text[start:k]
            start = k + 1
    yield text[start:]


@attrs.frozen(eq=False)
class Cell:
    """One point of the grid: what it is called, and how it stands."""

    name: str
    values: Mapping[str, str]  # what is varied -> its value here
    seed: int
    overrides: tuple[str, ...]
    folder: Path
    job: Path
    point: Point | None  # None: its config cannot be read
    problem: str = ""

    @property
    def label(self) -> str:
        """Its values, for people."""
        return " · ".join(map(_short, self.values.values())) or "as configured"


@attrs.frozen(eq=False)
class Comparison:
    """A grid over a config."""

    source: str  # a path or a preset's name
    out: Path
    overrides: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()
    skip: tuple[Mapping[str, str], ...] = ()  # values that are not wanted together
    seeds: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    protocol: EvaluationProtocol = attrs.field(
        factory=lambda: EvaluationProtocol(checkpoint="last")
    )
    device: str | None = None  # where points are trained and judged; None: what there is there
    _forms: dict[str, DataSpec | None] = attrs.field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        keys = [axis.key for axis in self.axes]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise ConfigError(f"--vary {twice[0]}: it is varied twice")
        for unwanted in self.skip:
            for key, value in unwanted.items():
                if not any(axis.key == key and value in axis.values for axis in self.axes):
                    raise ConfigError(f"--skip {key}={value}: no --vary has this value")

    def cells(self) -> list[Cell]:
        """Every point, seeds innermost; an error that all of them share is raised."""
        first = load_config(self.source, self.overrides).seed
        cells = [
            self._cell(values, seed)
            for values in self._choices()
            for seed in range(first, first + self.seeds)
        ]
        cells = _trained_once(cells)
        problems = {cell.problem for cell in cells}
        if all(cell.point is None for cell in cells):
            raise ConfigError("\n".join(sorted(problems)) or "--skip leaves nothing to compare")
        return cells

    def _choices(self) -> Iterator[dict[str, str]]:
        keys = [axis.key for axis in self.axes]
        for values in itertools.product(*(axis.values for axis in self.axes)):
            chosen = dict(zip(keys, values, strict=True))
            if not any(unwanted.items() <= chosen.items() for unwanted in self.skip):
                yield chosen

    def _cell(self, values: dict[str, str], seed: int) -> Cell:
        words = [*(f"{key}={value}" for key, value in values.items()), f"seed={seed}"]
        name = "__".join(_slug(word) for word in words)
        overrides = (*self.overrides, *words)
        folder, job = self.out / "points" / name, self.out / "jobs" / name
        point, problem = None, ""
        try:
            config = load_config(self.source, overrides)
            form = self._form(config)
            config = config if form is None else settled(config, form)
            point = Point(config, folder, self.protocol, device=self.device)
            to_plain(point.config)
        except ElbowroomError as error:
            point, problem = None, str(error)
        return Cell(name, values, seed, overrides, folder, job, point, problem)

    def _form(self, config: Config) -> DataSpec | None:
        """The form of the data, looked at once; None where they are not on this machine."""
        if config.data is None:
            return None
        key = json.dumps(to_plain(config.data), sort_keys=True, default=str)
        if key not in self._forms:
            try:
                self._forms[key] = config.data.build().spec
            except ElbowroomError:
                self._forms[key] = None  # the point itself will say why
        return self._forms[key]

    def commands(self, cell: Cell) -> list[str]:
        """The same point by hand."""
        train = ["elbowroom", "train", self.source, *cell.overrides, "--out", str(cell.folder)]
        train += self._where()
        judged = {} if cell.point is None else cell.point.wanted()
        evaluations = [
            [*self._evaluation(cell, asked), "--out", str(folder)]
            for folder, asked in judged.items()
        ]
        return [shlex.join(words) for words in (train, *evaluations)]

    def _evaluation(self, cell: Cell, asked: EvaluationProtocol) -> list[str]:
        words = ["elbowroom", "evaluate", str(cell.folder)]
        words += ["--samples", str(asked.samples), "--seed", str(asked.seed)]
        words += ["--checkpoint", asked.checkpoint]
        for metric in asked.metrics:
            words += ["--metric", metric if isinstance(metric, str) else json.dumps(metric)]
        if asked.precision != "float32":
            words += ["--precision", asked.precision]
        return words + (["--features", asked.features] if asked.features else []) + self._where()

    def _where(self) -> list[str]:
        return [] if self.device is None else ["--device", self.device]


def refuse_broken(cells: Sequence[Cell]) -> None:
    """Nothing is trained while some point cannot be: a slip would be found hours later."""
    broken = {cell.label: cell.problem for cell in cells if cell.point is None}
    if broken:
        listed = "\n".join(f"{label}: {problem}" for label, problem in broken.items())
        raise ConfigError(
            f"{len(broken)} of the values to compare cannot be run, so nothing is begun "
            f"(--skip leaves combinations out):\n{listed}"
        )


def _trained_once(cells: Sequence[Cell]) -> list[Cell]:
    """Let points whose training is the same know the first of them: it is trained for all."""
    first: dict[str, Path] = {}
    found = []
    for cell in cells:
        if cell.point is not None:
            training = json.dumps(training_of(cell.point.config), sort_keys=True)
            folder = first.setdefault(training, cell.folder)
            if folder != cell.folder:
                cell = attrs.evolve(cell, point=attrs.evolve(cell.point, like=folder))  # noqa: PLW2901  # the same cell, knowing more
        found.append(cell)
    return found


def _slug(word: str) -> str:
    """A name that any file system and shell takes as it is, still one for each word."""
    plain = word.replace("=", "-", 1)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", plain)
    if safe == plain and len(safe) <= 48:
        return safe
    return f"{safe[:40].strip('_')}-{sha256(word.encode()).hexdigest()[:8]}"


# -- running


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
    for cell in cells:
        if cell.point is not None:
            remember_code(cell.point.config)
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
            subject = Subject(spec.build(), device=place(comparison.device))
            for metric in comparison.protocol.build().values():
                if metric.uses_samples:
                    metric.prepare(subject)


def _progress(cell: Cell) -> State:
    """What a running job left word of."""
    noted = _read(cell.job / "progress.json")
    if not isinstance(noted, list) or len(noted) != 3 or not all(map(is_count, noted[1:])):
        return State("waiting")
    doing, done, of = noted
    if doing == "training":  # its log says it
        done = last_step(RunFolder(cell.folder).log)
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
