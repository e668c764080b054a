"""Networks of one's own: any torch.nn.Module in the place of a denoiser."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from functools import partial

import elbowroom as er
import pytest
import torch
from elbowroom.errors import ElbowroomError
from torch import nn

MODULE = '''
import torch
from torch import nn


class Net(nn.Module):
    """A network that knows nothing of elbowroom."""

    def __init__(self, width=8, states=18, values=17):
        super().__init__()
        self.width, self.states, self.values = width, states, values
        self.embed = nn.Embedding(states, width)
        self.label = nn.Embedding(10, width)
        self.head = nn.Linear(width, values)

    def forward(self, z, log_snr, cond):
        return self.head(self.embed(z) + self.label(cond)[:, None, None, None])


class Forgetful(Net):
    def __init__(self, size=8):
        super().__init__(size)


class Liar(Net):
    def __init__(self, width=8):
        super().__init__(width)
        self.width = width + 1


class Narrow(Net):
    def forward(self, z, log_snr, cond):
        return super().forward(z, log_snr, cond)[..., :-1]


class TwoArguments(Net):
    def forward(self, z, log_snr):
        return super().forward(z, log_snr, None)


class Sized(Net):
    def __init__(self, signature, width: int = 4):
        super().__init__(width, signature.in_states, signature.out_states)
'''
SECTIONS = {
    "data": "digits",
    "process": "masked",
    "weighting": "simple",
    "sampler": {"name": "ancestral", "steps": 4},
    "train": {"steps": 3, "batch_size": 8, "evaluate_every": None},
}
QUIET = {"without": ["console", "tensorboard"]}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module of the user's, in a folder that is on the path of this process alone."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    sys.modules.pop("mine", None)
    yield importlib.import_module("mine")
    sys.modules.pop("mine", None)


@pytest.fixture
def batch():
    return er.assemble(SECTIONS, denoiser="dit").parts.data.split("train").take(torch.arange(8))


def test_an_object_and_a_class_are_networks(mine):
    """A class with options is a partial; a class gets the signature if it takes one."""
    ways = {
        mine.Net(8): 8,
        mine.Net: 8,
        partial(mine.Net, width=5): 5,
        mine.Sized: 4,
        partial(mine.Sized, width=3): 3,
    }
    for given, width in ways.items():
        assert er.assemble(SECTIONS, denoiser=given).denoiser.width == width
    with pytest.raises(ElbowroomError, match="allowed: a denoiser"):
        er.assemble(SECTIONS, denoiser=lambda: mine.Net(2))


def test_an_object_is_used_as_it_is(mine):
    """Its weights are what is trained, not a copy."""
    net = mine.Net()
    assert er.assemble(SECTIONS, denoiser=net).denoiser is net


def test_the_weights_of_a_class_depend_on_the_seed_alone(mine):
    """As those of every other network."""
    torch.manual_seed(3)
    first = er.assemble(SECTIONS, denoiser=mine.Net).state_dict()
    torch.manual_seed(4)
    again = er.assemble(SECTIONS, denoiser=mine.Net).state_dict()
    other = er.assemble(SECTIONS, denoiser=mine.Net, seed=1).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("Narrow", r"returned shape \[2, 8, 8, 1, 16\], expected \[2, 8, 8, 1, 17\]"),
        ("TwoArguments", r"called as net\(z, log_snr, cond\): z \[B, 8, 8, 1\] int64 below 18"),
    ],
)
def test_a_network_is_asked_once_and_refused_with_a_sentence(mine, given, said):
    """Before anything is trained."""
    with pytest.raises(ElbowroomError, match=said):
        er.assemble(SECTIONS, denoiser=getattr(mine, given))


def test_asking_leaves_the_network_as_it_was(mine):
    """Neither its running means nor torch's generator move."""

    class Normed(mine.Net):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(8)

        def forward(self, z, log_snr, cond):
            h = self.embed(z) + self.label(cond)[:, None, None, None]
            return self.head(self.norm(h.flatten(0, -2)).unflatten(0, z.shape))

    net = Normed()
    torch.manual_seed(0)
    er.assemble(SECTIONS, denoiser=net)
    drawn = torch.rand(())
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(()))
    assert int(net.norm.num_batches_tracked) == 0


def test_noise_may_be_left_out(mine, batch):
    """torch.manual_seed decides it then; each call draws another."""
    model = er.assemble(SECTIONS, denoiser=mine.Net)
    torch.manual_seed(0)
    first, second = model(batch.x, batch.y).loss, model(batch.x, batch.y).loss
    torch.manual_seed(0)
    assert torch.equal(model(batch.x, batch.y).loss, first)
    assert not torch.equal(first, second)


def test_a_form_of_data_is_enough_for_a_loop_of_ones_own(mine, batch):
    """No data set is looked for; training by elbowroom and evaluation need one."""
    spec = er.DataSpec((8, 8, 1), levels=17, classes=10)
    model = er.assemble(process="masked", data=spec, denoiser=mine.Net, sampler="ancestral")
    model(batch.x, batch.y).loss.backward()
    assert er.sample(model, 2, steps=2).x.shape == (2, 8, 8, 1)
    with pytest.raises(ElbowroomError, match="names none"):
        er.evaluate(model, metrics=("bpd",))
    assert er.evaluate(model, data="digits", metrics=("bpd",)).measurements["bits_per_dim"].value


def test_parts_are_made_by_name(mine, batch):
    """An objective, its process and a sampler, without a config, as assemble makes them."""
    whole = er.assemble(SECTIONS, denoiser=mine.Net)
    spec = er.DataSpec((8, 8, 1), levels=17, classes=10)
    objective = er.build_objective("masked", spec, weighting="simple")
    sampler = er.build_sampler("ancestral", steps=4)
    model = er.Diffusion(objective, whole.denoiser, sampler)
    noise = er.Noise.of(0, 8)
    assert torch.equal(model(batch.x, batch.y, noise).loss, whole(batch.x, batch.y, noise).loss)
    assert torch.equal(er.sample(model, 3).x, er.sample(whole, 3).x)
    assert torch.equal(er.sample(model, 3, steps=2).x, er.sample(whole, 3, steps=2).x)


def test_a_sample_can_be_drawn_by_another_sampler(mine):
    """By name, with options beside it."""
    model = er.assemble(SECTIONS, denoiser=mine.Net)
    assert er.sample(model, 2, sampler="confidence", steps=3).calls.tolist() == [3, 3]


def test_a_saved_model_is_a_run(mine, tmp_path):
    """It draws the same samples when loaded, says where its code is, and goes on."""
    model = er.assemble(SECTIONS, denoiser=mine.Net(width=5))
    run = er.save(model, tmp_path / "run", step=7)
    again = er.load(run, device="cpu", denoiser=mine.Net)
    assert torch.equal(er.sample(again, 3).x, er.sample(model, 3).x)
    recorded = json.loads((run / "provenance.json").read_text())["components"]["denoiser"]
    assert recorded["path"] == str(tmp_path / "code" / "mine.py")
    assert er.resume(run, {"train.steps": 9}, trust=True, **QUIET).step == 9


def test_other_programs_find_the_code_of_a_saved_model(mine, tmp_path):
    """Though its folder is on no path of theirs."""
    er.save(er.assemble(SECTIONS, denoiser=mine.Net), tmp_path / "run")
    words = ["sample", str(tmp_path / "run"), "--count", "2", "--trust"]
    done = subprocess.run(
        [sys.executable, "-m", "elbowroom", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda mine: mine.Forgetful(), "keep each option as an attribute"),
        (lambda mine: type("A.B", (mine.Net,), {}), "A.B, which no other program can find"),
        (lambda mine: mine.Liar(), "could not be loaded again"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(mine, tmp_path, made, said):
    """The reason is told and nothing is left behind."""
    model = er.assemble(SECTIONS, denoiser=made(mine))
    with pytest.raises(ElbowroomError, match=said):
        er.save(model, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["code"]


def test_a_class_of_the_script_is_not_saved(mine, tmp_path, monkeypatch):
    """No other program can import it; training says so and goes on."""
    main = type("Main", (mine.Net,), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Main", main, raising=False)
    model = er.assemble(SECTIONS, denoiser=main)
    with pytest.raises(ElbowroomError, match="put it into a file of its own"):
        er.save(model, tmp_path / "run")
    with pytest.warns(UserWarning, match="only this script can load or resume the run"):
        assert er.train(model, tmp_path / "run", **QUIET).step == 3
    monkeypatch.delattr(sys.modules["__main__"], "Main")
    with pytest.raises(ElbowroomError, match="only the script that defines it can load it"):
        er.load(tmp_path / "run", trust=True)
    assert er.load(tmp_path / "run", denoiser=main)


def test_a_run_of_ones_own_network_goes_on_as_if_nothing_happened(mine, tmp_path):
    """Three steps and three more are six."""
    whole = er.assemble(SECTIONS, denoiser=mine.Net)
    er.train(whole, tmp_path / "whole", steps=6, **QUIET)
    parted = er.assemble(SECTIONS, {"train.save_every": 3}, denoiser=mine.Net)
    er.train(parted, tmp_path / "parted", steps=6, **QUIET)
    shutil.rmtree(tmp_path / "parted" / "checkpoints" / "step-000000006")
    er.resume(tmp_path / "parted", {"denoiser": mine.Net}, **QUIET)
    one, other = (
        er.load(tmp_path / name, device="cpu", denoiser=mine.Net) for name in ("whole", "parted")
    )
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
