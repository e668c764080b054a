"""One file of a run is harmed, and a command is given the run.

It may do as if nothing had happened only if nothing has: the result is then that of the run never
harmed, bit by bit. Otherwise it says so, in a warning or in a refusal, without a traceback; and
what it refuses it leaves as it was.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from .child import Ended, ran
from .harm import HARM
from .runs import QUIET, cut_run, files_of, same_end, samples_in, tree, whole_run

_DRAW = ("--count", 4, "--batch-size", 4, "--overwrite")


def corruptions(
    folder: Path, count: int, chance: Random, tell: Callable[[str], None]
) -> Counter[str]:
    """``count`` of them; what happened, by name. What begins with "unexplained" should not be."""
    whole = whole_run(folder, steps=12, keep=3, evaluate_every=4)
    cut = cut_run(whole, folder / "cut")
    ran("sample", cut, *_DRAW, "--checkpoint", "last")
    ran("evaluate", cut, "--metric", "bpd", "--samples", 4)
    drawn = samples_in(cut / "samples")
    said: Counter[str] = Counter()
    for n in range(count):
        run = folder / "harmed"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(cut, run)
        words = _harmed(run, chance)
        command = chance.choice(("resume", "resume", "resume", "sample", "evaluate", "export"))
        before = tree(p for p in files_of(run) if p.name != ".lock")
        ended = _asked(command, run, folder)
        kind = ended.fault or _judged(command, ended, run, whole, drawn)
        if ended.code == 2 and tree(p for p in files_of(run) if p.name != ".lock") != before:
            kind = "it refused and had changed something"
        if kind in _EXPLAINED:
            said[kind] += 1
        else:
            said[f"unexplained: {kind}"] += 1
            tell(f"corruption {n}: {command} after {words}: {kind}\n{ended.err[-1500:]}")
    return said


_EXPLAINED = (
    "refused in a sentence",
    "mended or unharmed: the same result",
    "warned and went on",
)


def _harmed(run: Path, chance: Random) -> str:
    """Harm a file, metadata rather than tensors; in words."""
    files = files_of(run)
    plain = [p for p in files if p.suffix in (".json", ".jsonl", ".yaml") or p.name == ".lock"]
    ours = [p for p in files if "samples" not in p.parts and "tensorboard" not in p.parts]
    file = chance.choice(plain if chance.random() < 0.6 else ours)
    harm = chance.choice(HARM)
    if file.parent == run and harm.__name__ == "lose_the_folder":
        harm = HARM[0]
    harm(file, chance)
    return f"{harm.__name__.replace('_', ' ')}: {file.relative_to(run)}"


def _asked(command: str, run: Path, folder: Path) -> Ended:
    if command == "resume":
        return ran("train", "--resume", run, *QUIET)
    if command == "sample":
        return ran("sample", run, *_DRAW, "--checkpoint", "last")
    if command == "evaluate":
        return ran("evaluate", run, "--metric", "bpd", "--samples", 4)
    shutil.rmtree(folder / "exported", ignore_errors=True)
    return ran("export", run, folder / "exported")


def _judged(command: str, ended: Ended, run: Path, whole: Path, drawn: str) -> str:
    if ended.code == 2:
        return "refused in a sentence"
    same = {
        "resume": lambda: same_end(run, whole),
        "sample": lambda: samples_in(run / "samples") == drawn,
    }.get(command, lambda: True)
    if same():
        return "mended or unharmed: the same result"
    return "warned and went on" if "warning:" in ended.err else "another result, without a word"
