"""kill -9 at random moments of every command: the next call does as if nothing had been."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from elbowroom.plugins.evaluation.run import read_evaluation

from .child import ran, started
from .runs import QUIET, config_file, left_behind, same_end, samples_in, whole_run

_STEPS = 60


def kills(folder: Path, count: int, chance: Random, tell: Callable[[str], None]) -> Counter[str]:
    """``count`` that hit, two thirds of them in training; what happened, by name."""
    began = time.monotonic()
    whole = whole_run(folder, steps=_STEPS, save_every=5, log_every=2, evaluate_every=20)
    said: Counter[str] = Counter()
    training = _Training(folder, whole, said, tell, time.monotonic() - began)
    others = (_Sampling(folder, whole), _Evaluating(folder, whole), _Exporting(folder, whole))
    comparing = _Comparing(folder, whole)
    for n in itertools.count():
        if sum(hits for what, hits in said.items() if what.startswith("killed")) >= count:
            break
        if n % 3:
            training.kill(chance)
            continue
        other = comparing if n % 12 == 0 else chance.choice(others)
        hit = _killed(other.command, other.seconds, chance)
        said[f"{'killed' if hit else 'faster than its kill'}: {other.name}"] += 1
        if problem := other.afterwards():
            said[f"unexplained: {problem}"] += 1
            tell(f"kill {n}: {problem}")
    training.finish()
    return said


def _killed(command: tuple[object, ...], seconds: float, chance: Random) -> bool:
    """Kill a command at a random moment of the time it takes; False: it was faster."""
    with started(*command) as (pid, wait):
        time.sleep(chance.uniform(0, seconds))
        os.kill(pid, signal.SIGKILL)
        return wait().code == -signal.SIGKILL


class _Training:
    """One run after another, each killed until it is through."""

    def __init__(
        self,
        folder: Path,
        whole: Path,
        said: Counter[str],
        tell: Callable[[str], None],
        seconds: float,
    ) -> None:
        self.seconds = seconds  # of the run nobody disturbed
        self.run, self.whole, self.said, self.tell = folder / "killed", whole, said, tell
        self.config = config_file(
            folder, steps=_STEPS, save_every=5, log_every=2, evaluate_every=20
        )

    @property
    def command(self) -> tuple[object, ...]:
        begun = (self.run / "config.yaml").exists()
        where = ("--resume", self.run) if begun else (self.config, "--out", self.run)
        return ("train", *where, *QUIET)

    def kill(self, chance: Random) -> None:
        hit = _killed(self.command, 0.8 * self.seconds, chance)
        self.said[f"{'killed' if hit else 'faster than its kill'}: train"] += 1
        if not hit:
            self.finish()

    def finish(self) -> None:
        """Let it come to its end, and compare; the next one begins anew."""
        if not self.run.exists():
            return
        ended = ran(*self.command)
        if ended.code or not same_end(self.run, self.whole) or left_behind(self.run):
            self.said["unexplained: a killed run is another run"] += 1
            self.tell(f"a killed run ended with {ended.code}: {ended.err[-1500:]}")
        else:
            self.said["runs that ended as if never killed"] += 1
        shutil.rmtree(self.run)


class _Command:
    """A command that writes something, and what must be true after it was killed."""

    name = ""

    def __init__(self, folder: Path, run: Path) -> None:
        self.folder, self.run = folder, run
        self.out = folder / f"{self.name} by kill"
        self.prepare()
        began = time.monotonic()
        ran(*self.command)
        self.seconds = time.monotonic() - began  # undisturbed
        shutil.rmtree(self.out)

    def prepare(self) -> None:
        """What it needs."""

    @property
    def command(self) -> tuple[object, ...]:
        raise NotImplementedError

    def afterwards(self) -> str:
        """Run it undisturbed; what is wrong then."""
        if problem := self.half():
            return problem
        ended = ran(*self.command)
        return (
            f"{self.name} after a kill: {ended.fault or ended.err}" if ended.code else self.half()
        )

    def half(self) -> str:
        """Is something there that is not whole?"""
        return ""


class _Sampling(_Command):
    name = "sample"

    @property
    def command(self) -> tuple[object, ...]:
        return ("sample", self.run, "--count", 8, "--out", self.out, "--overwrite")

    def half(self) -> str:
        from PIL import Image

        for file in self.out.glob("[!.]*") if self.out.exists() else ():
            if file.suffix == ".npz":
                samples_in(self.out)
            else:
                Image.open(file).load()
        return ""


class _Evaluating(_Command):
    name = "evaluate"

    @property
    def command(self) -> tuple[object, ...]:
        asked = ("--metric", "bpd", "--metric", "neighbours", "--samples", 8)
        return ("evaluate", self.run, *asked, "--out", self.out)

    def half(self) -> str:
        from PIL import Image

        for file in self.out.glob("[!.]*.png") if self.out.exists() else ():
            Image.open(file).load()
        there = (self.out / "figures.json").exists()
        return "half an evaluation" if there and read_evaluation(self.out) is None else ""


class _Exporting(_Command):
    name = "export"

    @property
    def command(self) -> tuple[object, ...]:
        shutil.rmtree(self.out, ignore_errors=True)
        return ("export", self.run, self.out)

    def half(self) -> str:
        there = self.out.exists() and any(self.out.iterdir())
        needed = ("model_index.json", "model/config.json", "scheduler/scheduler_config.json")
        gone = [name for name in needed if there and not (self.out / name).exists()]
        return f"half an export, without {gone[0]}" if gone else ""


class _Comparing(_Command):
    """By turns from the beginning, and where only the report is to be written."""

    name = "compare"
    times = 0

    def prepare(self) -> None:
        small = self.folder / "compared"
        small.mkdir()
        self.config = config_file(small, steps=8)

    @property
    def command(self) -> tuple[object, ...]:
        asked = ("--metric", "bpd", "--samples", 4, "--vary", "weighting=simple,elbo")
        return ("compare", self.config, *asked, "--out", self.out)

    def afterwards(self) -> str:
        problem = super().afterwards()
        self.times += 1
        if self.times % 2:
            began = time.monotonic()
            ran(*self.command)
            self.whole, self.seconds = self.seconds, time.monotonic() - began
        else:
            shutil.rmtree(self.out)
            self.seconds = self.whole
        return problem

    def half(self) -> str:
        report = self.out / "report.html"
        whole = not report.exists() or report.read_text("utf-8").rstrip().endswith("</html>")
        return "" if whole else "half a report"
