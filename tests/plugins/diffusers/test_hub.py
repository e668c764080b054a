"""Exports on the Hugging Face Hub, here a stand-in of its HTTP interface."""

from __future__ import annotations

import pytest
import torch
from elbowroom import ElbowroomError, assemble, sample, train
from elbowroom.plugins.diffusers.export import ElbowroomPipeline
from elbowroom.plugins.diffusers.export.exporter import DiffusersExporter
from elbowroom.plugins.export.export import export_run

from tests.helpers.hub import Hub, serving

TINY = {
    "data": {"name": "digits", "size": 4, "levels": 5, "limit": 64},
    "process": "masked",
    "denoiser": {"name": "dit", "width": 16, "depth": 1},
    "sampler": {"name": "ancestral", "steps": 4},
    "train": {"steps": 1, "batch_size": 8, "evaluate_every": None},
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    place = tmp_path_factory.mktemp("made")
    train(assemble(TINY), place / "run", without=["console"])
    return export_run(place / "run", "diffusers", place / "e")


@pytest.fixture
def hub(monkeypatch):
    from huggingface_hub import constants

    made = Hub()
    with serving(made) as address:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
        monkeypatch.setattr(constants, "ENDPOINT", address)  # what HF_ENDPOINT would have said
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setenv("HF_TOKEN", "of-the-stand-in")
        yield made


def test_what_was_pushed_is_loaded_at_its_commit(hub, exported, tmp_path):
    """A new repository is private; a name is pinned, later commits change nothing."""
    pinned = DiffusersExporter().push(exported, "me/digits")
    assert hub.private == {"me/digits": True}
    sha, files = hub.repos["me/digits"][-1]
    assert pinned == f"hf://me/digits@{sha}"
    assert files["README.md"] == (exported / "README.md").read_bytes()
    pipe = ElbowroomPipeline.from_pretrained("hf://me/digits", cache_dir=tmp_path)
    assert pipe.config["_name_or_path"] == pinned
    ours = sample(exported.parent / "run", 2, seed=3).x
    assert torch.equal(pipe(2, seed=3).tokens, ours)
    hub.commit("me/digits", {"model/config.json": b"{}"})
    again = ElbowroomPipeline.from_pretrained(pinned, cache_dir=tmp_path)
    assert torch.equal(again(2, seed=3).tokens, ours)


def test_neither_pickles_nor_code_are_fetched(hub, exported, tmp_path):
    """Of a stranger's repository only text and safetensors come here."""
    DiffusersExporter().push(exported, "me/digits")
    evil = {"evil.py": b"1/0", "model/diffusion_pytorch_model.bin": b"\x80\x02"}
    hub.commit("me/digits", evil)
    ElbowroomPipeline.from_pretrained("hf://me/digits", cache_dir=tmp_path)
    assert not evil.keys() & set(hub.fetched)
    assert not list(tmp_path.rglob("*.py"))


def test_what_the_hub_says_is_one_sentence(hub, exported, tmp_path):
    """A name that is not there, a name that is none, and a hub that is away."""
    with pytest.raises(ElbowroomError, match="cannot fetch hf://me/nothing: "):
        ElbowroomPipeline.from_pretrained("hf://me/nothing", cache_dir=tmp_path)
    with pytest.raises(ElbowroomError, match=r"was written, but not pushed to a/b/c: "):
        DiffusersExporter().push(exported, "a/b/c")
