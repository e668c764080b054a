"""Data sets: integers and labels, with fixed splits. One file per source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.datasets"


@hookimpl
def datasets() -> Mapping[str, str]:
    """Name -> class."""
    return {
        "digits": f"{_HERE}.digits:Digits",
        "mnist": f"{_HERE}.mnist:Mnist",
        "fashion-mnist": f"{_HERE}.fashion_mnist:FashionMnist",
        "cifar10": f"{_HERE}.cifar10:Cifar10",
        "image-folder": f"{_HERE}.image_folder:ImageFolder",
        "imagenet": f"{_HERE}.imagenet:ImageNet",
        "imagenet64": f"{_HERE}.imagenet64:ImageNet64",
        "hf": f"{_HERE}.hf:HuggingFace",
        "toy": f"{_HERE}.toy:CoupledTriple",
        "toy-bits": f"{_HERE}.toy:IndependentBits",
    }


@hookimpl
def adapt(kind: str, given: Any) -> Any:
    """Torch data sets, arrays x and pairs of arrays (x, y) as a data set."""
    if kind != "dataset" or given is None:
        return None
    from .torch_data import from_torch

    return from_torch(given)


@hookimpl
def presets() -> dict[str, str]:
    """Configs shipped as package data."""
    names = ("cifar10", "digits", "fashion-mnist", "images", "images-cpu", "images-quick")
    return {name: f"{_HERE}:presets/{name}.yaml" for name in names}
