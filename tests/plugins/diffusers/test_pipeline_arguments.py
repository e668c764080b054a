"""ElbowroomPipeline takes what diffusers' own pipelines take."""

from __future__ import annotations

import pytest
import torch
from diffusers import DDIMScheduler
from elbowroom import ElbowroomError, assemble, load, sample, train
from elbowroom.plugins.diffusers.export import ElbowroomPipeline
from elbowroom.plugins.export.export import export_run

TINY = {
    "data": {"name": "digits", "size": 4, "levels": 5, "limit": 64},
    "process": "gaussian",
    "denoiser": {"name": "dit", "width": 16, "depth": 1},
    "sampler": {"name": "ancestral", "steps": 4},
    "train": {"steps": 1, "batch_size": 8, "evaluate_every": None},
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Process -> a run and its export."""
    found = {}
    for process in ("gaussian", "masked"):
        place = tmp_path_factory.mktemp(process)
        train(assemble(TINY, process=process), place / "run", without=["console"])
        found[process] = place / "run", export_run(place / "run", "diffusers", place / "e")
    return found


def pipe_of(places, process="gaussian", **options):
    pipe = ElbowroomPipeline.from_pretrained(places[process][1], **options)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_a_generator_takes_the_place_of_a_seed(places):
    """Its state decides, and moves on; a list has one for each sample, alone or together."""
    pipe = pipe_of(places)
    one = seeded(3)
    first, second = (pipe(2, generator=one).tokens for _ in range(2))
    assert torch.equal(first, pipe(2, generator=seeded(3)).tokens)
    assert not torch.equal(first, second)
    listed = pipe(2, class_labels=[5, 6], generator=[seeded(1), seeded(2)]).tokens
    alone = pipe(1, class_labels=6, generator=[seeded(2)]).tokens
    assert torch.equal(listed[1:], alone)
    with pytest.raises(ElbowroomError, match="1 generators were given for 2 samples"):
        pipe(2, generator=[seeded(1)])


@pytest.mark.parametrize("process", ["gaussian", "masked"])
def test_a_callback_sees_every_step_and_changes_nothing(places, process):
    """Steps count from 0, times from 1 towards 0; other latents are refused."""
    pipe, seen = pipe_of(places, process), []

    def look(of, step, timestep, given):
        assert of is pipe
        seen.append((step, float(timestep), tuple(given["latents"].shape)))
        return given

    drawn = pipe(2, callback_on_step_end=look, sampler={"name": "ancestral", "steps": 4,
                                                        "skip": False})  # fmt: skip
    assert seen == [(i, 1 - i / 4, (2, 4, 4, 1)) for i in range(4)]
    assert torch.equal(drawn.tokens, pipe(2).tokens)
    with pytest.raises(ElbowroomError, match="cannot change them"):
        pipe(1, callback_on_step_end=lambda _, __, ___, given: {"latents": given["latents"] + 1})
    with pytest.raises(ElbowroomError, match="only 'latents'"):
        pipe(1, callback_on_step_end=look, callback_on_step_end_tensor_inputs=["prompt_embeds"])


def test_a_scheduler_of_diffusers_stands_in_the_place_of_ours(places):
    """It draws what the sampler of that scheduler draws, whether given at first or put in later."""
    options = {"clip_sample": False, "timestep_spacing": "trailing"}
    named = {"name": "diffusers", "scheduler": "DDIMScheduler", "steps": 5}
    ours = sample(load(places["gaussian"][0], {"sampler": named}), 3, seed=1).x
    given = pipe_of(places, scheduler=DDIMScheduler(**options))
    assert torch.equal(given(3, seed=1, num_inference_steps=5).tokens, ours)
    later = pipe_of(places)
    later.scheduler = DDIMScheduler(**options)
    assert torch.equal(later(3, seed=1, num_inference_steps=5).tokens, ours)
    steps = []
    later(1, num_inference_steps=5, callback_on_step_end=lambda _, __, t, ___: steps.append(int(t)))
    assert steps == [999, 799, 599, 399, 199]


def test_a_masked_model_says_that_it_takes_none(places):
    """Noise of another kind than the model's is refused by name."""
    with pytest.raises(ElbowroomError, match="DDIMScheduler needs a Gaussian model"):
        pipe_of(places, "masked", scheduler=DDIMScheduler())(1)
