"""What test_distributed.py runs under torchrun."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from unittest import mock

from elbowroom.config.sections import load_config
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.training.run import resume, train
from elbowroom.plugins.training.step import Training

from tests.helpers.tiny_run import tiny_config

SHORT = {"steps": 6, "save_every": 3, "evaluate_every": 3, "log_every": 2, "keep": 9}
QUIET = {"console", "tensorboard"}


def config(parallel="ddp", process="masked", **options):
    """No dropout: its masks belong to a rank. The second normaliser needs every rank's count."""
    small = tiny_config(process, parallel=parallel, **(SHORT | options))
    changes = {
        "masked": {"objective.normalise": "units"},
        "gaussian": {
            "weighting": "tests.helpers.tiny_run:Learned",  # parameters outside the network
            "objective.times": {"name": "adaptive", "bins": 4},  # it learns from all ranks
        },
    }
    return load_config(small, {"denoiser.dropout": 0.0, **changes[process]})


def main(out: Path, jobs: list[str]) -> None:
    codes, adapted = {}, {}
    for job in jobs:
        what, _, argument = job.partition(":")
        adapted[job] = states = []
        try:
            with watched(states):
                if what == "resume":
                    result = resume(out / argument, without=QUIET, trust=True)
                else:
                    process, _, micro = (argument or "masked").partition(":")
                    made = config(what, process, micro_batch=int(micro) if micro else None)
                    result = train(made, out / f"{what}-{process}", without=QUIET)
            codes[job] = result.exit_code
        except ElbowroomError as error:
            codes[job] = str(error)
    rank = os.environ.get("RANK", "alone")
    (out / f"codes-{rank}.json").write_text(json.dumps(codes))
    (out / f"adapted-{rank}.json").write_text(json.dumps(adapted))
    (out / f"threads-{rank}.json").write_text(json.dumps(threads_of_the_group()))


def watched(states):
    """Meanwhile ``states`` gets a digest of what has been learned from losses, after each step."""
    plain = Training.adapt

    def adapt(training, losses, unsound):
        plain(training, losses, unsound)
        held = [buffer for part in training.model.adaptive for buffer in part.buffers()]
        content = b"".join(buffer.numpy().tobytes() for buffer in held)
        states.append(hashlib.sha256(content).hexdigest())

    return mock.patch.object(Training, "adapt", adapt)


def threads_of_the_group(patience=60.0):
    """Names of the group's threads that do not end; none where the system does not tell.

    The system lists a thread for some moments after it was joined, so one look is not enough.
    """
    end = time.monotonic() + patience
    while (left := [name for name in threads() if "gloo" in name]) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def threads():
    """The names of this process's threads, as the system lists them."""
    for file in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            yield file.read_text().strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
