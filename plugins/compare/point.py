"""One point of a comparison: a config and a seed, from plan to measurements.

A point is planned by :class:`~elbowroom.plugins.compare.comparison.Comparison`, run by a worker
process (:mod:`~elbowroom.plugins.compare.worker`), read back from its run's folder and rendered in
tables and report. Its job folder has

    job.json        the config, the run's folder, the protocol, the device, the number of ranks
    progress.json   the current task, how much of it is done, of how much
    outcome.json    how it ended and why
    output.txt      what was printed
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
from elbowroom import Config, ElbowroomError, RunError, load_config
from elbowroom.config import to_plain
from elbowroom.files import read_json
from elbowroom.plugins.evaluation.metric import Measurement
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.evaluation.run import evaluation_folder, read_evaluation
from elbowroom.plugins.training.changes import check_unchanged
from elbowroom.runs import RunFolder

from .axes import short_value

Status = Literal["waiting", "running", "finished", "failed", "interrupted"]

_MEASUREMENT = {field.name for field in attrs.fields(Measurement)}


@attrs.frozen(eq=False, kw_only=True)
class Evaluated:
    """The results of one evaluation of a run, from its ``figures.json``."""

    step: int
    measurements: Mapping[str, Measurement]
    skipped: Mapping[str, str] = attrs.field(factory=dict)  # metric -> why
    failed: Mapping[str, str] = attrs.field(factory=dict)  # metric -> error
    parameters: int | None = None
    calls: float | None = None  # network calls per sample
    train_seconds: float | None = None
    sampling_seconds: float | None = None
    reverse: Mapping[str, Any] | None = None  # sizes and classes of samples.png and reverse.png
    texts: Sequence[str] | None = None

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Evaluated:
        """Read the content of a ``figures.json``."""
        figures: Mapping[str, Mapping[str, Any]] = record["figures"]
        return cls(
            step=record["step"],
            measurements={
                name: Measurement(**{k: v for k, v in one.items() if k in _MEASUREMENT})
                for name, one in figures.items()
            },
            skipped=record["skipped"],
            failed=record["failed"],
            parameters=record.get("parameters"),
            calls=record.get("calls_mean"),
            train_seconds=record.get("train_seconds"),
            sampling_seconds=record["seconds"].get("sampling"),
            reverse=record.get("reverse"),
            texts=record.get("texts"),
        )


@attrs.define(eq=False)
class Point:
    """One config and seed of a comparison: plan, state and results."""

    name: str
    folder: Path  # of the run
    job: Path
    config: Config | None  # None: it cannot be read; ``reason`` has the error
    protocol: EvaluationProtocol
    values: Mapping[str, str] = attrs.field(factory=dict)  # varied key -> value
    seed: int = 0
    overrides: tuple[str, ...] = ()
    same_training: Path | None = None  # run of a point that differs in the sampler alone
    device: str | None = None
    ranks: int = 1  # processes of each training and evaluation

    status: Status = "waiting"
    reason: str = ""
    task: str = ""  # of a running point
    done: int = 0
    total: int = 0

    evaluated: Evaluated | None = None  # at the end of training
    milestones: Sequence[Evaluated] = ()  # along the training, its end included; or none
    commands: Sequence[str] = ()  # the same point by hand

    @property
    def label(self) -> str:
        """The varied values, for tables."""
        return " · ".join(map(short_value, self.values.values())) or "as configured"

    @property
    def title(self) -> str:
        """Label and seed."""
        return f"{self.label} · seed {self.seed}"

    def set_status(self, status: Status, reason: str = "") -> None:
        """Set the status of a point that is not running; only finished points have results."""
        self.status, self.reason, self.task, self.done, self.total = status, reason, "", 0, 0
        if status != "finished":
            self.evaluated, self.milestones = None, ()

    # -- the worker's job

    def job_record(self) -> dict[str, Any]:
        """Content of ``job.json``."""
        assert self.config is not None
        return {
            "config": to_plain(self.config),
            "folder": str(self.folder.resolve()),
            "protocol": self.protocol.record(),
            "same_training": self.same_training and str(self.same_training.resolve()),
            "device": self.device,
            "ranks": self.ranks,
        }

    @classmethod
    def of_job(cls, job: Path) -> Point:
        """Read the point in a job folder."""
        record = read_json(job / "job.json")
        try:
            protocol, same = record["protocol"], record["same_training"]
            return cls(
                job.name,
                Path(record["folder"]),
                job,
                load_config(record["config"]),
                EvaluationProtocol(**{**protocol, "metrics": tuple(protocol["metrics"])}),
                same_training=None if same is None else Path(same),
                device=record["device"],
                ranks=record["ranks"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ElbowroomError(
                f"{job / 'job.json'} is not a job: {type(error).__name__}: {error}"
            ) from None

    # -- its run

    @property
    def run(self) -> RunFolder | None:
        """The run's folder, if a run began there; one of another config is an error."""
        opened = RunFolder(self.folder)
        if self.config is None or not opened.exists:
            return None
        check_unchanged(self.config, opened.plain_config(), str(self.folder))
        return opened

    @property
    def trained(self) -> bool:
        """Has the run reached the config's number of steps?"""
        run = self.run
        latest = None if run is None else run.latest()
        if latest is None or self.config is None:
            return False
        steps: int = self.config.train.steps
        if latest.step > steps:
            raise RunError(
                f"{self.folder} was trained for {latest.step} steps already, more than the "
                f"requested {steps}: choose another folder"
            )
        return bool(latest.step == steps)

    @property
    def damaged(self) -> bool:
        """Does the last checkpoint differ from what was written? Reads all of it."""
        latest = None if self.run is None else self.run.latest()
        return latest is not None and bool(latest.damage())

    # -- its evaluations

    def evaluations(self) -> dict[Path, EvaluationProtocol]:
        """All requested evaluations by folder: milestones in order, then the end."""
        if self.config is None:
            return {}
        train = self.config.train
        wanted = {
            self.folder / f"evaluation-at-{step}": attrs.evolve(self.protocol, checkpoint=str(step))
            for step in sorted(set(train.milestones))
            if step < train.steps
        }
        return {**wanted, evaluation_folder(self.folder): self.protocol}

    def read_evaluations(self) -> dict[Path, Evaluated | None]:
        """All requested evaluations; None: not made yet, or of another protocol or training."""
        wanted = self.evaluations()
        if not self.trained:
            return dict.fromkeys(wanted)
        run = self.run
        assert run is not None
        best = run.best() if self.protocol.checkpoint == "best" else None
        end = best or run.latest()
        found: dict[Path, Evaluated | None] = {}
        for folder, protocol in wanted.items():
            record = read_evaluation(folder)
            same = record is not None and record["protocol"] == _as_json(protocol.record())
            # a run that was lengthened has a new end; evaluations of named steps stay valid
            named = protocol.checkpoint not in ("best", "last")
            current = named or (record and end and end.step == record["step"])
            found[folder] = Evaluated.of_record(record) if record and same and current else None
        return found

    def load_results(self) -> bool:
        """Read all evaluations once; returns whether none is missing and no metric failed."""
        found = self.read_evaluations()
        made = sorted((one for one in found.values() if one), key=lambda one: one.step)
        self.evaluated = found.get(evaluation_folder(self.folder))
        self.milestones = made if len(made) > 1 else ()
        return all(one is not None and not one.failed for one in found.values())

    def record(self, out: Path) -> dict[str, Any]:
        """JSON data of plan, state and results."""
        found = self.evaluated
        return {
            "name": self.name,
            "label": self.label,
            "values": dict(self.values),
            "seed": self.seed,
            "status": self.status,
            "reason": self.reason,
            "folder": str(self.folder.relative_to(out)),
            "commands": self.commands,
            "figures": _figures(found),
            "skipped": dict(found.skipped) if found else {},
            "failed": dict(found.failed) if found else {},
            "step": found and found.step,
            "parameters": found and found.parameters,
            "calls": found and found.calls,
            "train_seconds": found and found.train_seconds,
            "sampling_seconds": found and found.sampling_seconds,
            "reverse": found and found.reverse,
            "texts": found and found.texts,
            "milestones": [{"step": m.step, "figures": _figures(m)} for m in self.milestones],
        }


def _figures(evaluated: Evaluated | None) -> dict[str, Any]:
    return {name: one.record() for name, one in evaluated.measurements.items()} if evaluated else {}


def _as_json(record: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(record))
