"""No room: a limit on the size of files stands in for a full disk, at random sizes and commands.

Every command says so in a sentence; with room again, a run goes on and ends as if nothing had been.
"""

from __future__ import annotations

import resource
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from .child import Ended, ran
from .runs import QUIET, config_file, left_behind, same_end, whole_run

_LARGEST = 200_000  # bytes: above every file of a tiny run


def full_disks(
    folder: Path, count: int, chance: Random, tell: Callable[[str], None]
) -> Counter[str]:
    """``count`` of them; what happened, by name."""
    options = {"steps": 12, "save_every": 4, "log_every": 1}
    whole = whole_run(folder, **options)
    config = config_file(folder, **options)
    said: Counter[str] = Counter()
    for n in range(count):
        run, size = folder / "full", int(_LARGEST ** chance.uniform(0.2, 1))
        shutil.rmtree(run, ignore_errors=True)
        ended = _with_little_room(size, chance, config, run, whole)
        kind = ended.fault or ("said so" if ended.code else "there was room enough")
        again = ("--resume", run) if (run / "config.yaml").exists() else (config, "--out", run)
        after = ran("train", *again, *QUIET)
        if after.code or not same_end(run, whole) or left_behind(run):
            kind = f"afterwards {after.fault or after.err or 'another run'}"
        if kind not in ("said so", "there was room enough"):
            tell(f"full disk {n}, {size} bytes: {kind}\n{ended.err[-1500:]}")
            kind = f"unexplained: {kind}"
        said[kind] += 1
    return said


def _with_little_room(size: int, chance: Random, config: Path, run: Path, whole: Path) -> Ended:
    def before() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    way = chance.random()
    if way < 0.5:
        return ran("train", config, "--out", run, *QUIET, before=before)
    shutil.copytree(whole, run)
    if way < 0.6:
        return ran("sample", run, "--count", 4, "--overwrite", before=before)
    if way < 0.7:
        return ran("evaluate", run, "--metric", "bpd", before=before)
    if way < 0.75:
        return ran("export", run, run / "exported", before=before)
    last = max((run / "checkpoints").glob("step-*"))
    shutil.rmtree(last)
    return ran("train", "--resume", run, *QUIET, before=before)
