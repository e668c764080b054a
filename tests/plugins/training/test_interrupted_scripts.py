"""A script whose training is interrupted does not continue with an unfinished model."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from elbowroom.config.sections import to_plain

from tests.helpers.tiny_run import found, tiny_config

SCRIPT = """
import json
import sys

import elbowroom as er

config = json.load(open("config.json"))
try:
    if sys.argv[1] == "resume":
        er.resume("run", without=["console", "tensorboard"])
    else:
        given = config if sys.argv[1] == "config" else er.assemble(config)
        er.train(given, "run", without=["console", "tensorboard"])
finally:
    print(type(sys.exc_info()[1]).__name__, sys.exc_info()[1])
print("continued")
"""


@pytest.fixture
def folder(tmp_path):
    config = to_plain(tiny_config(steps=100_000, save_every=100_000, log_every=1))
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def interrupted(folder, how, *signals):
    """What the script prints, and its exit code, if it gets the signals while it trains."""
    log = folder / "run" / "log.jsonl"
    before = log.stat().st_size if log.exists() else 0
    child = subprocess.Popen(
        [sys.executable, "script.py", how],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    while child.poll() is None and (not log.exists() or log.stat().st_size <= before):
        time.sleep(0.02)
    for number in signals:
        child.send_signal(number)
    told, _ = child.communicate()
    return told, child.returncode


@pytest.mark.parametrize("how", ["config", "model"])
def test_sigterm_saves_and_raises(folder, how):
    """The error names the signal, the step and how to continue; so does that of ``er.resume``."""
    told, code = interrupted(folder, how, signal.SIGTERM)
    step = found(folder / "run")[-1].step
    assert told == (
        f"InterruptedRun the run was interrupted by SIGTERM at step {step} of 100000 and saved; "
        "continue with elbowroom.resume('run')\n"
    )
    assert code == 1
    told, code = interrupted(folder, "resume", signal.SIGTERM)
    assert found(folder / "run")[-1].step > step
    assert told.startswith("InterruptedRun") and code == 1


def test_ctrl_c_is_a_keyboard_interrupt(folder):
    """Saved, then raised as Python raises it."""
    told, code = interrupted(folder, "config", signal.SIGINT)
    assert told.startswith("KeyboardInterrupt the run was interrupted by SIGINT at step")
    assert code == -signal.SIGINT
    assert found(folder / "run")[-1].step > 0


def test_sigterm_twice_leaves_a_good_checkpoint(folder):
    """Whether the second comes while it saves or afterwards."""
    told, code = interrupted(folder, "config", signal.SIGTERM, signal.SIGTERM)
    assert "continued" not in told
    assert code in {1, -signal.SIGTERM}
    assert found(folder / "run")[-1].step > 0
