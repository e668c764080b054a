"""How the data sets are announced, and what all of them have in common."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch
from elbowroom.contracts.dataset import SPLITS, Dataset
from elbowroom.errors import ElbowroomError
from elbowroom.plugins import datasets
from elbowroom.plugins.datasets.digits import Digits
from elbowroom.plugins.datasets.image_folder import ImageFolder
from elbowroom.plugins.datasets.toy import CoupledTriple, IndependentBits
from elbowroom.randomness.shuffle import indices
from PIL import Image


def component(name: str) -> type:
    module, _, attribute = datasets.datasets()[name].partition(":")
    return getattr(import_module(module), attribute)


@pytest.mark.parametrize("name", list(datasets.datasets()))
def test_every_name_is_a_data_set(name: str):
    """Each announced name leads to a concrete data set whose options are typed keywords."""
    kind = component(name)
    assert issubclass(kind, Dataset)
    assert not inspect.isabstract(kind)
    attrs.resolve_types(kind)
    for field in attrs.fields(kind):
        assert field.kw_only
        assert not isinstance(field.type, str)


def test_announcing_imports_nothing_heavy():
    """Listing the data sets loads neither torch nor numpy, PIL or scikit-learn."""
    program = (
        "import sys; from elbowroom.plugins import datasets; datasets.datasets(); "
        "print(*{'torch', 'numpy', 'PIL', 'sklearn', 'datasets'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    "name", ["mnist", "fashion-mnist", "cifar10", "imagenet64", "image-folder"]
)
def test_impossible_paths_are_named(name: str):
    """A path no system can look up is an error for people."""
    with pytest.raises(ElbowroomError, match=r"cannot read .*xxx.*: File name too long"):
        component(name)(path=Path("x" * 300)).split("train")


@pytest.fixture(params=["digits", "small digits", "toy", "toy-bits", "image-folder"])
def data(request, tmp_path) -> Dataset:
    if request.param != "image-folder":
        return {
            "digits": Digits(),
            "small digits": Digits(size=4, levels=3, limit=50),
            "toy": CoupledTriple(examples=500),
            "toy-bits": IndependentBits(examples=500),
        }[request.param]
    rng = np.random.default_rng(0)
    for i in range(30):
        folder = tmp_path / "made" / str(i % 3)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(folder / f"{i}.png")
    return ImageFolder(path=tmp_path / "made", channels=1)


@pytest.mark.parametrize("name", SPLITS)
def test_examples_fit_the_spec(data: Dataset, name: str):
    """Every split yields int64 values and labels in the ranges the spec promises."""
    split = data.split(name)
    assert len(split) > 0
    for batch in split.batches(64):
        assert batch.x.shape == (len(batch), *data.spec.shape)
        assert batch.x.dtype == torch.int64
        assert 0 <= int(batch.x.min()) <= int(batch.x.max()) < data.spec.levels
        assert (batch.y is None) == (data.spec.classes is None)
        if batch.y is not None:
            assert batch.y.shape == (len(batch),)
            assert batch.y.dtype == torch.int64
            assert 0 <= int(batch.y.min()) <= int(batch.y.max()) < data.spec.classes


def test_take_is_a_function_of_indices(data: Dataset):
    """Any order, repetition or grouping of indices gives the same examples."""
    split = data.split("train")
    whole = split.take(torch.arange(len(split)))
    chosen = indices(3, 1, torch.arange(40), 40, len(split))
    again = data.split("train").take(chosen)
    assert again.x.equal(whole.x[chosen])
    assert split.take(torch.tensor([2, 2, 0])).x.equal(whole.x[[2, 2, 0]])
    if whole.y is not None:
        assert again.y.equal(whole.y[chosen])


def test_batches_can_be_changed(data: Dataset):
    """What is done to a batch does not reach the data."""
    split = data.split("train")
    before = split.take(torch.arange(4)).x.clone()
    split.take(torch.arange(4)).x.zero_()
    assert split.take(torch.arange(4)).x.equal(before)


@pytest.mark.parametrize("index", [-1, 10**6])
def test_indices_outside_are_refused(data: Dataset, index: int):
    """There is no example beyond the end, nor before the beginning."""
    with pytest.raises(IndexError):
        data.split("test").take(torch.tensor([index]))


def test_empty_take(data: Dataset):
    """No indices give no examples, in the right shape."""
    batch = data.split("test").take(torch.zeros(0, dtype=torch.int64))
    assert batch.x.shape == (0, *data.spec.shape)
