"""The plan of a comparison: the same benchmark for every point of a grid over config values.

    OUT/
      points/NAME/     a normal run each, named by its values
      jobs/NAME/       job, progress, outcome and output of its process (point.py)
      results.json     all results (results.py)
      results.csv      one line per point; results.tex and results.md: the table of measurements
      frontier-*.svg   quality against cost, where that is varied
      report.html      one page with all of it (elbowroom.plugins.compare.report)

Finished points are not run again. A failed point is reported and the others continue. An
interrupted comparison resumes from the last checkpoints. Points that differ in the sampler alone
are trained once (shared_training.py).
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

from .axes import Axis
from .point import Point
from .shared_training import training_of


@attrs.frozen(eq=False)
class Comparison:
    """A grid over a config."""

    source: str  # a path or a preset's name
    out: Path
    overrides: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()
    skip: tuple[Mapping[str, str], ...] = ()  # combinations that are left out
    seeds: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    protocol: EvaluationProtocol = attrs.field(
        factory=lambda: EvaluationProtocol(checkpoint="last")
    )
    device: str | None = None  # of training and evaluation; None: the available one
    ranks: int = attrs.field(default=1, validator=attrs.validators.ge(1))  # processes per point
    _specs: dict[str, DataSpec | None] = attrs.field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        keys = [axis.key for axis in self.axes]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise ConfigError(f"--vary {twice[0]}: given twice")
        reference = self.protocol.reference
        if reference is not None and not Path(reference).expanduser().is_file():
            raise ConfigError(f"--reference {reference}: no such file")
        if self.protocol.metrics:
            self.protocol.build()  # reports mistakes before training
        for combination in self.skip:
            for key, value in combination.items():
                if not any(axis.key == key and value in axis.values for axis in self.axes):
                    raise ConfigError(f"--skip {key}={value}: no --vary has this value")

    def points(self) -> list[Point]:
        """All points, seeds innermost; raises ConfigError if no config can be read."""
        first = load_config(self.source, self.overrides).seed
        points = [
            self._point(values, seed)
            for values in self._combinations()
            for seed in range(first, first + self.seeds)
        ]
        _share_training(points)
        if all(point.config is None for point in points):
            problems = {point.reason for point in points}
            raise ConfigError("\n".join(sorted(problems)) or "--skip leaves nothing to compare")
        return points

    def _combinations(self) -> Iterator[dict[str, str]]:
        keys = [axis.key for axis in self.axes]
        for values in itertools.product(*(axis.values for axis in self.axes)):
            chosen = dict(zip(keys, values, strict=True))
            if not any(combination.items() <= chosen.items() for combination in self.skip):
                yield chosen

    def _point(self, values: dict[str, str], seed: int) -> Point:
        changes = [*(f"{key}={value}" for key, value in values.items()), f"seed={seed}"]
        name = "__".join(map(_file_name, changes))
        overrides = (*self.overrides, *changes)
        config, problem = None, ""
        try:
            config = load_config(self.source, overrides)
            spec = self._spec(config)
            config = config if spec is None else with_schedule(config, spec)
            to_plain(config)
        except ElbowroomError as error:
            config, problem = None, str(error)
        point = Point(
            name,
            self.out / "points" / name,
            self.out / "jobs" / name,
            config,
            self.protocol,
            values,
            seed,
            overrides,
            device=self.device,
            ranks=self.ranks,
            reason=problem,
        )
        point.commands = self._commands(point)
        return point

    def _spec(self, config: Config) -> DataSpec | None:
        """The data's spec, read once; None where the data are not on this machine."""
        if config.data is None:
            return None
        key = json.dumps(to_plain(config.data), sort_keys=True, default=str)
        if key not in self._specs:
            try:
                self._specs[key] = config.data.build().spec
            except ElbowroomError:
                self._specs[key] = None  # the point reports the error
        return self._specs[key]

    # -- the same by hand

    def _commands(self, point: Point) -> list[str]:
        """Commands that train and evaluate a point."""
        run = str(point.folder)
        train = [*self._program(), "train", self.source, *point.overrides, "--out", run]
        evaluations = [
            [*self._program(), "evaluate", run, *_options(protocol), *self._device(), "--out", out]
            for out, protocol in ((str(folder), one) for folder, one in point.evaluations().items())
        ]
        return [shlex.join(words) for words in ([*train, *self._device()], *evaluations)]

    def _program(self) -> list[str]:
        if self.ranks == 1:
            return ["elbowroom"]
        return ["torchrun", "--standalone", "--nproc-per-node", str(self.ranks), "-m", "elbowroom"]

    def _device(self) -> list[str]:
        return [] if self.device is None else ["--device", self.device]


def _options(protocol: EvaluationProtocol) -> list[str]:
    """A protocol as options of ``elbowroom evaluate``."""
    words = ["--samples", str(protocol.samples), "--seed", str(protocol.seed)]
    if protocol.sample_seeds > 1:
        words += ["--sample-seeds", str(protocol.sample_seeds)]
    words += ["--checkpoint", protocol.checkpoint]
    for metric in protocol.metrics:
        words += ["--metric", metric if isinstance(metric, str) else json.dumps(metric)]
    if protocol.precision != "float32":
        words += ["--precision", protocol.precision]
    words += ["--features", protocol.features] if protocol.features else []
    return words + (["--reference", protocol.reference] if protocol.reference else [])


def refuse_broken(points: Sequence[Point]) -> None:
    """Raise ConfigError if a point's config cannot be read, before anything is trained."""
    broken = {point.label: point.reason for point in points if point.config is None}
    if broken:
        listed = "\n".join(f"{label}: {problem}" for label, problem in broken.items())
        raise ConfigError(
            f"{len(broken)} of the values to compare cannot be run, so nothing is started "
            f"(--skip leaves combinations out):\n{listed}"
        )


def _share_training(points: Sequence[Point]) -> None:
    """Point those with the same training to the first of them."""
    first: dict[str, Path] = {}
    for point in points:
        if point.config is not None:
            training = json.dumps(training_of(point.config), sort_keys=True)
            folder = first.setdefault(training, point.folder)
            point.same_training = None if folder == point.folder else folder


def _file_name(change: str) -> str:
    """A name that is valid in any file system and shell, unique for each change."""
    plain = change.replace("=", "-", 1)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", plain)
    if safe == plain and len(safe) <= 48:
        return safe
    return f"{safe[:40].strip('_')}-{sha256(change.encode()).hexdigest()[:8]}"
