"""One point of a comparison: a config, trained in a folder of its own and evaluated.

``python -m elbowroom.plugins.compare.point JOB`` does what ``elbowroom train`` and
``elbowroom evaluate`` do by hand, as far as it is not done yet; training that another point has
done is taken over from it. JOB is a folder that a comparison wrote ``job.json`` into:

    job.json        the config, the run's folder, the protocol, the device, how many ranks
    progress.json   what is being done, how much is done, of how much
    outcome.json    how it ended and why
    output.txt      what was printed

A point of several ranks starts itself again under torchrun's agent, once for each: whatever
launches the job need not know. The first rank decides, writes and speaks for all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
from elbowroom import Config, ElbowroomError, RunError, RunEvent, load_config, train
from elbowroom.cli import log_details, set_up_logging
from elbowroom.config import to_plain
from elbowroom.files import read_json, replace_file
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.evaluation.run import evaluate_run, evaluation_folder, read_evaluation
from elbowroom.plugins.launchers.launcher import ENDS_WITH_INPUT
from elbowroom.plugins.training.changes import check_unchanged
from elbowroom.plugins.training.loop import InterruptedRun
from elbowroom.plugins.training.ranks import process_group
from elbowroom.runs import RunFolder, code_overrides

from .shared_training import adopt, can_adopt

FAILED, INTERRUPTED = 1, 75
_PATIENCE = 120.0  # seconds for another process to leave the folder
_OFTEN = 0.5  # seconds between notes of progress


@attrs.frozen(eq=False)
class Point:
    """What shall be trained where, and how it is judged."""

    config: Config
    folder: Path
    protocol: EvaluationProtocol
    like: Path | None = None  # the run of a point with the same training, another sampler
    device: str | None = None  # where it is trained and judged; None: what there is
    ranks: int = 1  # processes that share each training and evaluation

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Point:
        """The point in a ``job.json``."""
        try:
            protocol = record["protocol"]
            return cls(
                load_config(record["config"]),
                Path(record["folder"]),
                EvaluationProtocol(**{**protocol, "metrics": tuple(protocol["metrics"])}),
                None if record["like"] is None else Path(record["like"]),
                record["device"],
                record.get("ranks", 1),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ElbowroomError(
                f"job.json is not a job: {type(error).__name__}: {error}"
            ) from None

    def record(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "config": to_plain(self.config),
            "folder": str(self.folder.resolve()),
            "protocol": self.protocol.record(),
            "like": None if self.like is None else str(self.like.resolve()),
            "device": self.device,
            "ranks": self.ranks,
        }

    @property
    def run(self) -> RunFolder | None:
        """The folder, if a run began there; one of another config is refused."""
        opened = RunFolder(self.folder)
        if not opened.exists:
            return None
        check_unchanged(self.config, opened.plain_config(), str(self.folder))
        return opened

    @property
    def trained(self) -> bool:
        """Is the run as long as the config wants it?"""
        run = self.run
        latest = None if run is None else run.latest()
        if latest is None:
            return False
        if latest.step > self.config.train.steps:
            raise RunError(
                f"{self.folder} was trained for {latest.step} steps already, and "
                f"{self.config.train.steps} are asked for: choose another folder"
            )
        return bool(latest.step == self.config.train.steps)

    @property
    def damaged(self) -> bool:
        """Is the run's last checkpoint not what was written? Every byte of it is read."""
        latest = None if self.run is None else self.run.latest()
        return latest is not None and bool(latest.damage())

    def wanted(self) -> dict[Path, EvaluationProtocol]:
        """Every evaluation of the run, by its folder: the milestones in order, then the end."""
        train = self.config.train
        on_the_way = sorted(step for step in set(train.milestones) if step < train.steps)
        return {
            **{
                self.folder / f"evaluation-at-{step}": attrs.evolve(
                    self.protocol, checkpoint=str(step)
                )
                for step in on_the_way
            },
            evaluation_folder(self.folder): self.protocol,
        }

    def missing(self) -> dict[Path, EvaluationProtocol]:
        """The evaluations that were not made yet, or in which a metric failed."""
        found = {folder: self._found(folder, asked) for folder, asked in self.wanted().items()}
        return {
            folder: asked
            for folder, asked in self.wanted().items()
            if (record := found[folder]) is None or record.get("failed")
        }

    def evaluation(self) -> dict[str, Any] | None:
        """What was found of the finished run by this very protocol, if it was."""
        return self._found(evaluation_folder(self.folder), self.protocol)

    def milestones(self) -> list[dict[str, Any]]:
        """What was found along the run, in order; nothing where only its end was looked at."""
        found = [self._found(folder, asked) for folder, asked in self.wanted().items()]
        judged = [one for one in found if one is not None]
        return sorted(judged, key=lambda one: one["step"]) if len(judged) > 1 else []

    def _found(self, folder: Path, asked: EvaluationProtocol) -> dict[str, Any] | None:
        if not self.trained:
            return None
        found = read_evaluation(folder)
        plain = json.loads(json.dumps(asked.record()))
        if found is None or found["protocol"] != plain:
            return None
        return found if self._is_of_the_end(found) else None

    def _is_of_the_end(self, found: Mapping[str, Any]) -> bool:
        """A run that was lengthened has new checkpoints: what was found before is of old ones."""
        run = self.run
        chosen = None if run is None else (run.best() if self._wants_best else run.latest())
        named = found["protocol"]["checkpoint"] not in ("best", "last")
        return named or (chosen is not None and chosen.step == found["step"])

    @property
    def _wants_best(self) -> bool:
        return self.protocol.checkpoint == "best" and self.run is not None and bool(self.run.best())


def run_point(job: Path) -> int:
    """Do what is missing of a point; the exit code."""
    point = Point.of_record(read_json(job / "job.json"))
    if point.ranks > 1 and "RANK" not in os.environ:
        return _under_torchrun(job, point.ranks)
    with process_group("cpu") as ranks:  # what one rank finds before another has changed it
        needs_training = ranks.first(lambda: _ready(point, job))
    if needs_training:
        _jobs[point.folder] = job
        try:
            train(point.config, point.folder, device=point.device, auto_resume=True)
        except InterruptedRun as error:
            _end(job, "interrupted", f"at step {error.result.step} of {error.result.steps}")
            return error.exit_code
    with process_group("cpu") as ranks:
        missing = ranks.first(lambda: [str(folder) for folder in point.missing()])
    progress = sparing_notes(job)
    failed: dict[str, str] = {}
    for folder, protocol in point.wanted().items():
        if str(folder) in missing:
            failed |= evaluate_run(
                point.folder,
                code_overrides(point.config),
                protocol,
                out=folder,
                device=point.device,
                progress=progress,
            ).failed
    _end(job, "finished", "; ".join(f"{name} failed: {why}" for name, why in failed.items()))
    return FAILED if failed else 0


_jobs: dict[Path, Path] = {}  # run -> job, of the point this process trains


def note_training(event: RunEvent) -> None:
    """Leave word of a training step, if it is that of a point."""
    if event.folder in _jobs:
        note(_jobs[event.folder], "training", event.step, event.steps)


def _ready(point: Point, job: Path) -> bool:
    """Take over training that is done already: must it be trained?"""
    if point.folder.is_dir():  # one that was begun before may still be saving itself
        with RunFolder(point.folder).locked(_PATIENCE):
            pass
    if not point.trained and point.like is not None and can_adopt(point.config, point.like):
        adopt(point.config, point.folder, point.like)
    needs_training = not point.trained or bool(point.missing() and point.damaged)
    if needs_training:
        note(job, "training", 0, point.config.train.steps)
    return needs_training


def _under_torchrun(job: Path, ranks: int) -> int:
    """The same job once for each rank, cores shared out among them; the agent's exit code."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    if getattr(sys.flags, "safe_path", False):  # ranks shall import what this process imports
        os.environ["PYTHONSAFEPATH"] = "1"
    threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    os.environ["OMP_NUM_THREADS"] = str(max(1, threads // ranks))
    words = ["--standalone", "--nproc-per-node", str(ranks), "-m", __spec__.name, str(job)]
    try:
        torchrun(words)
    except ChildFailedError as error:
        return max(failure.exitcode for failure in error.failures.values()) or FAILED
    except SignalException:
        return INTERRUPTED  # the ranks have saved themselves
    return 0


def _first_rank() -> bool:
    return os.environ.get("RANK", "0") == "0"


def note(job: Path, what: str, done: int, of: int) -> None:
    """Leave word of how far it is; the first rank does."""
    if not _first_rank():
        return
    aside = job / ".progress.json"
    aside.write_text(json.dumps([what, done, of]), "utf-8")
    aside.replace(job / "progress.json")


def sparing_notes(job: Path) -> Callable[[str, int, int], None]:
    """Leaves word of another task at once, and of how far one is now and then."""
    said = ("", 0.0)  # what was being done, and when it was noted

    def progress(what: str, done: int, of: int) -> None:
        nonlocal said
        if what != said[0] or time.monotonic() - said[1] > _OFTEN:
            note(job, what, done, of)
            said = (what, time.monotonic())

    return progress


def _end(job: Path, status: str, reason: str) -> None:
    """Leave word of the end: of the first rank, or of another where that one said nothing."""
    if not _first_rank() and (status != "failed" or (job / "outcome.json").exists()):
        return
    replace_file(job / "outcome.json", json.dumps({"status": status, "reason": reason}).encode())


def _end_with_parent() -> None:
    """Stop as at SIGTERM when the process that started this is gone: standard input then ends."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):  # not through sys.stdin: its lock aborts the exit
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="elbowroom-parent", daemon=True).start()


def main(arguments: list[str]) -> int:
    """The command; what went wrong is left in ``outcome.json``."""
    job = Path(arguments[0])
    if os.environ.get(ENDS_WITH_INPUT) and "RANK" not in os.environ:  # the agent stops its ranks
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
        words = " ".join(str(error).split())
        _end(job, "failed", f"{type(error).__name__}: {words}")
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    set_up_logging()
    log_details()  # its output is the point's log
    sys.exit(main(sys.argv[1:]))
