"""Several processes do what one does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from elbowroom.config.sections import dump_yaml
from elbowroom.errors import ConfigError, ElbowroomError
from elbowroom.plugins.training.ranks import Ranks, process_group
from elbowroom.plugins.training.run import resume, train
from elbowroom.runs.folder import RunFolder

from tests.helpers.free_port import free_port
from tests.helpers.run_ranks import config
from tests.helpers.tiny_run import curve, found, same

ROOT = Path(__file__).parents[3]
HELPERS = ROOT / "tests" / "helpers"
QUIET = {"console", "tensorboard"}


def torchrun(out, *jobs, processes=2):
    """Run jobs of run_ranks.py; what each rank said of each."""
    out.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), str(HELPERS / "run_ranks.py"), str(out), *jobs]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    launched = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        _, words = launched.communicate(timeout=500)
    except subprocess.TimeoutExpired:
        os.killpg(launched.pid, signal.SIGKILL)  # the ranks too
        raise
    assert launched.returncode == 0, words
    for rank in range(processes):  # a thread of the group would abort the process now and then
        assert json.loads((out / f"threads-{rank}.json").read_text()) == []
    return [json.loads((out / f"codes-{r}.json").read_text()) for r in range(processes)]


def close(one, other):
    """Two logs agree, to the rounding of sums taken in another order."""
    a, b = curve(RunFolder(one).rows()), curve(RunFolder(other).rows())
    assert [row["step"] for row in a] == [row["step"] for row in b]
    for left, right in zip(a, b, strict=True):
        numbers = {key: value for key, value in left.items() if key != "curves"}
        assert {key: right[key] for key in numbers} == pytest.approx(numbers, rel=2e-4)


def close_weights(one, other):
    for part in ("model", "ema", "optimiser"):
        a, b = found(one)[-1].read(part), found(other)[-1].read(part)
        torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-4)


def trains_on_two_ranks_as_on_one(tmp_path, parallel, process):
    train(config(process=process), tmp_path / "whole", without=QUIET)
    torchrun(tmp_path / "two", f"{parallel}:{process}")
    close(tmp_path / "whole", tmp_path / f"two/{parallel}-{process}")
    close_weights(tmp_path / "whole", tmp_path / f"two/{parallel}-{process}")


def test_two_ranks_train_as_one_replicated_and_sharded(tmp_path):
    """DDP and FSDP2: loss, bound and weights of one process on the same global batches.

    And back: runs begun on two ranks go on alone, a run begun alone goes on with two.
    """
    train(config(), tmp_path / "whole", without=QUIET)
    out = tmp_path / "two"
    out.mkdir()
    train(config(), out / "alone", without=QUIET)
    for checkpoint in found(out / "alone")[1:]:
        for file in checkpoint.path.iterdir():
            file.unlink()
        checkpoint.path.rmdir()
    assert (
        torchrun(out, "ddp", "fsdp", "resume:alone")
        == [{"ddp": 0, "fsdp": 0, "resume:alone": 0}] * 2
    )
    for name in ("ddp-masked", "fsdp-masked", "alone"):
        close(tmp_path / "whole", out / name)
        close_weights(tmp_path / "whole", out / name)
    for name in ("ddp-masked", "fsdp-masked"):
        last = found(out / name)[-1].path
        last.rename(tmp_path / f"moved-{name}")
        resume(out / name, without=QUIET)
        close(tmp_path / "whole", out / name)


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_micro_batches_on_two_ranks_train_as_one_batch(tmp_path, parallel):
    """Both normalisers, parts of unequal size, a weighting with parameters of its own."""
    out = tmp_path / "two"
    torchrun(out, f"{parallel}:masked:3", f"{parallel}:gaussian:3")
    for process in ("masked", "gaussian"):
        train(config(process=process), tmp_path / process, without=QUIET)
        close(tmp_path / process, out / f"{parallel}-{process}")
        close_weights(tmp_path / process, out / f"{parallel}-{process}")


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_gaussian_runs_on_two_ranks_as_on_one(tmp_path, parallel):
    """The other process, the other normaliser, a weighting with parameters of its own."""
    trains_on_two_ranks_as_on_one(tmp_path, parallel, "gaussian")


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_ranks_leave_cleanly_every_time(tmp_path, parallel):
    """Ten launches, ten clean exits."""
    for n in range(10):
        assert torchrun(tmp_path / str(n), parallel) == [{parallel: 0}] * 2


@pytest.mark.slow
def test_an_error_of_the_first_rank_reaches_all(tmp_path):
    """A folder in use: every rank says so, and none is left waiting."""
    (tmp_path / "two").mkdir()
    train(config(steps=2), tmp_path / "two/ddp-masked", without=QUIET)
    for said in torchrun(tmp_path / "two", "ddp"):
        assert "has a run already" in said["ddp"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_torchrun_asked_to_stop_saves_the_run_which_goes_on(tmp_path, number):
    """It hands the signal on; ranks finish their step, save and end. Its own exit code is 1."""
    path, run = tmp_path / "config.yaml", tmp_path / "run"
    path.write_text(dump_yaml(config(steps=100_000, save_every=100_000, evaluate_every=None)))
    launched = _torchrun_elbowroom("train", path, "--out", run)
    while not RunFolder(run).log.exists() and launched.poll() is None:
        time.sleep(0.05)
    launched.send_signal(number)
    said, words = launched.communicate(timeout=120)
    assert launched.returncode == 1, words
    assert "Resume with" in said and "SignalException" in words
    (saved,) = found(run)
    assert 0 < saved.step < 100_000
    again = _torchrun_elbowroom("train", "--resume", run, f"train.steps={saved.step + 2}")
    _, words = again.communicate(timeout=120)
    assert again.returncode == 0, words
    assert found(run)[-1].step == saved.step + 2


def _torchrun_elbowroom(*arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "elbowroom", *map(str, arguments)]
    command += ["--without", "console", "--without", "tensorboard"]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509  # no threads
    )


def _ranks_of(script, world):
    """The exit codes of a script on some ranks without torchrun, the first one's last."""
    words = [sys.executable, "-c", script]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
    place |= {"OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(words, env={**os.environ, **place, "RANK": str(rank)})
        for rank in range(world)
    ]
    try:
        return [rank.wait(timeout=120) for rank in reversed(ranks)]
    finally:
        for rank in ranks:
            rank.kill()


FIRST_RANK_IS_LATE = """
import os, time
import torch.distributed as dist
from elbowroom.plugins.training.ranks import process_group

def late(leave=dist.destroy_process_group):
    time.sleep(2)
    leave()

if os.environ["RANK"] == "0":
    dist.destroy_process_group = late
for _ in range(2):
    with process_group("cpu") as ranks:
        assert ranks.agree(ranks.rank) == [0, 1]
"""


def test_ranks_meet_again_while_the_first_is_still_leaving():
    """Where it is the store's server, as with srun: the others come back to one that stays."""
    assert _ranks_of(FIRST_RANK_IS_LATE, 2) == [0, 0]


IN_ORDER = """
import itertools, sys
from types import SimpleNamespace
import torch
from elbowroom import Adaptive
from elbowroom.plugins.training.ranks import process_group
from elbowroom.plugins.training.step import Training

class Kept(torch.nn.Module, Adaptive):
    def __init__(self, mine):
        super().__init__()
        self.mine = mine
        self.register_buffer("found", torch.zeros_like(mine))
    def statistics(self, losses):
        return self.mine
    def adapt(self, found):
        self.found.copy_(found)

with process_group("cpu") as ranks:
    random = torch.Generator().manual_seed(0)
    parts = [  # one a rank
        size * torch.randn(60, 3, generator=random, dtype=torch.float64) for size in (1e8, 1, 1e8)
    ]
    due = parts[0] + parts[1] + parts[2]
    for a, b, c in itertools.permutations(parts):
        swapped = a is parts[1] and b is parts[0]  # a + b is b + a, to the bit
        assert a is parts[0] and b is parts[1] or swapped or not torch.equal(a + b + c, due)
    part = Kept(parts[ranks.rank])
    training = SimpleNamespace(model=SimpleNamespace(adaptive=[part]), ranks=ranks)
    Training.adapt(training, None, torch.tensor(0))
    found = part.found
code = 0 if torch.equal(found, due) else 3
sys.exit(code)
"""


@pytest.mark.slow
def test_what_ranks_look_at_is_added_up_in_their_order():
    """Of three, whose sum another order would round otherwise: on every rank, bit by bit."""
    assert _ranks_of(IN_ORDER, 3) == [0, 0, 0]


ADAPTIVE = ("ddp-gaussian", "fsdp-gaussian")


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    """Runs with adaptive times on two ranks: whole ones, and copies cut in the middle."""
    out = tmp_path_factory.mktemp("adapted")
    torchrun(out, *(name.replace("-", ":") for name in ADAPTIVE))
    whole = [json.loads((out / f"adapted-{rank}.json").read_text()) for rank in (0, 1)]
    for name in ADAPTIVE:
        shutil.copytree(out / name, out / f"cut-{name}")
        for later in found(out / f"cut-{name}")[1:]:
            shutil.rmtree(later.path)
    torchrun(out, *(f"resume:cut-{name}" for name in ADAPTIVE))
    cut = [json.loads((out / f"adapted-{rank}.json").read_text()) for rank in (0, 1)]
    return out, whole, cut


@pytest.mark.slow
def test_what_adapts_is_the_same_on_every_rank(adapted):
    """After every step of a run that went through and of one that went on, bit by bit."""
    _, whole, cut = adapted
    for first, second in (whole, cut):
        assert first == second
        assert all(len(set(states)) == len(states) for states in first.values())
    assert [len(states) for states in whole[0].values()] == [6, 6]


@pytest.mark.slow
@pytest.mark.parametrize("name", ADAPTIVE)
def test_two_ranks_with_adaptive_times_go_on_bit_by_bit(adapted, name):
    """Weights, averages, moments and what the times have learned, as if nothing had happened."""
    out, whole, cut = adapted
    assert same(found(out / name)[-1], found(out / f"cut-{name}")[-1])
    assert cut[0][f"resume:cut-{name}"] == whole[0][name.replace("-", ":")][3:]
    learned = found(out / name)[-1].read("model")
    density = next(value for key, value in learned.items() if key.endswith("times.density"))
    assert density.std() > 0.05  # there is something to lose
    assert curve(RunFolder(out / name).rows()) == curve(RunFolder(out / f"cut-{name}").rows())


def test_a_batch_must_divide_among_the_ranks():
    """Said with both numbers."""
    with pytest.raises(ConfigError, match="8 examples do not divide evenly among 3 ranks"):
        Ranks(torch.device("cpu"), 0, 3).positions(8)


def test_one_process_needs_no_ceremony():
    """Alone, means and sums are the values themselves, and errors pass through."""
    with process_group("cpu") as ranks:
        value = torch.tensor([1.0, 2.0])
        assert (ranks.rank, ranks.world, ranks.is_first) == (0, 1, True)
        assert torch.equal(ranks.mean(value), value)
        assert torch.equal(ranks.sum(value), value)
        assert ranks.any(True)
        assert not ranks.any(False)
        assert ranks.first(lambda: "done") == "done"


def test_a_device_that_is_not_there_is_named():
    """Both an unknown word and a missing GPU."""
    with pytest.raises(ConfigError, match="'gpu'"), process_group("gpu"):
        pass
    if not torch.cuda.is_available():
        with pytest.raises(ElbowroomError, match="no GPU"), process_group("cuda"):
            pass
