"""``python -m tests.chaos``: everything that can go wrong, by the hundred, and the counts.

    CHAOS_SEED=0               which chances
    CHAOS_PARTS=kills,...      kills, corruptions, disks, configs
    CHAOS_KILLS=120            how many of each; also CHAOS_CORRUPTIONS, CHAOS_DISKS, CHAOS_CONFIGS
    CHAOS_OUT=FILE             keep the counts there, and skip the parts that it has

Ends with 1 if anything is unexplained.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from .child import warm_up
from .configs import configs
from .corruptions import corruptions
from .disk import full_disks
from .kills import kills

PARTS = {
    "kills": (kills, 120),
    "corruptions": (corruptions, 400),
    "disks": (full_disks, 40),
    "configs": (configs, 12_000),
}


def main() -> int:
    warm_up()
    seed = int(os.environ.get("CHAOS_SEED", "0"))
    asked = os.environ.get("CHAOS_PARTS", ",".join(PARTS)).split(",")
    kept = Path(os.environ["CHAOS_OUT"]) if os.environ.get("CHAOS_OUT") else None
    counts = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    for name in asked:
        part, usual = PARTS[name]
        count = int(os.environ.get(f"CHAOS_{name.upper()}", usual))
        key = f"{name}, seed {seed}, {count}"
        if key not in counts:
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="chaos ö\n ") as folder:
                said = part(Path(folder), count, Random(f"{name} {seed}"), _tell)
            counts[key] = {**dict(sorted(said.items())), "seconds": round(time.monotonic() - began)}
            if kept is not None:
                kept.write_text(json.dumps(counts, indent=1))
        _print(key, counts[key])
    wrong = sum(n for said in counts.values() for what, n in said.items() if "unexpl" in what)
    sys.stdout.write(f"unexplained: {wrong}\n")
    return int(bool(wrong))


def _tell(words: str) -> None:
    sys.stdout.write(f"  ! {words}\n")
    sys.stdout.flush()


def _print(key: str, said: dict[str, int]) -> None:
    sys.stdout.write(f"{key}\n")
    for what, n in said.items():
        sys.stdout.write(f"  {n:6,}  {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
