"""Laws of a feature network."""

from __future__ import annotations

import json
import re

import torch
from elbowroom.plugins.evaluation.feature_network import FeatureNetwork, weights_digest
from elbowroom.randomness import preserve_generators, seed_generators
from torch import Tensor

from .law import close, ensure, run


def check_feature_network(network: FeatureNetwork, images: Tensor) -> None:
    """Check the laws of a prepared feature network on at least three images [B, H, W, C]."""
    if not isinstance(network, FeatureNetwork):
        raise TypeError(
            f"check_feature_network takes a network, like MyNetwork(data), not {network!r}"
        )
    network.eval()
    laws = [_form, _alone, _fixed, _unchanged, _stated]
    with torch.no_grad():
        run(network, laws, network, images)


def _form(network: FeatureNetwork, x: Tensor) -> None:
    """It returns a finite vector for each image; logits and spatial features, or None."""
    vectors, logits = network(x)
    found = {"vectors": vectors, "logits": logits, "spatial features": network.spatial(x)}
    for what, value in found.items():
        if value is None and what != "vectors":
            continue
        ensure(isinstance(value, Tensor), f"{what} are {type(value).__name__}.")
        right = value.dim() == 2 and len(value) == len(x) and value.shape[1] > 0
        ensure(right, f"{what} of {len(x)} images have the shape {tuple(value.shape)}.")
        ensure(value.is_floating_point(), f"{what} are {value.dtype}.")
        ensure(value.isfinite(), f"{what} are not finite.")


def _alone(network: FeatureNetwork, x: Tensor) -> None:
    """The features of an image do not depend on the others in the batch."""
    together = network(x)
    apart = [network(part) for part in x.split(max(1, len(x) // 3))]
    for k, what in enumerate(("vectors", "logits")):
        if together[k] is not None:
            one_by_one = torch.cat([part[k] for part in apart])
            close(one_by_one, together[k], f"one of the {what}", relative=1e-3, absolute=1e-4)


def _fixed(network: FeatureNetwork, x: Tensor) -> None:
    """A second call gives the same, whatever the global generator does, with the same weights."""
    before, first = weights_digest(network), network(x)
    with preserve_generators():
        seed_generators(1)
        second = network(x)
    for one, other in zip(first, second, strict=True):
        ensure(one is None or torch.equal(one, other), "a second call differs.")
    ensure(weights_digest(network) == before, "its weights changed.")


def _unchanged(network: FeatureNetwork, x: Tensor) -> None:
    """The images are not changed."""
    copied = x.clone()
    network(copied)
    ensure(torch.equal(copied, x), "it wrote into them.")


def _stated(network: FeatureNetwork, _: Tensor) -> None:
    """It has a name and the sha256 of its weights, and its protocol is JSON."""
    ensure(bool(network.name), "it has no name.")
    right = re.fullmatch(r"[0-9a-f]{64}", str(network.digest)) is not None
    ensure(right, f"its digest is {network.digest!r}, not 64 hexadecimal digits.")
    try:
        json.dumps(network.protocol())
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{error}.") from None
