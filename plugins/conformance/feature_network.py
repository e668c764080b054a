"""Laws of a feature network."""

from __future__ import annotations

import json
import re

import torch
from elbowroom.plugins.evaluation.feature_network import FeatureNetwork, weights_digest
from elbowroom.randomness import preserve_generators, seed_generators
from torch import Tensor

from .law import close, ensure, run


def check_feature_network(network: FeatureNetwork, pictures: Tensor) -> None:
    """Every law of a feature network, made and prepared, on integers [B, H, W, C] it can look at.

    There are at least three pictures.
    """
    if not isinstance(network, FeatureNetwork):
        raise TypeError(
            f"check_feature_network takes a network, like MyNetwork(data), not {network!r}"
        )
    network.eval()
    laws = [_form, _alone, _fixed, _unchanged, _stated]
    with torch.no_grad():
        run(network, laws, network, pictures)


def _form(network: FeatureNetwork, x: Tensor) -> None:
    """It says a vector of finite numbers of each picture; logits and spatial features, or None."""
    vectors, logits = network(x)
    found = {"vectors": vectors, "logits": logits, "spatial features": network.spatial(x)}
    for what, said in found.items():
        if said is None and what != "vectors":
            continue
        ensure(isinstance(said, Tensor), f"{what} are {type(said).__name__}.")
        right = said.dim() == 2 and len(said) == len(x) and said.shape[1] > 0
        ensure(right, f"{what} of {len(x)} pictures have the shape {tuple(said.shape)}.")
        ensure(said.is_floating_point(), f"{what} are {said.dtype}.")
        ensure(said.isfinite(), f"{what} are not finite.")


def _alone(network: FeatureNetwork, x: Tensor) -> None:
    """What it says of a picture does not depend on the others in the batch."""
    together = network(x)
    apart = [network(part) for part in x.split(max(1, len(x) // 3))]
    for k, what in enumerate(("vectors", "logits")):
        if together[k] is not None:
            one_by_one = torch.cat([said[k] for said in apart])
            close(one_by_one, together[k], f"one of the {what}", relative=1e-3, absolute=1e-4)


def _fixed(network: FeatureNetwork, x: Tensor) -> None:
    """Asked again it says the same, whatever the global generator does, with the same weights."""
    before, first = weights_digest(network), network(x)
    with preserve_generators():
        seed_generators(1)
        second = network(x)
    for one, other in zip(first, second, strict=True):
        ensure(one is None or torch.equal(one, other), "it said something else.")
    ensure(weights_digest(network) == before, "its weights changed.")


def _unchanged(network: FeatureNetwork, x: Tensor) -> None:
    """The pictures are left as they were: others look at them too."""
    shown = x.clone()
    network(shown)
    ensure(torch.equal(shown, x), "it wrote into them.")


def _stated(network: FeatureNetwork, _: Tensor) -> None:
    """It has a name and the sha256 of its weights, and what it says about itself is JSON."""
    ensure(bool(network.name), "it has no name.")
    right = re.fullmatch(r"[0-9a-f]{64}", str(network.digest)) is not None
    ensure(right, f"its digest is {network.digest!r}, not 64 hexadecimal digits.")
    try:
        json.dumps(network.protocol())
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{error}.") from None
