"""Feature networks: the data set's own classifier, Inception from a file, one's own."""

from __future__ import annotations

import hashlib
import json
import os
from types import SimpleNamespace

import pytest
import torch
from elbowroom import EvaluationProtocol
from elbowroom.contracts.dataset import DataSpec
from elbowroom.errors import ElbowroomError, IncompatibleError
from elbowroom.plugins.conformance import check_feature_network
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.metrics import classifier as module, inception as inception_module
from elbowroom.plugins.metrics.classifier import VECTOR, Classifier
from elbowroom.plugins.metrics.features import eye
from elbowroom.plugins.metrics.fid import FID
from elbowroom.plugins.metrics.inception import VARIABLE, Inception

from tests.helpers.pictures import LINEAR, Pictures, pictures


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a short training."""
    monkeypatch.setenv("ELBOWROOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_STEPS", 30)
    return tmp_path / "cache"


def classifier(data):
    return eye("classifier", Subject(data)).network


def files(cache):
    return sorted((cache / "features").glob("*.safetensors"))


def test_the_classifier_learns_its_data(cache):
    """Thirty steps are enough for three corners; the accuracy is that on test."""
    network = classifier(Pictures())
    x, y = pictures(60, seed=2)  # the test split
    vectors, logits = network(x)
    assert vectors.shape == (60, VECTOR)
    assert network.accuracy == pytest.approx(float((logits.argmax(1) == y).double().mean()))
    assert network.accuracy > 0.9
    assert network.protocol()["features_test_accuracy"] == round(network.accuracy, 4)


def test_the_classifier_is_the_same_each_time(cache, tmp_path, monkeypatch):
    """Trained again with another global generator and thread count, it has the same weights."""
    first = classifier(Pictures())
    monkeypatch.setenv("ELBOWROOM_CACHE", str(tmp_path / "another"))
    torch.manual_seed(99)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        second = classifier(Pictures())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert first.digest == second.digest != ""


def test_training_leaves_the_global_generator_alone(cache):
    """The library has no global randomness."""
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    classifier(Pictures())
    assert torch.equal(torch.rand(4), wanted)


def test_the_classifier_is_kept_and_read_back(cache, monkeypatch):
    """The second time nothing is trained, and accuracy and digest are as before."""
    first = classifier(Pictures())
    monkeypatch.setattr(module, "_train", lambda *_: pytest.fail("trained again"))
    second = classifier(Pictures())
    assert (first.digest, first.accuracy) == (second.digest, second.accuracy)
    assert len(files(cache)) == 1


def test_other_data_has_another_classifier(cache):
    """It is cached by content: examples that differ lead to another file."""
    classifier(Pictures())
    classifier(Pictures(shift=1))
    assert len(files(cache)) == 2


def test_a_damaged_file_is_made_again(cache):
    """A cut file is neither an error nor believed."""
    first = classifier(Pictures())
    (file,) = files(cache)
    file.write_bytes(file.read_bytes()[:100])
    assert classifier(Pictures()).digest == first.digest
    assert file.stat().st_size > 1000


def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path, monkeypatch):
    """The network is used all the same."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ELBOWROOM_CACHE", str(blocked))
    monkeypatch.setattr(module, "_STEPS", 2)
    assert classifier(Pictures()).digest


@pytest.mark.parametrize("shape", [(4, 4, 1), (8, 8, 1), (28, 28, 1), (32, 32, 3), (64, 64, 3)])
def test_the_classifier_takes_any_picture(shape):
    """Its body shrinks whatever comes to about 4x4."""
    network = Classifier(SimpleNamespace(spec=DataSpec(shape, 256, 10)))
    vectors, logits = network(torch.randint(0, 256, (2, *shape)))
    assert vectors.shape == (2, VECTOR) and logits.shape == (2, 10)


def test_data_without_labels_is_refused():
    """The message says what the classifier needs."""
    with pytest.raises(IncompatibleError, match=r"pictures .* with labels.* no classes"):
        FID().prepare(Subject(Pictures(classes=None)))


def test_digits_have_a_good_classifier():
    """On the built-in data set the network is worth trusting."""
    from elbowroom.plugins.datasets.digits import Digits

    assert classifier(Digits()).accuracy > 0.96


# -- inception


class Stand(torch.nn.Module):
    """Eats what Inception eats: the mean of each channel, and the whole."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1] == 3 and x.shape[2] == 299 and x.shape[3] == 299
        return torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1)


def stated(path) -> str:
    """FILE@SHA256."""
    return f"{path}@{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.fixture
def scripted(tmp_path):
    path = tmp_path / "stand.pt"
    torch.jit.script(Stand()).save(str(path))
    return path


def test_inception_comes_out_of_a_file_and_states_its_hash(scripted):
    """Grey becomes three channels at 299, scaled by (x - 128) / 128."""
    network = Inception(Pictures(), stated(scripted))
    x = torch.zeros(2, 6, 6, 1, dtype=torch.int64)
    x[1] = 4  # the brightest of five levels
    vectors, logits = network(x)
    assert logits is None
    assert vectors[0].tolist() == pytest.approx([-1.0] * 6)
    assert vectors[1].tolist() == pytest.approx([127 / 128] * 6)
    assert network.digest == hashlib.sha256(scripted.read_bytes()).hexdigest()
    assert network.protocol()["features_file"] == "not a known file"


def test_a_known_file_is_named(scripted, monkeypatch):
    """The hash is compared with those of files known to give the published measurements."""
    digest = hashlib.sha256(scripted.read_bytes()).hexdigest()
    monkeypatch.setattr(inception_module, "KNOWN", {digest: "a good place"})
    assert Inception(Pictures(), str(scripted)).protocol()["features_file"] == "a good place"


def test_inception_is_found_by_name_and_by_environment(scripted, monkeypatch):
    """``inception:FILE`` and the environment variable lead to the same network."""
    monkeypatch.setenv(VARIABLE, stated(scripted))
    by_variable = eye("inception", Subject(Pictures())).network
    monkeypatch.delenv(VARIABLE)
    by_name = eye(f"inception:{stated(scripted)}", Subject(Pictures())).network
    assert by_variable.digest == by_name.digest


def test_without_a_file_inception_says_how_to_get_one(monkeypatch):
    """No download is tried."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ElbowroomError, match=f"inception:FILE.*{VARIABLE}"):
        Inception(Pictures())


def test_a_file_that_is_no_network_is_refused(tmp_path):
    """The message names the file."""
    path = tmp_path / "words.pt"
    path.write_text("not a network")
    with pytest.raises(ElbowroomError, match=r"words\.pt is no TorchScript module"):
        Inception(Pictures(), stated(path))


def test_a_file_that_nobody_vouches_for_is_not_loaded(scripted, monkeypatch):
    """TorchScript is code: its sha256 must be known or stated, for services known."""
    monkeypatch.setattr(torch.jit, "load", lambda *_, **__: pytest.fail("it was loaded"))
    digest = hashlib.sha256(scripted.read_bytes()).hexdigest()
    with pytest.raises(ElbowroomError, match=f"can run any code.*inception:.*@{digest}"):
        Inception(Pictures(), str(scripted))
    with pytest.raises(ElbowroomError, match=f"has sha256 {digest}, not the {'0' * 64}"):
        Inception(Pictures(), f"{scripted}@{'0' * 64}")
    monkeypatch.setenv("ELBOWROOM_TRUST", "0")
    with pytest.raises(ElbowroomError, match="ELBOWROOM_TRUST=0"):
        Inception(Pictures(), stated(scripted))


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no Inception file")
def test_the_real_inception_says_2048_features():
    """The published network, where its file is at hand."""
    vectors, _ = Inception(Pictures())(pictures(2, seed=0)[0])
    assert vectors.shape == (2, 2048) and bool(vectors.isfinite().all())


# -- one's own


def test_an_unknown_network_lists_the_choices():
    """A wrong name is the user's to mend."""
    with pytest.raises(ElbowroomError, match=r"'resnet'.*classifier, .*inception"):
        eye("resnet", Subject(Pictures()))


def test_a_class_that_is_no_network_is_refused():
    """It must derive from FeatureNetwork."""
    with pytest.raises(ElbowroomError, match="does not derive"):
        eye("json.decoder:JSONDecoder", Subject(Pictures()))


@pytest.mark.parametrize("name", ["classifier", "inception", LINEAR])
def test_every_network_keeps_the_laws(name, cache, scripted, monkeypatch):
    """Ours pass the same check as anybody's."""
    monkeypatch.setenv(VARIABLE, stated(scripted))
    network = eye(name, Subject(Pictures())).network
    check_feature_network(network, pictures(9, seed=1)[0])


def test_a_network_takes_options(scripted):
    """As any component: a mapping, in a config or as text; inception:FILE is short for one."""
    whole = {"name": "inception", "file": stated(scripted)}
    same = [whole, json.dumps(whole), f"inception:{stated(scripted)}"]
    assert len({eye(one, Subject(Pictures())).network.digest for one in same}) == 1
    (metric,) = EvaluationProtocol(metrics=({"name": "fid", "features": whole},)).build().values()
    assert metric.features == whole


def test_measurements_state_the_network():
    """Name and hash stand beside every measurement."""
    metric = FID(LINEAR)
    metric.prepare(Subject(Pictures()))
    metric.update(pictures(20, seed=9)[0], None)
    for measurement in metric.compute().values():
        assert (
            measurement.of["features"] == "linear" and len(measurement.of["features_sha256"]) == 16
        )
        assert measurement.of["against"].endswith("examples")
