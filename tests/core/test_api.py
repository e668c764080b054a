"""The library from Python: assemble, train, sample, evaluate, load."""

from __future__ import annotations

import elbowroom as er
import pytest
import torch
from elbowroom import assemble, evaluate, load, parts_of, sample, train
from elbowroom.errors import ElbowroomError
from elbowroom.objective.diffusion import Diffusion

from tests.helpers.tiny_run import tiny_config

TINY = {
    "data": "digits",
    "process": "masked",
    "weighting": "simple",
    "denoiser": {"name": "dit", "width": 16, "depth": 1},
    "sampler": {"name": "ancestral", "steps": 8},
    "train": {"steps": 4, "batch_size": 8, "log_every": 2, "evaluate_every": None},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("api") / "run"
    model = assemble(TINY)
    result = train(model, out, steps=6, without=["console"])
    return model, result


def test_a_keyword_swaps_a_section():
    """The same config with another process is another model."""
    model = assemble(TINY, process="gaussian")
    assert parts_of(model).config.process.name == "gaussian"
    assert model.process.traits == {"real"}


def test_training_takes_options_and_leaves_a_run(trained):
    """Keywords are the train section's; the folder is a run that says so."""
    model, result = trained
    assert (result.step, result.steps, result.reason) == (6, 6, "finished")
    assert parts_of(model).config.train.steps == 6
    assert not model.training


def test_the_trained_model_is_the_one_that_is_loaded(trained):
    """After training the object has the averaged weights, which are those of the run."""
    model, result = trained
    again = load(result.folder, checkpoint="last")
    mine, theirs = model.state_dict(), again.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    fresh = assemble(TINY).state_dict()
    assert any(not torch.equal(mine[name], fresh[name]) for name in mine)


def test_a_sample_does_not_depend_on_how_it_is_drawn(trained):
    """Sample i is the same from the model, from the run, alone or in a crowd."""
    model, result = trained
    many = sample(model, 7, seed=3, batch_size=7)
    few = sample(result.folder, 3, seed=3, batch_size=2)
    assert torch.equal(many.x[:3], few.x)
    assert many.labels.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert sample(model, 2, labels=9).labels.tolist() == [9, 9]


def test_sampler_options_are_keywords_and_do_not_stick(trained):
    """Fewer steps need fewer calls, and the model is as it was."""
    model, _ = trained
    assert int(sample(model, 4, steps=2).calls.max()) <= 3
    assert model.sampler.steps == 8
    with pytest.raises(ElbowroomError, match="stepz"):
        sample(model, 4, stepz=2)


def test_a_model_is_evaluated_on_its_own_data(trained):
    """Measurements come by name; a wrong keyword lists the right ones."""
    model, _ = trained
    found = evaluate(model, metrics=("bpd",))
    assert 0 < found.measurements["bits_per_dim"].value < 10
    with pytest.raises(ElbowroomError, match="evaluate takes metrics"):
        evaluate(model, metric="bpd")


def test_a_run_is_never_overwritten(trained):
    """Training into a folder with a run is refused."""
    model, result = trained
    with pytest.raises(ElbowroomError, match="has a run already"):
        train(model, result.folder)


def test_a_model_made_by_hand_says_what_is_missing(trained):
    """Without config and data the verbs cannot know what to do, and say so."""
    model, _ = trained
    bare = Diffusion(model.objective, model.denoiser, model.sampler)
    with pytest.raises(ElbowroomError, match="not made by"):
        evaluate(bare)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda model, _: er.sample(model, "4"), "count: got '4'; allowed: an integer from 1 on"),
        (lambda model, _: er.sample(model, 2.5), "count: got 2.5"),
        (lambda model, _: er.sample(model, True), "count: got true"),
        (lambda model, _: er.sample(model, 1, seed=-1), "seed: got -1; allowed: an integer from 0"),
        (lambda model, _: er.sample(model, 1, batch_size="a"), "batch_size: got 'a'"),
        (lambda model, _: er.sample(model, 1, labels={"a": 1}), "labels are integers or names"),
        (lambda *_: er.sample(5), "run: got 5; allowed: a path"),
        (lambda *_: er.load(5), "run: got 5; allowed: a path"),
        (lambda *_: er.resume(None), "run: got null; allowed: a path"),
        (lambda *_: er.evaluate([]), r"run: got \[\]; allowed: a path"),
        (lambda *_: er.assemble("digits", 5), "overrides are a list of key=value, not 5"),
        (lambda *_: er.assemble("digits", [5]), "an override is key=value, not 5"),
        (lambda model, _: er.train(model, 5), "out: got 5; allowed: a path"),
        (lambda model, _: er.save(model, 5), "out: got 5; allowed: a path"),
        (lambda _, out: er.save(5, out), "not made by elbowroom.assemble"),
        (lambda model, _: er.evaluate(model, metrics=5), "metrics: got 5; allowed: a list"),
        (lambda model, _: er.evaluate(model, metrics="bpd"), "metrics: got 'bpd'"),
        (lambda model, _: er.evaluate(model, samples="a"), "samples: got 'a'"),
        (lambda *_: er.build_objective("masked", 5), "data: got 5; allowed: a DataSpec"),
        (lambda model, _: er.sample(model, 1, seed=2**64), r"seed: got 18.*; allowed: .* 2\*\*64"),
        (lambda model, _: er.train(model, "a\0b"), "out: got .*; allowed: a path"),
        (lambda *_: er.load("x" * 5000), "cannot read 'xx.*: File name too long"),
        (lambda *_: er.load("run", device=10**30), "device 10+"),
        (lambda *_: er.compare("digits", vary=5), "vary: got 5; allowed: a mapping"),
        (lambda model, _: model(None), "x is a NoneType; allowed: a tensor of integers"),
    ],
)
def test_a_wrong_type_is_one_sentence(tmp_path, call, words):
    """It names the argument and what it allows."""
    model = er.assemble(tiny_config())
    with pytest.raises(er.ElbowroomError, match=words):
        call(model, tmp_path / "out")
