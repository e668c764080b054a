"""Runs exported to diffusers: the very same samples, from a folder of text and tensors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch
from elbowroom import ElbowroomError, Noise, assemble, load, sample, train
from elbowroom.plugins.conformance import check_exporter
from elbowroom.plugins.diffusers.export import ElbowroomModel, ElbowroomPipeline, ElbowroomScheduler
from elbowroom.plugins.diffusers.export.exporter import DiffusersExporter
from elbowroom.plugins.export.export import export_run
from elbowroom.plugins.export.exporter import Exporter

TINY = {
    "data": {"name": "digits", "limit": 200},
    "process": "masked",
    "denoiser": {"name": "dit", "width": 16, "depth": 1},
    "sampler": {"name": "ancestral", "steps": 12},
    "train": {"steps": 8, "batch_size": 16, "evaluate_every": 8},
}
COUNT, SEED = 5, 11


@attrs.frozen
class Exported:
    run: Path
    folder: Path


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Process -> a run and its export."""
    made = {}
    for process in ("masked", "gaussian"):
        place = tmp_path_factory.mktemp(process)
        train(assemble(TINY, process=process), place / "run", without=["console"])
        folder = export_run(place / "run", "diffusers", place / "exported")
        made[process] = Exported(place / "run", folder)
    return made


@pytest.fixture(params=["masked", "gaussian"])
def one(request, exported) -> Exported:
    return exported[request.param]


def test_it_keeps_the_laws_of_an_exporter(one):
    """It passes the conformance kit."""
    check_exporter(DiffusersExporter(), one.run)


@pytest.fixture
def pipe(one) -> ElbowroomPipeline:
    loaded = ElbowroomPipeline.from_pretrained(one.folder)
    loaded.set_progress_bar_config(disable=True)
    return loaded


def test_a_clean_process_draws_the_very_samples(exported, tmp_path):
    """Loaded by from_pretrained elsewhere, a seed gives what elbowroom draws from the run."""
    program = """
import sys
import numpy as np
from elbowroom.plugins.diffusers.export import ElbowroomPipeline
for name, folder in zip(("masked", "gaussian"), sys.argv[1:]):
    pipe = ElbowroomPipeline.from_pretrained(folder)
    np.save(name, pipe(COUNT, seed=SEED).tokens.numpy())
""".replace("COUNT", str(COUNT)).replace("SEED", str(SEED))
    subprocess.run(
        [sys.executable, "-c", program, *(str(exported[p].folder) for p in exported)],
        cwd=tmp_path, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    for process, one in exported.items():
        ours = sample(one.run, COUNT, seed=SEED)
        np.testing.assert_array_equal(np.load(tmp_path / f"{process}.npy"), ours.x.numpy())


def test_the_weights_are_the_averaged_ones_of_the_best_checkpoint(one, pipe):
    """Every tensor is that of the run's EMA."""
    ours = load(one.run).denoiser.state_dict()
    theirs = pipe.model.denoiser.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_walking_the_scheduler_step_by_step_draws_them_too(one, pipe):
    """step, in a loop as diffusers' own pipelines have it, is the process's ancestral step."""
    scheduler, model, labels = pipe.scheduler, pipe.model, torch.arange(COUNT)
    noise = Noise.of(SEED, COUNT)
    scheduler.set_timesteps()
    assert scheduler.timesteps[0] == 1
    assert len(scheduler) == 12
    z = scheduler.prior(noise)
    with torch.no_grad():
        for t in scheduler.timesteps:
            seen = scheduler.scale_model_input(z, t)
            output = model(seen, scheduler.log_snr(t, z), labels).sample
            z = scheduler.step(output, t, z, noise).prev_sample
        seen = scheduler.scale_model_input(z, 0.0)
        (output,) = model(seen, scheduler.log_snr(0.0, z), labels, return_dict=False)
    x = scheduler.decode(z, output, noise)
    assert torch.equal(x, sample(one.run, COUNT, seed=SEED).x)


def test_samples_do_not_depend_on_the_chunk(pipe):
    """Drawn one by one or all at once: the same pictures."""
    assert torch.equal(pipe(4, chunk=1).tokens, pipe(4, chunk=4).tokens)


def test_steps_labels_and_sampler_can_be_chosen(one, pipe):
    """What can be overridden in elbowroom can be here, with the same result."""
    got = pipe(3, class_labels=7, num_inference_steps=4, seed=2).tokens
    assert torch.equal(got, sample(one.run, 3, labels=7, steps=4, seed=2).x)


@pytest.mark.parametrize(
    "sampler",
    [
        "heun",
        {"name": "diffusers", "steps": 6},
        {"name": "multistep", "steps": 3, "begin": -4.0, "end": 2.0, "draw": True},
    ],
    ids=str,
)
def test_a_run_with_another_sampler_keeps_it(exported, tmp_path, sampler):
    """Not only ancestral steps: the pipeline draws with the sampler the config names."""
    run, changes = exported["gaussian"].run, {"sampler": sampler}
    folder = export_run(run, "diffusers", tmp_path / "other", changes)
    pipe = ElbowroomPipeline.from_pretrained(folder)
    ours = sample(load(run, changes), 3, seed=1)
    assert torch.equal(pipe(3, seed=1).tokens, ours.x)


@pytest.mark.parametrize(
    ("sampler", "why"),
    [
        ({"name": "diffusers"}, "levels of its own"),
        ({"name": "multistep", "begin": -4.0}, "a part of the schedule"),
        ({"name": "multistep", "end": 2.0}, "a part of the schedule"),
    ],
    ids=str,
)
def test_levels_of_a_samplers_own_cannot_be_walked(exported, tmp_path, sampler, why):
    """Its levels are not the schedule's from end to end: step by step it says so."""
    changes = {"sampler": sampler}
    folder = export_run(exported["gaussian"].run, "diffusers", tmp_path / "other", changes)
    scheduler = ElbowroomScheduler.from_pretrained(folder, subfolder="scheduler")
    with pytest.raises(ElbowroomError, match=why):
        scheduler.set_timesteps(4)


def test_pictures_come_in_every_form(pipe):
    """PIL, numpy and torch show the same pixels."""
    pil, arrays, tensors = (pipe(2, output_type=form).images for form in ("pil", "np", "pt"))
    assert pil[0].size == (8, 8)
    np.testing.assert_array_equal(np.asarray(pil[0]) / np.float32(255), arrays[0])
    np.testing.assert_array_equal(tensors[0].permute(1, 2, 0).numpy(), arrays[0])
    with pytest.raises(ValueError, match="pil, np or pt"):
        pipe(1, output_type="jpeg")


def test_noise_is_added_as_the_process_does(pipe):
    """add_noise is corrupt: at t = 1 nothing of x is left, at t = 0 nearly all."""
    scheduler, noise = pipe.scheduler, Noise.of(0, 64)
    x = scheduler.encode(noise.integers("x", 17, (8, 8, 1)))
    clean, lost = (scheduler.add_noise(x, noise, torch.full((64,), t)) for t in (0.0, 1.0))
    away = [float((z.float() - x.float()).abs().mean()) for z in (clean, lost)]
    assert away[0] < 0.05 * away[1]


def test_without_noise_a_generator_decides_the_whole_path(pipe):
    """The same generator gives the same path; a token's number does not change on the way."""
    scheduler, paths = pipe.scheduler, []
    for seed in (0, 0, 1):
        scheduler.set_timesteps(6)
        z = scheduler.prior(Noise.of(0, 2))
        generator = torch.Generator().manual_seed(seed)
        for t in scheduler.timesteps:
            logits = pipe.model(
                scheduler.scale_model_input(z, t), scheduler.log_snr(t, z), torch.arange(2)
            ).sample
            z = scheduler.step(logits.detach(), t, z, generator=generator).prev_sample
        paths.append(z)
    assert torch.equal(paths[0], paths[1])
    assert not torch.equal(paths[0], paths[2])


def test_a_timestep_that_is_none_is_refused(pipe):
    """Timesteps come from the grid."""
    pipe.scheduler.set_timesteps(4)
    z = pipe.scheduler.prior(Noise.of(0, 1))
    with pytest.raises(ElbowroomError, match="none of the scheduler's timesteps"):
        pipe.scheduler.step(z, 0.123, z)


def test_the_folder_is_text_and_tensors(one):
    """No pickle, no code; the card says what, how, how good and from where."""
    suffixes = {path.suffix for path in one.folder.rglob("*") if path.is_file()}
    assert suffixes == {".json", ".safetensors", ".md"}
    card = (one.folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: diffusers\n")
    for words in ("from_pretrained", "validation/bits_per_dim", "```yaml\ndata:", "elbowroom 0."):
        assert words in card


def test_files_of_an_export_have_one_mode(one):
    """Whoever may read its configs may read its weights."""
    assert len({path.stat().st_mode for path in one.folder.rglob("*") if path.is_file()}) == 1


def test_measurements_of_an_evaluation_go_into_the_card(exported, tmp_path):
    """What `elbowroom evaluate` measured is quoted with what it is of."""
    from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
    from elbowroom.plugins.evaluation.run import evaluate_run

    run = exported["masked"].run
    evaluate_run(run, (), EvaluationProtocol(metrics=("bpd",), samples=2))
    card = (export_run(run, "diffusers", tmp_path / "e") / "README.md").read_text()
    assert "| bits_per_dim |" in card
    assert "test examples" in card


def test_sequences_have_tokens_but_no_pictures(tmp_path):
    """Data without pictures and labels is exported all the same."""
    config = {**TINY, "data": {"name": "toy", "examples": 64}}
    train(assemble(config), tmp_path / "run", without=["console"])
    folder = export_run(tmp_path / "run", "diffusers", tmp_path / "e")
    drawn = ElbowroomPipeline.from_pretrained(folder)(4, seed=3)
    assert drawn.images is None
    assert torch.equal(drawn.tokens, sample(tmp_path / "run", 4, seed=3).x)


def test_a_component_in_a_file_cannot_be_exported(exported, tmp_path):
    """Code of this machine is refused when written; when read it needs trust."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from elbowroom import Schedule\n"
        "class Mine(Schedule):\n"
        "    def log_snr(self, t):\n"
        "        return 9 - 18 * t\n"
    )
    run = exported["masked"].run
    with pytest.raises(ElbowroomError, match="put the class into a package"):
        export_run(run, "diffusers", tmp_path / "e", {"schedule": f"{file}:Mine"})
    assert not (tmp_path / "e").exists()

    scheduler = ElbowroomScheduler.from_pretrained(exported["masked"].folder, subfolder="scheduler")
    said = json.loads(json.dumps(dict(scheduler.config)))
    said["sections"]["schedule"] = {"name": f"{file}:Mine"}
    with pytest.raises(ElbowroomError, match="pass trust=True"):
        ElbowroomScheduler(said["sections"], {}, said["data"])


def test_a_missing_plugin_names_the_package(exported):
    """A component comes from who supplied it, or not at all."""
    config = json.loads((exported["masked"].folder / "model" / "config.json").read_text())
    config["owners"]["denoiser"] = {
        "distribution": "elbowroom-nets", "version": "2.1", "plugin": "nets"
    }  # fmt: skip
    with pytest.raises(ElbowroomError, match=r"pip install 'elbowroom-nets==2\.1'"):
        ElbowroomModel(config["sections"], config["owners"], config["data"])


def test_a_folder_in_use_is_refused_and_a_failure_leaves_nothing(exported, tmp_path):
    """Nothing is overwritten; what cannot be written whole is not there at all."""
    run = exported["masked"].run
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").write_text("mine")
    with pytest.raises(ElbowroomError, match="not empty"):
        export_run(run, "diffusers", tmp_path / "used")
    assert os.listdir(tmp_path / "used") == ["mine.txt"]
    with pytest.raises(ElbowroomError, match="unknown exporter 'diffuser' "):
        export_run(run, "diffuser", tmp_path / "e")
    assert os.listdir(tmp_path) == ["used"]


class Broken(Exporter):
    """Fails half way."""

    def write(self, run, config, folder):
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_told_and_leaves_nothing(exported, tmp_path, monkeypatch):
    """The error names the folder."""
    monkeypatch.setitem(sys.modules, "broken_exporter", sys.modules[__name__])
    with pytest.raises(ElbowroomError, match=r"cannot write .*: No space left"):
        export_run(exported["masked"].run, "broken_exporter:Broken", tmp_path / "e")
    assert os.listdir(tmp_path) == []


def test_the_command_writes_it(exported, tmp_path):
    """elbowroom export RUN --to diffusers DIR."""
    run = exported["masked"].run
    done = subprocess.run(
        [sys.executable, "-m", "elbowroom", "export", str(run), "--to", "diffusers",
         str(tmp_path / "e"), "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)["files"]
    assert {"model_index.json", "README.md", "scheduler/scheduler_config.json"} <= set(files)
