"""A comparison small enough for tests, and a launcher that runs its points in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from elbowroom.config.sections import dump_yaml
from elbowroom.plugins.compare.axes import Axis
from elbowroom.plugins.compare.comparison import Comparison
from elbowroom.plugins.compare.worker import main
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.launchers.launcher import Ended, Job, Launcher

from tests.helpers.tiny_run import tiny_config

PROTOCOL = EvaluationProtocol(metrics=("bpd", "neighbours"), samples=20, checkpoint="last")


class Here(Launcher):
    """One after another, in this process; counts what it ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, jobs: Sequence[Job], at_once: int) -> Iterator[Ended | None]:
        for job in jobs:
            yield None
            self.ran.append(job.name)
            assert job.command[:2] == ("-m", "elbowroom.plugins.compare.worker")
            yield Ended(job.name, main(list(job.command[2:])))


def config_file(folder: Path, **train: object) -> Path:
    """The tiny run as a file."""
    path = folder / "tiny.yaml"
    path.write_text(dump_yaml(tiny_config(**{"steps": 4, **train})), "utf-8")
    return path


def comparison(folder: Path, *vary: str, **options: object) -> Comparison:
    return Comparison(
        str(config_file(folder)),
        folder / "out",
        axes=tuple(Axis.parse(text) for text in vary),
        **{"protocol": PROTOCOL, **options},
    )
