"""Drawing samples from models and runs."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch
from elbowroom import ConfigError, DataSpec, ElbowroomError, Frame, IncompatibleError
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import load_config, to_plain
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.sampling.drawing import draw, labels_of
from elbowroom.plugins.sampling.picture import pixels, save_gif, tiled
from elbowroom.plugins.sampling.recorder import Recorder
from elbowroom.plugins.sampling.write import sample_run
from elbowroom.runs.checkpoint import named_tensors, write_checkpoint
from elbowroom.runs.folder import RunFolder
from elbowroom.runs.load import load_run
from elbowroom.runs.state import State
from PIL import Image

MASKED = ["ancestral", "first-hitting", "top-p", "confidence", "remask"]
GAUSSIAN = ["ancestral", "ddim", "heun", "multistep"]


def config(process: str = "masked", sampler: str = "ancestral"):
    return load_config(
        {
            "data": {"name": "digits", "size": 4, "levels": 5, "limit": 64},
            "process": process,
            "denoiser": {
                "name": "dit",
                "width": 16,
                "depth": 1,
                "dropout": 0.5,
                "null_class": True,
            },
            "sampler": {"name": sampler, "steps": 6},
        }
    )


def model_of(process: str = "masked", sampler: str = "ancestral"):
    model = build_model(build_parts(config(process, sampler)))
    with torch.no_grad():  # a fresh network says nothing; this one says something
        for p, seed in zip(model.parameters(), range(1000), strict=False):
            p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(seed)))
    return model


def make_run(path, process: str = "masked", validated: tuple[int, ...] = ()):
    """A run folder with three checkpoints, as if it had been trained."""
    wanted = config(process)
    folder = RunFolder.create(path, wanted)
    model = model_of(process)
    for step in (10, 20, 30):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.01 * step)
        tensors = {name: t.detach().clone() for name, t in named_tensors(model).items()}
        measurements = (
            {"validation/bits_per_dim": 5.0 - 0.1 * step % 2.5} if step in validated else {}
        )
        state = State(step=step, config=to_plain(wanted), validation=measurements)
        write_checkpoint(folder.checkpoints, {"model": tensors, "ema": tensors}, state)
    return folder


# -- draw


@pytest.mark.parametrize(
    ("process", "sampler"),
    [("masked", name) for name in MASKED] + [("gaussian", name) for name in GAUSSIAN],
)
def test_every_sampler_draws_from_a_network(process, sampler):
    """Each sampler draws integers of the data from a real network, and counts its calls."""
    model = model_of(process, sampler)
    chunks = list(draw(model, 10, None, 0, 4))
    assert [chunk.first for chunk in chunks] == [0, 4, 8]
    x = torch.cat([chunk.x for chunk in chunks])
    assert x.shape == (10, 4, 4, 1)
    assert ((x >= 0) & (x < 5)).all()
    assert all((chunk.calls > 0).all() for chunk in chunks)


@pytest.mark.parametrize("process", ["masked", "gaussian"])
def test_samples_of_a_network_do_not_depend_on_the_batch_size(process):
    """Up to the network's own rounding, chunks of any size give the same samples."""
    model = model_of(process)
    whole = torch.cat([chunk.x for chunk in draw(model, 32, None, 5, 32)])
    small = torch.cat([chunk.x for chunk in draw(model, 32, None, 5, 3)])
    assert (whole == small).double().mean() > 0.99


def test_samples_do_not_depend_on_how_many_are_drawn():
    """The first samples are the same however many follow."""
    model = model_of()
    few = next(draw(model, 4, 3, 0, 4)).x
    many = next(draw(model, 100, 3, 0, 4)).x
    assert torch.equal(few, many)


def test_a_model_in_training_is_drawn_from_without_dropout_and_left_in_training():
    """Sampling switches dropout off, also for a model that trains, and on again after."""
    model = model_of()
    model.train()
    model.denoiser.values.eval()  # a part that was frozen stays so
    one, other = (next(draw(model, 8, None, 0, 8)).x for _ in range(2))
    assert torch.equal(one, other)
    assert model.training
    assert model.denoiser.training
    assert not model.denoiser.values.training


def test_frames_pass_a_watcher():
    """A watcher is shown every frame of every chunk."""
    seen = []
    list(draw(model_of(), 5, None, 0, 3, watch=lambda first, frame: seen.append((first, frame))))
    assert {first for first, _ in seen} == {0, 3}
    assert [frame.x is not None for first, frame in seen if first == 3][-1]


def test_labels_are_checked():
    """Labels are repeated in their order, by default all classes; too many are an error."""
    model = model_of()
    assert labels_of(model, 12, None).tolist() == [*range(10), 0, 1]
    assert labels_of(model, 3, 7).tolist() == [7, 7, 7]
    assert labels_of(model, 3, [1, 2, 3]).tolist() == [1, 2, 3]
    assert labels_of(model, 24, [4, 0, 9]).tolist() == [4, 0, 9] * 8
    for wrong in ([1, 2, 3, 4], []):
        with pytest.raises(ElbowroomError, match=f"{len(wrong)} labels were given for 3 samples"):
            labels_of(model, 3, wrong)
    with pytest.raises(ElbowroomError, match="classes are 0 to 9"):
        labels_of(model, 3, 10)


def test_labels_matter():
    """The network hears the label."""
    model = model_of()
    assert not torch.equal(next(draw(model, 8, 1, 0, 8)).x, next(draw(model, 8, 2, 0, 8)).x)


@pytest.mark.parametrize(("count", "size"), [(0, 4), (4, 0), (-1, 2)])
def test_nothing_cannot_be_drawn(count, size):
    """A count or a batch below one is an error."""
    with pytest.raises(ElbowroomError, match="allowed: an integer from 1 on"):
        next(draw(model_of(), count, None, 0, size))


# -- runs


@pytest.mark.parametrize("process", ["masked", "gaussian"])
def test_sampling_a_run_writes_what_it_says(tmp_path, process):
    """A grid, the samples and an animation are written where the report says."""
    make_run(tmp_path / "run", process)
    report = sample_run(tmp_path / "run", count=12, labels=3, seed=1, batch_size=8)
    assert set(report.paths) == {"samples", "grid", "animation"}
    assert report.paths["samples"].parent == tmp_path / "run" / "samples"
    with np.load(report.paths["samples"], allow_pickle=False) as file:
        assert file["x"].shape == (12, 4, 4, 1)
        assert file["x"].dtype == np.uint8
        assert file["labels"].tolist() == [3] * 12
        assert file["calls"].shape == (12,)
        assert json.loads(str(file["about"]))["seed"] == 1
    with Image.open(report.paths["grid"]) as grid:
        assert grid.format == "PNG"
        assert grid.size[0] > 100
    with Image.open(report.paths["animation"]) as film:
        assert film.format == "GIF"
        assert 2 <= film.n_frames <= 50
    assert json.dumps(report.record())
    assert report.step == 30


def test_overrides_change_the_sampler_without_training(tmp_path):
    """sampler.steps and the sampler itself can be other than in training."""
    make_run(tmp_path / "run")
    few = sample_run(tmp_path / "run", ("sampler.steps=2",), count=4, out=tmp_path / "few")
    assert few.calls_most <= 3
    assert few.paths["grid"].parent == tmp_path / "few"
    other = sample_run(tmp_path / "run", ("sampler=confidence", "sampler.steps=3"), count=4)
    assert other.calls_most == 3


def test_a_sampler_that_cannot_serve_the_process_is_named(tmp_path):
    """The error names the two components that do not fit."""
    make_run(tmp_path / "run")
    with pytest.raises(IncompatibleError, match=r"ddim.*masked"):
        sample_run(tmp_path / "run", ("sampler=ddim",), count=4)


def test_an_unknown_option_of_a_sampler_is_an_error(tmp_path):
    """Options are checked against the sampler's own."""
    make_run(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"sampler\.grid"):
        sample_run(tmp_path / "run", ("sampler=first-hitting", "sampler.grid=cosine"), count=4)


def test_checkpoints_are_chosen_by_name(tmp_path):
    """best is by validation, last is the last, and a step is itself."""
    run = tmp_path / "run"
    make_run(run, validated=(10, 20))
    assert load_run(run).checkpoint.step == 20
    assert load_run(run, checkpoint="last").checkpoint.step == 30
    assert load_run(run, checkpoint=10).checkpoint.step == 10
    with pytest.raises(ElbowroomError, match="choose best, last or 10, 20, 30"):
        load_run(run, checkpoint="40")


def test_a_loaded_model_has_the_weights_of_its_checkpoint(tmp_path):
    """Loading fills in exactly what was saved, ready to sample."""
    make_run(tmp_path / "run")
    loaded = load_run(tmp_path / "run", checkpoint="last")
    saved = loaded.checkpoint.read("ema")
    assert all(torch.equal(t, saved[name]) for name, t in named_tensors(loaded.model).items())
    assert not loaded.model.training


def test_a_folder_that_is_no_run_says_so(tmp_path):
    """A folder without a config, or without a checkpoint, is a clear error."""
    with pytest.raises(ElbowroomError, match="not a run"):
        sample_run(tmp_path)
    RunFolder.create(tmp_path / "fresh", config())
    with pytest.raises(ElbowroomError, match="no checkpoint yet"):
        sample_run(tmp_path / "fresh")


def test_an_unwritable_folder_says_so(tmp_path):
    """A place that cannot be written to is a clear error."""
    make_run(tmp_path / "run")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ElbowroomError, match="cannot create the folder"):
        sample_run(tmp_path / "run", count=2, out=tmp_path / "file" / "here")


# -- pictures


def test_pixels_span_black_to_white_and_show_what_is_hidden():
    """Level 0 is black, the last white, hidden pixels have a colour no level has."""
    x = torch.tensor([0, 2, 4, 5]).reshape(1, 2, 2, 1)
    colours = pixels(x, 5).reshape(4, 3)
    assert colours[:3].tolist() == [[0, 0, 0], [128, 128, 128], [255, 255, 255]]
    assert len(set(colours[3].tolist())) == 3


def test_tiles_keep_every_picture():
    """Every pixel of every picture appears in the sheet, enlarged by a whole factor."""
    colours = torch.randint(100, 256, (7, 8, 8, 3), dtype=torch.uint8)
    sheet = tiled(colours)
    factor = 5
    assert (sheet >= 100).all(-1).sum() == 7 * 64 * factor**2


@pytest.mark.parametrize(("count", "side"), [(1, 8), (9, 8), (16, 8), (64, 32), (3, 700)])
def test_a_grid_is_at_least_as_wide_as_requested(count, side):
    """By the smallest whole factor, so no pixel is blurred."""
    colours = torch.randint(100, 256, (count, side, side, 3), dtype=torch.uint8)
    sheet = tiled(colours, least_width=600)
    factor = math.isqrt(int((sheet >= 100).all(-1).sum()) // (count * side**2))
    assert (sheet >= 100).all(-1).sum() == count * side**2 * factor**2
    assert sheet.shape[1] >= 600
    assert side >= 600 or math.ceil(math.sqrt(count)) * side * (factor - 1) < 600


@pytest.mark.parametrize("frames", [1, 5, 8, 9, 100, 1000])
def test_what_is_kept_of_a_path_is_bounded_and_evenly_spread(tmp_path, frames):
    """However long a path is, few frames are kept, the first always, at even distances."""
    process = Masked().bind(DataSpec((4, 4, 1), 5))
    recorder = Recorder(process, 2, limit=8)
    for k in range(frames):
        recorder.show(Frame(torch.zeros(3, 4, 4, 1, dtype=torch.int64), k))
    recorder.show(Frame(torch.zeros(3, 4, 4, 1), frames, torch.ones(3, 4, 4, 1).long()))
    steps = [step for step, _ in recorder.frames()]
    assert min(frames, 4) < len(steps) <= 9
    assert (steps[0], steps[-1]) == (0, frames)
    assert len({b - a for a, b in itertools.pairwise(steps[:-1])}) <= 1
    assert all(painted.shape == (2, 4, 4, 3) for _, painted in recorder.frames())
    path = save_gif([tiled(painted) for _, painted in recorder.frames()], tmp_path / "film.gif")
    with Image.open(path) as opened:
        assert opened.n_frames <= 9
