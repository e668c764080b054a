"""DINOv2 as a feature network: a tiny random one, written and read by transformers itself."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from elbowroom.errors import ElbowroomError, IncompatibleError
from elbowroom.plugins.conformance import check_feature_network
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.metrics.dinov2 import DINOv2
from elbowroom.plugins.metrics.features import eye
from elbowroom.plugins.metrics.fid import FID
from elbowroom.plugins.metrics.inception_score import InceptionScore

from tests.helpers.pictures import Pictures, pictures

try:
    import transformers
except ImportError:
    transformers = None

pytestmark = pytest.mark.extra
needs_transformers = pytest.mark.skipif(
    transformers is None, reason="the extra elbowroom[dinov2] is not installed"
)
DATA = Pictures()
SAMPLES = pictures(12, seed=50)[0].flip(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two layers of 16."""
    path = tmp_path_factory.mktemp("dinov2")
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = transformers.Dinov2Model(transformers.Dinov2Config(image_size=518, **small))
        made.save_pretrained(path)
    return path


def changed(folder, to, **values):
    """A copy of the folder with other settings."""
    to.mkdir()
    (to / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    config = json.loads((folder / "config.json").read_text())
    (to / "config.json").write_text(json.dumps({**config, **values}))
    return to


@needs_transformers
def test_it_is_the_class_token_of_transformers(folder):
    """Black and white pictures as the library would be shown them, at 224 x 224."""
    network = eye(f"dinov2:{folder}", Subject(DATA)).network
    x = torch.zeros(2, 6, 6, 1, dtype=torch.int64)
    x[1] = 4  # the brightest of five levels
    shown = torch.stack([torch.zeros(3, 224, 224), torch.ones(3, 224, 224)])
    mean, deviation = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
    shown = (shown - mean[:, None, None]) / deviation[:, None, None]
    theirs = transformers.Dinov2Model.from_pretrained(folder).eval()
    with torch.no_grad():
        wanted = theirs(shown).last_hidden_state[:, 0]
        vectors, logits = network(x)
    assert logits is None
    assert torch.allclose(vectors, wanted, atol=1e-5)
    assert network.protocol()["features_size"] == "2 layers of 16"


@needs_transformers
def test_it_keeps_the_laws_and_serves_metrics(folder):
    """FD of its features; the Inception Score needs classes and says so."""
    spec = {"name": "dinov2", "folder": str(folder)}
    subject = Subject(DATA)
    check_feature_network(eye(spec, subject).network, SAMPLES[:3])
    metric = FID(spec)
    metric.prepare(subject)
    metric.update(SAMPLES, None)
    assert metric.compute()["fid_test"].of["features"] == "dinov2"
    with pytest.raises(IncompatibleError, match="dinov2 has no logits"):
        InceptionScore(spec).prepare(subject)


@needs_transformers
def test_a_folder_that_is_none_is_refused(folder, tmp_path):
    """Nothing is downloaded, and no weight is made up."""
    (tmp_path / "empty").mkdir()
    wrong = {
        "facebook/dinov2-base": r"no config\.json and no model\.safetensors",
        str(tmp_path / "empty"): r"no config\.json and no model\.safetensors",
        str(changed(folder, tmp_path / "deep", num_hidden_layers=3)): "lacks weights .*layer.2",
        str(changed(folder, tmp_path / "wide", hidden_size=32)): "no DINOv2|lacks weights",
        str(changed(folder, tmp_path / "vit", model_type="vit")): "describes a vit",
        str(changed(folder, tmp_path / "odd", model_type="nothing")): "is no DINOv2: ",
    }
    for path, why in wrong.items():
        with pytest.raises(ElbowroomError, match=why):
            DINOv2(DATA, path)


@needs_transformers
def test_damaged_weights_are_refused(folder, tmp_path):
    """In a sentence that names the folder."""
    cut = changed(folder, tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:500])
    with pytest.raises(ElbowroomError, match=r"cut is no DINOv2: "):
        DINOv2(DATA, str(cut))


@needs_transformers
def test_code_in_the_folder_is_not_run(folder, tmp_path):
    """A config that names code of its own leads to the library's class."""
    evil = changed(folder, tmp_path / "evil", auto_map={"AutoModel": "evil.Model"})
    (evil / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    DINOv2(DATA, str(evil))
    assert not (tmp_path / "ran").exists()


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    """One sentence, and what to install."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ElbowroomError, match=r"pip install 'elbowroom\[dinov2\]'"):
        DINOv2(DATA, str(tmp_path))
