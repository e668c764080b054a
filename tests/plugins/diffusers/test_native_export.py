"""A Gaussian U-Net in diffusers' own classes: nothing of elbowroom is needed to draw from it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import numpy as np
import pytest
import torch
from elbowroom import ElbowroomError, Noise, Step, assemble, load, train
from elbowroom.plugins.diffusers.export import ElbowroomPipeline
from elbowroom.plugins.diffusers.export.native import NotNativeError, betas, native, table
from elbowroom.plugins.export.export import export_run
from PIL import Image

SMALL = {
    "data": {"name": "digits", "limit": 64},
    "process": {"name": "gaussian", "predict": "v"},
    "denoiser": {
        "name": "unet", "channels": 8, "multiples": (1, 2), "layers": 1, "head": 4, "groups": 4,
    },
    "sampler": {"name": "ddim", "steps": 6},
    "train": {"steps": 1, "batch_size": 8, "evaluate_every": None},
}  # fmt: skip
COUNT = 3


def a_model(**changes):
    """With a network that says something."""
    model = assemble({**SMALL, **changes}).eval()
    torch.manual_seed(0)
    for parameter in model.denoiser.unet.conv_out.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    return model


def expected_data(model, z, labels):
    """x_hat [B, *D] at the end of the path from z [B, *D], in 0 .. 1 as diffusers shows it."""
    sampler = model.sampler
    with torch.no_grad():
        *_, last = sampler.frames(model, Noise.of(0, len(z)), labels, z)
        end = sampler.levels(model).select(torch.full((len(z),), sampler.steps))
        x = model.predict(last.z, end.over(last.z, last.z.dtype), labels).x
    return (x / 2 + 0.5).clamp(0, 1)


@pytest.mark.parametrize("grid", ["uniform", "log-snr"])
@pytest.mark.parametrize("predict", ["eps", "v", "x"])
def test_the_same_noise_leads_to_the_same_pictures(predict, grid):
    """With as many calls as the run's sampler, a deterministic path ends where ours does."""
    model = a_model(
        process={"name": "gaussian", "predict": predict},
        sampler={"name": "ddim", "steps": 6, "grid": grid},
    )
    made = native(model)
    made.pipeline.set_progress_bar_config(disable=True)
    seeded = torch.Generator().manual_seed(1)
    theirs = made.pipeline(
        COUNT, class_labels=[3, 1, 4], num_inference_steps=made.calls, generator=seeded,
        output_type="np",
    ).images  # fmt: skip
    z = torch.randn(COUNT, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    ours = expected_data(model, z.permute(0, 2, 3, 1), torch.tensor([3, 1, 4]))
    assert ours.std() > 0.05
    torch.testing.assert_close(torch.from_numpy(theirs), ours, rtol=0, atol=1e-3)


def test_data_without_classes_has_the_pipeline_of_its_scheduler(tmp_path):
    """DDIMPipeline and DDPMPipeline, which take no labels."""
    for i in range(40):
        Image.fromarray(np.full((8, 8, 3), 5 * i, dtype="uint8")).save(tmp_path / f"{i}.png")
    data = {"name": "image-folder", "path": str(tmp_path)}
    for sampler, name in (("ddim", "DDIMPipeline"), ("ancestral", "DDPMPipeline")):
        pipe = native(a_model(data=data, sampler={"name": sampler, "steps": 2})).pipeline
        assert type(pipe).__name__ == name
        pipe.set_progress_bar_config(disable=True)
        assert pipe(2, num_inference_steps=3).images[0].size == (8, 8)


def test_a_scheduler_of_diffusers_goes_with_it():
    """A run that samples by DPM-Solver++ takes it along, and its table of levels."""
    model = a_model(sampler={"name": "diffusers", "steps": 5})
    made = native(model)
    made.pipeline.set_progress_bar_config(disable=True)
    theirs = made.pipeline(
        COUNT, class_labels=[0, 1, 2], num_inference_steps=made.calls,
        generator=torch.Generator().manual_seed(1), output_type="np",
    ).images  # fmt: skip
    z = torch.randn(COUNT, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        frames = model.sampler.frames(
            model, Noise.of(0, COUNT), torch.arange(3), z.permute(0, 2, 3, 1)
        )
        *_, last = frames
    ours = (last.z / 2 + 0.5).clamp(0, 1)
    torch.testing.assert_close(torch.from_numpy(theirs), ours, rtol=0, atol=1e-3)


def test_an_ancestral_step_is_that_of_ddpm():
    """Mean and spread of the reverse step are the process's, at every level of the grid."""
    model = a_model(sampler={"name": "ancestral", "steps": 6})
    scheduler = native(model).pipeline.scheduler
    scheduler.set_timesteps(7)
    levels, process, noise = model.sampler.levels(model), model.process, Noise.of(5, 64)
    z, output = torch.randn(2, 64, 8, 8, 1, generator=torch.Generator().manual_seed(0))
    for i in range(6):
        index = torch.full((64,), i)
        here, to = (levels.select(index + j).over(z, z.dtype) for j in (0, 1))
        step = Step(index, here, to, here)
        prediction = process.read(output, z, here)
        ours = process.reverse(z, prediction, step, noise)
        theirs = scheduler.step(
            output, scheduler.timesteps[i], z, generator=torch.Generator().manual_seed(2)
        ).prev_sample
        std = (to.noise_share * -torch.expm1(here.log_snr - to.log_snr)).sqrt()
        ours = ours - std * noise.at(index).normal("reverse", z.shape[1:])
        fresh = torch.randn(z.shape, generator=torch.Generator().manual_seed(2))
        torch.testing.assert_close(theirs - std * fresh, ours, rtol=0, atol=2e-3)


@pytest.mark.parametrize("steps", [1, 6, 256])
def test_the_table_holds_the_grid(steps):
    """The levels of the sampler stand where diffusers looks, and betas in float32 keep them."""
    model = a_model(sampler={"name": "ddim", "steps": steps})
    log_snr = table(model.sampler, model)
    assert bool((log_snr.diff() < 0).all())
    scheduler = native(model).pipeline.scheduler
    scheduler.set_timesteps(steps + 1)
    kept = scheduler.alphas_cumprod.double()
    wanted = log_snr.sigmoid()
    assert float((kept / wanted - 1).abs().max()) < 1e-6
    grid = model.sampler.levels(model).log_snr
    torch.testing.assert_close(log_snr[scheduler.timesteps], grid, rtol=0, atol=1e-9)


def test_rounding_of_betas_does_not_add_up():
    """Ten thousand betas too small for float32 still lead to the level that is wanted."""
    log_snr = torch.linspace(12, 11.9, 10_000, dtype=torch.float64)
    kept = (1 - torch.tensor(betas(log_snr))).double().cumprod(0)
    assert float((kept - log_snr.sigmoid()).abs().max()) < 1e-7


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("run") / "run"
    train(assemble(SMALL), place, without=["console"])
    return place


WITHOUT = """
import sys
sys.modules["elbowroom"] = None  # whoever imports it fails
from diffusers import DiffusionPipeline
pipe = DiffusionPipeline.from_pretrained(sys.argv[1])
drawn = pipe(batch_size=2, class_labels=[1, 7], num_inference_steps=7)
print(type(pipe.unet).__name__, type(pipe.scheduler).__name__, drawn.images[0].size)
"""


def test_diffusers_alone_draws_from_the_folder(run, tmp_path):
    """Where elbowroom cannot be imported, DiffusionPipeline loads and draws."""
    folder = export_run(run, "diffusers", tmp_path / "e")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "UNet2DModel DDIMScheduler (8, 8)"
    card = (folder / "README.md").read_text()
    assert "num_inference_steps=7" in card
    assert "elbowroom." not in json.dumps(json.loads((folder / "model_index.json").read_text()))
    weights = load(run).denoiser.unet.conv_out.weight
    from diffusers import UNet2DModel

    theirs = UNet2DModel.from_pretrained(folder, subfolder="unet").conv_out.weight
    assert torch.equal(theirs, weights)


def test_our_own_form_can_be_asked_for(run, tmp_path):
    """native: false draws the samples of a seed; our pipeline says what a native folder is."""
    ours = export_run(run, {"name": "diffusers", "native": False}, tmp_path / "ours")
    assert ElbowroomPipeline.from_pretrained(ours)(1, num_inference_steps=1).tokens.shape[0] == 1
    theirs = export_run(run, "diffusers", tmp_path / "theirs")
    with pytest.raises(ElbowroomError, match=r"DiffusionPipeline\.from_pretrained"):
        ElbowroomPipeline.from_pretrained(theirs)


def test_what_needs_elbowroom_says_so(run, tmp_path, caplog):
    """The reason is logged and stands in the card; native: true makes it an error."""
    changes = {"sampler": "heun"}
    with caplog.at_level(logging.INFO, "elbowroom"):
        folder = export_run(run, "diffusers", tmp_path / "e", changes)
    assert "loading it needs elbowroom" in caplog.text
    card = (folder / "README.md").read_text()
    assert "Loading it needs elbowroom" in card
    assert "`DiffusionPipeline.from_pretrained` cannot load it" in card
    with pytest.raises(NotNativeError, match="has no equivalent in diffusers"):
        export_run(run, {"name": "diffusers", "native": True}, tmp_path / "n", changes)
    assert not (tmp_path / "n").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"process": "gaussian"}, "predict: eps, v and x"),
        ({"process": {"name": "gaussian", "predict": "flow"}}, "predict: eps, v and x"),
        ({"process": "masked", "sampler": "ancestral"}, "predict: eps, v and x"),
        ({"denoiser": {"name": "dit", "width": 16, "depth": 1}}, "only 'unet'"),
        ({"sampler": {"name": "ddim", "eta": 0.5}}, "sampler.eta=0 and 1"),
        ({"sampler": {"name": "ddim", "clip": True}}, "sampler.clip=false"),
        ({"sampler": {"name": "diffusers", "scheduler": "EulerDiscreteScheduler"}}, "rows of a"),
        ({"sampler": {"name": "diffusers", "scheduler": "UniPCMultistepScheduler"}}, "supports"),
        (
            {"sampler": {"name": "diffusers", "options": {"use_karras_sigmas": True}, "steps": 7}},
            "between the rows",
        ),
        ({"schedule": {"name": "vp-cosine", "log_snr_max": 20}}, "schedule.log_snr_max=14"),
    ],
)
def test_what_stands_in_the_way_is_told(changes, words):
    """A model that diffusers cannot sample alone has a reason, and often a way out."""
    with pytest.raises(NotNativeError, match=words.replace(".", r"\.")):
        native(assemble({**SMALL, **changes}))
