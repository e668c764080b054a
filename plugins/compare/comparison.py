"""Comparing: the same benchmark for every point of a grid over config values.

    OUT/
      points/NAME/     a normal run each, named by its values
      jobs/NAME/       what was asked of it, how far it is, how it ended (see point.py)
      results.json     everything that was found (see results.py)
      results.csv      one line a point; results.tex and results.md the table of measurements
      frontier-*.svg   quality against what it costs, where that is varied; the same as .png
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
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import attrs
from elbowroom import Config, ConfigError, DataSpec, ElbowroomError, load_config
from elbowroom.config import to_plain, with_schedule
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol

from .axes import Axis, short_value
from .point import Point
from .shared_training import training_of


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
        return " · ".join(map(short_value, self.values.values())) or "as configured"


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
    ranks: int = attrs.field(default=1, validator=attrs.validators.ge(1))  # processes of a point
    _forms: dict[str, DataSpec | None] = attrs.field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        keys = [axis.key for axis in self.axes]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise ConfigError(f"--vary {twice[0]}: it is varied twice")
        reference = self.protocol.reference
        if reference is not None and not Path(reference).expanduser().is_file():
            raise ConfigError(f"--reference {reference}: there is no such file")
        if self.protocol.metrics:
            self.protocol.build()  # a slip among them would be found only after training
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
            config = config if form is None else with_schedule(config, form)
            point = Point(config, folder, self.protocol, device=self.device, ranks=self.ranks)
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
        train = [*self._program(), "train", self.source, *cell.overrides, "--out", str(cell.folder)]
        train += self._where()
        judged = {} if cell.point is None else cell.point.wanted()
        evaluations = [
            [*self._evaluation(cell, asked), "--out", str(folder)]
            for folder, asked in judged.items()
        ]
        return [shlex.join(words) for words in (train, *evaluations)]

    def _evaluation(self, cell: Cell, asked: EvaluationProtocol) -> list[str]:
        words = [*self._program(), "evaluate", str(cell.folder)]
        words += ["--samples", str(asked.samples), "--seed", str(asked.seed)]
        if asked.sample_seeds > 1:
            words += ["--sample-seeds", str(asked.sample_seeds)]
        words += ["--checkpoint", asked.checkpoint]
        for metric in asked.metrics:
            words += ["--metric", metric if isinstance(metric, str) else json.dumps(metric)]
        if asked.precision != "float32":
            words += ["--precision", asked.precision]
        words += ["--features", asked.features] if asked.features else []
        return words + (["--reference", asked.reference] if asked.reference else []) + self._where()

    def _program(self) -> list[str]:
        if self.ranks == 1:
            return ["elbowroom"]
        return ["torchrun", "--standalone", "--nproc-per-node", str(self.ranks), "-m", "elbowroom"]

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
