"""sFID: the same distance, of features that keep their places."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict

import numpy as np
import pytest
import scipy.linalg
import torch
from elbowroom.errors import ElbowroomError, IncompatibleError
from elbowroom.plugins.conformance import check_feature_network, check_metric
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.metrics import classifier as classifiers
from elbowroom.plugins.metrics.features import eye
from elbowroom.plugins.metrics.fid import FID
from elbowroom.plugins.metrics.inception import VARIABLE, Inception
from elbowroom.plugins.metrics.make_reference import make_reference
from elbowroom.plugins.metrics.sfid import SFID
from torch import nn

from tests.helpers.pictures import LINEAR, Linear, Pictures, pictures

DATA = Pictures()
SAMPLES = pictures(90, seed=50)[0].flip(1)
SPATIAL = f"{__name__}:Places"


class Places(Linear):
    """Its spatial features are sums over quarters of the picture."""

    name = "places"

    def spatial(self, x):
        return x[..., 0].double().unfold(1, 3, 3).unfold(2, 3, 3).sum((3, 4)).flatten(1)


def measured(build, samples=SAMPLES, **options):
    metric = build(**options)
    metric.prepare(Subject(DATA, batch_size=17))
    metric.update(samples, None)
    return metric.compute()


def frechet(a, b):
    root = scipy.linalg.sqrtm(np.cov(a.T) @ np.cov(b.T)).real
    return ((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(np.cov(a.T) + np.cov(b.T) - 2 * root)


def seen(x):
    return Places(DATA).spatial(x).numpy()


@pytest.mark.parametrize("split", ["train", "test"])
def test_sfid_is_the_distance_of_spatial_features(split):
    """By scipy's matrix root."""
    real = seen(DATA.split(split).take(torch.arange(len(DATA.split(split)))).x)
    found = measured(SFID, features=SPATIAL)[f"sfid_{split}"]
    assert found.value == pytest.approx(frechet(real, seen(SAMPLES)), rel=1e-9)


def test_sfid_sees_where_things_are():
    """Pictures turned about: FID of a mean over places sees nothing, sFID does."""

    class Mean(Places):
        def forward(self, x):
            return super().spatial(x).mean(1, keepdim=True), None

    globals()["Mean"] = Mean
    turned = DATA.split("test").take(torch.arange(60)).x.flip(1)
    name = f"{__name__}:Mean"
    assert measured(FID, turned, features=name)["fid_test"].value == pytest.approx(0, abs=1e-9)
    assert measured(SFID, turned, features=name)["sfid_test"].value > 1


def test_sfid_keeps_the_laws():
    """Batches, order and ranks change nothing."""
    check_metric(SFID(SPATIAL), SAMPLES, DATA)
    check_feature_network(Places(DATA), SAMPLES[:9])


def test_reference_files_have_spatial_statistics(tmp_path):
    """mu_s and sigma_s under ADM's names, where the network gives such features."""
    path = tmp_path / "r.npz"
    make_reference(DATA, path, features=SPATIAL)
    with np.load(path, allow_pickle=False) as file:
        assert file["mu_s"].shape == (4,) and file["sigma_s"].shape == (4, 4)
        plain = {key: file[key] for key in ("mu", "sigma")}
    found = measured(SFID, features=SPATIAL, reference=str(path))["sfid_reference"]
    assert found.value == pytest.approx(measured(SFID, features=SPATIAL)["sfid_train"].value)
    np.savez(path, **plain)
    with pytest.raises(ElbowroomError, match="has no mu_s and sigma_s, nor images"):
        measured(SFID, features=SPATIAL, reference=str(path))
    make_reference(DATA, path, features=LINEAR)
    with np.load(path, allow_pickle=False) as file:
        assert "mu_s" not in file


def test_a_network_without_places_is_refused():
    """The message names it."""
    with pytest.raises(IncompatibleError, match="linear gives no spatial features"):
        SFID(LINEAR).prepare(Subject(DATA))


def test_the_classifier_gives_places(tmp_path, monkeypatch):
    """Seven channels of its last convolution, place by place."""
    monkeypatch.setenv("ELBOWROOM_CACHE", str(tmp_path))
    monkeypatch.setattr(classifiers, "_STEPS", 2)
    network = eye("classifier", Subject(DATA)).network
    assert network.spatial(SAMPLES[:2]).shape == (2, 3 * 3 * 7)
    check_feature_network(network, SAMPLES[:9])


class Layered(nn.Module):
    """As the 2015 Inception is made: named layers, one after the other."""

    def __init__(self, layer: str) -> None:
        super().__init__()
        layers = {"conv": nn.Conv2d(3, 9, 3, 16), layer: nn.ReLU(), "last": nn.AvgPool2d(19)}
        self.layers = nn.Sequential(OrderedDict(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).flatten(1)


def scripted(path, layer):
    torch.manual_seed(0)
    made = Layered(layer)
    torch.jit.script(made).save(str(path))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return made, Inception(DATA, f"{path}@{digest}")


def test_inception_gives_the_first_channels_of_a_layer(tmp_path):
    """In ADM's order, channels last; a file without that layer gives none."""
    made, network = scripted(tmp_path / "a.pt", "mixed_6")
    with torch.no_grad():
        layer = made.layers[:2](network._seen(SAMPLES[:3]))  # [B, 9, 19, 19]
        found = network.spatial(SAMPLES[:3])
    assert torch.allclose(found.view(3, 19, 19, 7), layer[:, :7].permute(0, 2, 3, 1))
    check_feature_network(network, SAMPLES[:3])
    assert scripted(tmp_path / "b.pt", "mixed_5")[1].spatial(SAMPLES[:3]) is None


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no Inception file")
def test_the_real_inception_says_2023_spatial_features():
    """17 x 17 x 7, as ADM's statistics have, where the file is at hand."""
    assert Inception(DATA).spatial(SAMPLES[:2]).shape == (2, 2023)
