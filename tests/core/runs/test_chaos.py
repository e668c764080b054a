"""The chaos of `make test-chaos`, in small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_every_part_runs_and_explains_itself(tmp_path):
    """A few of each; the counts are kept, and a part that was done is not done again."""
    few = {"CHAOS_KILLS": "3", "CHAOS_CORRUPTIONS": "6", "CHAOS_DISKS": "3", "CHAOS_CONFIGS": "100"}
    environment = {
        **os.environ,
        **few,
        "OMP_NUM_THREADS": "1",
        "CHAOS_OUT": str(tmp_path / "c.json"),
    }
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "tests.chaos"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.endswith("unexplained: 0\n")
    assert len(json.loads((tmp_path / "c.json").read_text())) == 4
