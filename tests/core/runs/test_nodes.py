"""Two nodes, one of which dies: the job goes on from its last checkpoint by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from elbowroom.config.sections import dump_yaml
from elbowroom.runs.folder import RunFolder

from tests.helpers.free_port import free_port
from tests.helpers.run_ranks import config
from tests.helpers.tiny_run import curve, found, same

ROOT = Path(__file__).parents[3]
STEPS = 600
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # docs/how-to/many-gpus.md has the reason


def agent(how, *command, log):
    """One torchrun with one rank, as a machine of a job would start it."""
    words = [sys.executable, "-m", "torch.distributed.run", *how, "-m", "elbowroom", "train"]
    environment = {**os.environ, **NEW_STORE, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with log.open("w") as file:
        return subprocess.Popen(
            [*words, *map(str, command), "--without", "console", "--without", "tensorboard"],
            stdout=file,
            stderr=file,
            env=environment,
        )


def words(folder):
    """What all agents and ranks said."""
    return "\n".join(f"{log.name}:\n{log.read_text()}" for log in sorted(folder.glob("*.txt")))


def kill_node(launched):
    """The agent and its rank, as when a machine is switched off."""
    ranks = Path(f"/proc/{launched.pid}/task/{launched.pid}/children").read_text().split()
    for process in (launched.pid, *map(int, ranks)):
        os.kill(process, signal.SIGKILL)
    launched.wait()


def wait_until(done, nodes):
    """Until ``done()``, or until a node has failed: the others would wait for it for ever."""
    while not done() and not any(one.poll() for one in nodes):
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds ranks in /proc")
def test_a_job_goes_on_when_one_of_its_nodes_dies_and_comes_back(tmp_path):
    """With the weights and the curve of two ranks that nobody killed, bit by bit."""
    path, run = tmp_path / "config.yaml", tmp_path / "run"
    path.write_text(dump_yaml(config(steps=STEPS, save_every=50, evaluate_every=None)))
    endpoint = f"127.0.0.1:{free_port()}"

    def node(hosts, name):
        how = ["--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-id=job"]
        how += ["--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}"]
        how += [f"--rdzv-conf=is_host={str(hosts).lower()}"]  # both are on this machine
        return agent(how, path, "--out", run, "--auto-resume", log=tmp_path / f"{name}.txt")

    nodes = [node(True, "first"), node(False, "second")]
    try:
        wait_until(lambda: found(run), nodes)
        assert found(run), words(tmp_path)
        kill_node(nodes[1])
        killed_at = found(run)[-1].step
        nodes[1] = node(False, "second-again")
        wait_until(lambda: None not in [one.poll() for one in nodes], nodes)
        assert [one.poll() for one in nodes] == [0, 0], words(tmp_path)
    finally:
        for one in nodes:
            if one.poll() is None:
                kill_node(one)
    assert 0 < killed_at < STEPS, "it was through before it could be killed"
    alone = ["--standalone", "--nproc-per-node=2"]
    never_killed = agent(alone, path, "--out", tmp_path / "whole", log=tmp_path / "whole.txt")
    assert never_killed.wait(timeout=400) == 0, (tmp_path / "whole.txt").read_text()
    assert found(run)[-1].step == STEPS
    assert same(found(tmp_path / "whole")[-1], found(run)[-1])
    assert curve(RunFolder(tmp_path / "whole").rows()) == curve(RunFolder(run).rows())
