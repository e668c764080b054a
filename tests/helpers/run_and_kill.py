"""Runs training in forked children and kills them; called by test_train_kill.py in a fresh process.

Prints one JSON line. Everything is imported before a fork and no thread has been started, so
children are as good as new processes and begin at once.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

import sklearn.datasets  # noqa: F401  # here, so that no child has to
import torch
import torch._dynamo  # torch's optimisers import it at first use
from elbowroom.errors import ElbowroomError
from elbowroom.files import atomic
from elbowroom.plugins.training import loop
from elbowroom.plugins.training.run import resume, train
from elbowroom.plugins.training.step import Training
from elbowroom.runs import checkpoint

from tests.helpers.tiny_run import tiny_config

QUIET = {"console", "tensorboard"}


def child(action) -> int:
    """Start ``action`` in a child; its exit code is 2 for an error meant for people."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = action().exit_code
    except ElbowroomError as error:
        Path(sys.argv[2], f"error-{os.getpid()}").write_text(str(error))
        code = 2
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def go(folder: Path, config):
    """Begin or go on, as a scheduler that restarts a job would."""
    if (folder / "config.yaml").exists():
        return lambda: resume(folder, without=QUIET)
    return lambda: train(config, folder, without=QUIET)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def changed(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


def random_kills(folder: Path, kills: int) -> dict:
    """kill -9 at random moments until the run is through."""
    config = tiny_config(steps=80 * kills, save_every=5, log_every=2)
    chance, killed, log = random.Random(0), 0, folder / "killed/log.jsonl"
    while True:
        seen = changed(log)
        pid = child(go(folder / "killed", config))
        if killed < kills:
            while changed(log) == seen:  # it is about to train
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.25))
            os.kill(pid, signal.SIGKILL)
        code = ended(pid)
        if code == 0:
            break
        assert code == -signal.SIGKILL, code
        killed += 1
    assert ended(child(go(folder / "whole", config))) == 0
    return {"killed": killed}


def kills_while_saving(folder: Path) -> dict:
    """kill -9 after each single write of a save, in turn."""
    config = tiny_config(steps=6, save_every=2)
    moments = ("write_forced", "save_file", "flush_to_disk", "prune", "rename")
    killed = 0
    for moment in moments:
        for nth in (1, 2, 4, 7):
            run = folder / f"{moment}-{nth}"

            def action(moment=moment, nth=nth, run=run):
                _die_at(moment, nth)
                return go(run, config)()

            code = ended(child(action))
            killed += code == -signal.SIGKILL
            assert code in (0, -signal.SIGKILL), code
            assert ended(child(go(run, config))) == 0
    assert ended(child(go(folder / "whole", config))) == 0
    return {"killed": killed}


def _die_at(moment: str, nth: int) -> None:
    owner = {
        "write_forced": atomic, "flush_to_disk": atomic, "save_file": checkpoint,
        "prune": loop, "rename": Path,
    }[moment]  # fmt: skip
    real, calls = getattr(owner, moment), []

    def dying(*arguments, **options):
        calls.append(1)
        if len(calls) == nth:
            if moment == "save_file":  # half a file
                Path(arguments[1]).write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    setattr(owner, moment, dying)


_SIGNALS = {"term": signal.SIGTERM, "int": signal.SIGINT, "hup": signal.SIGHUP}


def signals(folder: Path) -> dict:
    """SIGTERM; SIGINT; SIGHUP; SIGINT twice; each to a run of many steps."""
    codes = {}
    config = tiny_config(steps=100_000, save_every=100_000)
    for name, number in _SIGNALS.items():
        pid = child(go(folder / name, config))
        while not (folder / name / "log.jsonl").exists():
            time.sleep(0.02)
        os.kill(pid, number)
        codes[name] = ended(pid)

    def twice():
        real = Training.step

        def step(self, n):
            real(self, n)
            for _ in range(2):  # within one step: from outside, two at once may count as one
                os.kill(os.getpid(), signal.SIGINT)

        Training.step = step
        return train(config, folder / "twice", without=QUIET)

    codes["twice"] = ended(child(twice))
    return codes


def losses(folder: Path) -> dict:
    """The run's folder is deleted, or changed for a file, while it trains; and one under nohup."""
    codes = {}
    config = tiny_config(steps=100_000, save_every=100_000, log_every=1)
    for name in ("deleted", "a file"):
        pid = child(go(folder / name, config))
        while not (folder / name / "log.jsonl").exists():
            time.sleep(0.02)
        (folder / name).rename(folder / f"{name} was here")
        if name == "a file":
            (folder / name).write_text("")
        codes[name] = ended(pid)

    def under_nohup():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        real = Training.step

        def step(self, n):
            real(self, n)
            os.kill(os.getpid(), signal.SIGHUP)

        Training.step = step
        return train(tiny_config(steps=3), folder / "nohup", without=QUIET)

    codes["nohup"] = ended(child(under_nohup))
    errors = [p.read_text() for p in sorted(folder.glob("error-*"), key=changed)]
    return {"codes": codes, "errors": errors}


def quota(folder: Path) -> dict:
    """A limit on the size of files stands in for a full disk: at start, and on the way."""
    config = tiny_config(steps=8, save_every=4)

    def at_start():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        return train(config, folder / "start", without=QUIET)

    def on_the_way():
        real = checkpoint.write_checkpoint

        def limited(target, parts, state):
            if state.step == 8:
                resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
            return real(target, parts, state)

        import elbowroom.plugins.training.loop as module

        module.write_checkpoint = limited
        return train(config, folder / "way", without=QUIET)

    codes = [ended(child(at_start)), ended(child(on_the_way))]
    errors = [
        p.read_text() for p in sorted(folder.glob("error-*"), key=lambda p: p.stat().st_mtime_ns)
    ]
    after = ended(child(go(folder / "way", config)))
    return {"codes": codes, "errors": errors, "after": after}


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
    tiny_config()  # loads the plugins
    torch.func.jvp(torch.sin, (torch.ones(()),), (torch.ones(()),))  # what this imports
    target = Path(sys.argv[2])
    scenarios = {
        "random": lambda: random_kills(target, int(sys.argv[3])),
        "saving": lambda: kills_while_saving(target),
        "signals": lambda: signals(target),
        "losses": lambda: losses(target),
        "quota": lambda: quota(target),
    }
    print(json.dumps(scenarios[sys.argv[1]]()))
