"""The laws of a feature network catch what breaks them."""

from __future__ import annotations

import pytest
import torch
from elbowroom.plugins.conformance import check_feature_network

from tests.helpers.pictures import Linear, Pictures, pictures

X = pictures(9, seed=1)[0]


class Flat(Linear):
    def forward(self, x):
        return super().forward(x)[0].sum(1), None


class Infinite(Linear):
    def forward(self, x):
        vectors, logits = super().forward(x)
        return vectors, logits / 0


class Centred(Linear):
    """Each vector less the mean of the batch."""

    def forward(self, x):
        vectors, logits = super().forward(x)
        return vectors - vectors.mean(0), logits


class Noisy(Linear):
    def forward(self, x):
        vectors, logits = super().forward(x)
        return vectors + 1e-9 * torch.randn_like(vectors), logits


class Learning(Linear):
    def forward(self, x):
        self.logits.bias += 1
        return super().forward(x)[0], None


class Writing(Linear):
    def forward(self, x):
        x += 1
        return super().forward(x)


class Nameless(Linear):
    name = ""


class Vague(Linear):
    @property
    def about(self):
        return {"weights": self.vectors.weight}


def test_a_linear_network_keeps_every_law():
    """Random projections are features."""
    check_feature_network(Linear(Pictures()), X)


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (Flat, r"vectors of 9 images have the shape \(9,\)"),
        (Infinite, "logits are not finite"),
        (Centred, "one of the vectors is"),
        (Noisy, "a second call differs"),
        (Learning, "its weights changed"),
        (Writing, "it wrote into them"),
        (Nameless, "it has no name"),
        (Vague, "is JSON. But"),
    ],
)
def test_wrong_networks_are_caught(network, sentence):
    """By the sentence of the law they break."""
    with pytest.raises(AssertionError, match=sentence):
        check_feature_network(network(Pictures()), X.clone())


def test_a_digest_is_a_sha256():
    """Measurements are compared by it."""
    network = Linear(Pictures())
    network.digest = "mine"
    with pytest.raises(AssertionError, match="'mine', not 64 hexadecimal digits"):
        check_feature_network(network, X)


def test_the_class_is_no_network():
    """It must be made first."""
    with pytest.raises(TypeError, match=r"like MyNetwork\(data\)"):
        check_feature_network(Linear, X)
