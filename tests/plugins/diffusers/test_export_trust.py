"""A folder from somebody else: nothing it holds or names is executed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from elbowroom import ElbowroomError
from elbowroom.api import assemble, train
from elbowroom.evaluation.run import FORMAT
from elbowroom.plugins.diffusers.export import ElbowroomPipeline, ElbowroomScheduler
from elbowroom.runs.export import export_run

TINY = {
    "data": {"name": "digits", "size": 4, "levels": 5, "limit": 64},
    "process": "masked",
    "denoiser": {"name": "dit", "width": 16, "depth": 1},
    "sampler": {"name": "ancestral", "steps": 4},
    "train": {"steps": 1, "batch_size": 8, "evaluate_every": None},
}
EVIL = """\
from pathlib import Path
Path(__file__).with_suffix(".was-run").touch()
from elbowroom.plugins.masked.process import Masked as Evil
from elbowroom.plugins.schedules.masking import Cosine
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("made")
    train(assemble(TINY), place / "run", without=["console"])
    return export_run(place / "run", "diffusers", place / "exported")


@pytest.fixture
def stranger(exported, tmp_path, monkeypatch) -> Path:
    """stranger-model/ in the working folder, with code in every place one can think of."""
    folder = tmp_path / "stranger-model"
    shutil.copytree(exported, folder)
    for place in (tmp_path, folder, folder / "model", folder / "scheduler"):
        for name in ("evil.py", "a:evil.py", "evil：x.py"):
            (place / name).write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def edit(folder: Path, change) -> None:
    for part in ("model/config.json", "scheduler/scheduler_config.json"):
        path = folder / part
        config = json.loads(path.read_text())
        change(config)
        path.write_text(json.dumps(config))


def was_run(folder: Path) -> bool:
    return any(folder.rglob("*.was-run"))


NAMES = (
    "./stranger-model/evil.py:Evil",
    "stranger-model/evil.py:Evil",
    "stranger-model/a:evil.py:Evil",
    "./a:evil.py:Evil",
    "evil：x.py:Evil",
    "HERE/evil.py:Evil",
    "stranger-model/../evil.py:Evil",
    "evil:Evil",
    "evil:sys.modules",
    "stranger-model.evil:Evil",
    "os:system",
    "elbowroom/./evil.py:Evil",
)


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("form", ["text", "mapping", "nested"])
@pytest.mark.parametrize("name", NAMES)
def test_no_name_in_a_folder_executes_code(stranger, name, form, trust):
    """Files are refused in every form, modules too where nothing was recorded of them."""
    name = name.replace("HERE", str(stranger.parent))
    section = {"text": name, "mapping": {"name": name}, "nested": {"name": "masked", "x": [name]}}

    def change(config):
        config["sections"]["process"] = section[form]
        config["owners"].pop("process", None)
        if form == "nested":  # where a component is an option of another
            config["sections"]["process"] = "masked"
            config["sections"]["weighting"] = {"name": "isotonic", "of": name}

    edit(stranger, change)
    with pytest.raises(ElbowroomError):
        ElbowroomPipeline.from_pretrained(stranger, trust=trust)
    assert not was_run(stranger.parent)


def test_a_file_is_refused_even_if_recorded_and_trusted(stranger):
    """There is no way to share a file by its name."""
    import hashlib

    path = stranger.parent / "evil.py"
    owner = {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def change(config):
        config["sections"]["process"] = f"{path}:Evil"
        config["owners"]["process"] = owner

    edit(stranger, change)
    with pytest.raises(ElbowroomError, match="put the class into a package"):
        ElbowroomPipeline.from_pretrained(stranger, trust=True)
    assert not was_run(stranger.parent)


def test_a_module_needs_trust_and_the_recorded_hash(stranger):
    """package.module:Class of no plugin runs by the user's word, and only as it was recorded."""
    import hashlib

    path = stranger.parent / "evil.py"
    owner = {"path": "/theirs/evil.py", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def change(config):
        config["sections"]["schedule"] = "evil:Cosine"
        config["owners"]["schedule"] = owner

    edit(stranger, change)
    try:
        with pytest.raises(ElbowroomError, match=r"evil\.py \(sha256 [0-9a-f]{64}\).*trust=True"):
            ElbowroomPipeline.from_pretrained(stranger)
        assert not was_run(stranger.parent)
        owner["sha256"] = "0" * 64
        edit(stranger, change)
        with pytest.raises(ElbowroomError, match="is not what the export recorded"):
            ElbowroomPipeline.from_pretrained(stranger, trust=True)
        assert not was_run(stranger.parent)
        owner["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        edit(stranger, change)
        assert ElbowroomPipeline.from_pretrained(stranger, trust=True)(1).tokens.shape[0] == 1
        assert was_run(stranger.parent)
    finally:
        sys.modules.pop("evil", None)


@pytest.mark.parametrize("part", [["evil", "Evil"], ["antigravity", "X"]])
def test_the_index_of_a_folder_chooses_no_module(stranger, part):
    """model_index.json may say what it likes: the parts are of our classes."""
    path = stranger / "model_index.json"
    index = json.loads(path.read_text())
    path.write_text(json.dumps({**index, "model": part, "scheduler": part, "extra": part}))
    pipe = ElbowroomPipeline.from_pretrained(stranger)
    assert type(pipe.scheduler) is ElbowroomScheduler
    assert not was_run(stranger.parent)
    assert "antigravity" not in sys.modules


def test_weights_are_never_a_pickle(stranger):
    """A folder whose weights are a pickle is refused unread."""

    class Trap:
        def __reduce__(self):
            return (open, (str(stranger / "pickle.was-run"), "w"))

    (stranger / "model" / "diffusion_pytorch_model.safetensors").unlink()
    torch.save({"x": Trap()}, stranger / "model" / "diffusion_pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        ElbowroomPipeline.from_pretrained(stranger)
    assert not was_run(stranger)


NASTY = "</td><script>x</script>\n\n```\n# [a](javascript:x) | `b` ![c](http://d)"


def test_no_name_becomes_markup_in_a_model_card(exported, tmp_path):
    """Measurements and protocols of a stranger's run, and its folder's name, stay words."""
    run = tmp_path / "run <img src=x onerror=y>"
    shutil.copytree(exported.parent / "run", run)
    (run / "evaluation").mkdir()
    measurement = {"value": "<b>1</b>", "standard_error": NASTY, "of": {NASTY: NASTY}}
    measurement |= {"better": NASTY, "floor": NASTY}
    said = {"format": FORMAT, "step": 1, "figures": {NASTY: measurement}}
    said |= {key: {NASTY: NASTY} for key in ("skipped", "protocol", "seconds")}
    (run / "evaluation" / "figures.json").write_text(json.dumps(said))
    card = (export_run(run, "diffusers", tmp_path / "e") / "README.md").read_text()
    for sign in ("<script", "<img", "<b>", "](", "![c"):
        assert sign not in card
    assert card.count("```") == 4  # two blocks
    assert "&lt;script&gt;" in card
