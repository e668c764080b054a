"""A folder from somebody else: nothing it holds or names is executed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from elbowroom import ElbowroomError, assemble, train
from elbowroom.plugins.diffusers.export import ElbowroomPipeline, ElbowroomScheduler
from elbowroom.plugins.evaluation.run import FORMAT
from elbowroom.plugins.export.export import export_run

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
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.masking import Cosine
class Evil(Masked):
    pass
class Sched(Cosine):
    pass
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


@pytest.mark.parametrize("form", ["text", "mapping", "nested"])
@pytest.mark.parametrize("name", NAMES)
def test_no_name_in_a_folder_executes_code(stranger, name, form):
    """Neither a file nor a module, in no form."""
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
        ElbowroomPipeline.from_pretrained(stranger)
    assert not was_run(stranger.parent)


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("name", ["__main__:os.popen", "os:popen", "subprocess:Popen"])
def test_no_function_makes_a_network(stranger, monkeypatch, name, trust):
    """Not even with trust."""
    import os

    monkeypatch.setattr(sys.modules["__main__"], "os", os, raising=False)
    option = "args" if "Popen" in name else "cmd"
    command = {"name": name, option: f"touch {stranger}/PWN"}
    edit(stranger, lambda config: config["sections"].update(denoiser=command))
    with pytest.raises(ElbowroomError, match=name):
        ElbowroomPipeline.from_pretrained(stranger, trust=trust)
    assert not (stranger / "PWN").exists()


def test_trust_executes_what_a_folder_names(stranger):
    """The refusal has the whole reference, and the way to proceed."""
    edit(stranger, lambda config: config["sections"].update(schedule="evil:Sched"))
    try:
        with pytest.raises(ElbowroomError, match=r'"evil:Sched".*pass trust=True'):
            ElbowroomPipeline.from_pretrained(stranger)
        assert not was_run(stranger.parent)
        assert ElbowroomPipeline.from_pretrained(stranger, trust=True)(1).tokens.shape[0] == 1
        assert was_run(stranger.parent)
    finally:
        sys.modules.pop("evil", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sections", "/etc/passwd"),
        ("sections", None),
        ("owners", 5),
        ("owners", {"process": 5}),
        ("data", None),
        ("data", {"shape": [-1], "levels": 5}),
        ("data", {"shape": [4, 4, 1], "levels": 5, "classes": -1}),
    ],
)
def test_a_damaged_config_is_one_sentence(stranger, key, value):
    """Whatever is wrong with it."""
    edit(stranger, lambda config: config.update({key: value}))
    with pytest.raises(ElbowroomError) as raised:
        ElbowroomPipeline.from_pretrained(stranger)
    assert "passwd" not in str(raised.value)
    assert "\n" not in str(raised.value)


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


NASTY = "it's</td><script>x</script>\n\n```\n# [a](javascript:x) | `b` ![c](http://d)"


def test_no_name_becomes_markup_in_a_model_card(exported, tmp_path):
    """Measurements and protocols of a stranger's run, and its folder's name, stay words."""
    run = tmp_path / "run <img src=x onerror=y>"
    shutil.copytree(exported.parent / "run", run)
    (run / "evaluation").mkdir()
    measurement = {"value": "<b>1</b>", "standard_error": NASTY, "of": {NASTY: NASTY}}
    measurement |= {"better": NASTY, "floor": NASTY}
    said = {"format": FORMAT, "step": 1, "figures": {NASTY: measurement}}
    said |= {key: {NASTY: NASTY} for key in ("skipped", "failed", "protocol", "seconds")}
    (run / "evaluation" / "figures.json").write_text(json.dumps(said))
    card = (export_run(run, "diffusers", tmp_path / "e") / "README.md").read_text()
    for sign in ("<script", "<img", "<b>", "](", "![c"):
        assert sign not in card
    assert card.count("```") == 4  # two blocks
    assert "&lt;script&gt;" in card
    assert "it's&lt;/td&gt;" in card and "&&#35;" not in card  # nothing is escaped twice
