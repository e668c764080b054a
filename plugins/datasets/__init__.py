"""Data sets. Each source is one file; every one yields integers and labels with fixed splits."""

from __future__ import annotations

from collections.abc import Mapping

from elbowroom import hookimpl


@hookimpl
def datasets() -> Mapping[str, str]:
    """Name -> class, loaded when a config asks for it."""
    home = "elbowroom.plugins.datasets"
    return {
        "digits": f"{home}.digits:Digits",
        "mnist": f"{home}.mnist:Mnist",
        "fashion-mnist": f"{home}.fashion_mnist:FashionMnist",
        "cifar10": f"{home}.cifar10:Cifar10",
        "image-folder": f"{home}.image_folder:ImageFolder",
        "imagenet": f"{home}.imagenet:ImageNet",
        "imagenet64": f"{home}.imagenet64:ImageNet64",
        "hf": f"{home}.hf:HuggingFace",
        "toy": f"{home}.toy:CoupledTriple",
        "toy-bits": f"{home}.toy:IndependentBits",
    }
