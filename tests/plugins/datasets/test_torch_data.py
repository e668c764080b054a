"""Torch data sets as data: in Python, without a data set of ours."""

from __future__ import annotations

import elbowroom as er
import pytest
import torch
from elbowroom.contracts.dataset import SPLITS
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.conformance import check_dataset
from elbowroom.plugins.evaluation.run import evaluate_run
from torch.utils.data import TensorDataset

SMALL = {
    "process": "masked",
    "denoiser": {"name": "dit", "width": 16, "depth": 1},
    "sampler": {"name": "ancestral", "steps": 2},
    "train": {"steps": 2, "batch_size": 8, "evaluate_every": None},
}
QUIET = {"without": ["console", "tensorboard"]}


def pairs(count: int = 60) -> TensorDataset:
    x = torch.randint(5, (count, 4, 4, 1), generator=torch.Generator().manual_seed(0))
    x[0, 0, 0, 0], x[1, 0, 0, 0] = 4, 0
    return TensorDataset(x, torch.arange(count) % 3)


def test_it_keeps_the_laws_of_a_data_set():
    """Fixed splits that share no example, integers and labels as its spec says."""
    data = er.TorchData(pairs())
    check_dataset(data)
    assert data.spec == er.DataSpec((4, 4, 1), levels=5, classes=3)
    sizes = {name: len(data.split(name)) for name in SPLITS}
    assert sizes == {"train": 49, "validation": 5, "test": 6}


def test_what_is_said_is_not_looked_for():
    """Levels, classes and splits of one's own."""
    data = er.TorchData(pairs(), test=pairs(10), levels=9, classes=4)
    assert (data.spec.levels, data.spec.classes, len(data.split("test"))) == (9, 4, 10)
    assert torch.equal(data.split("test").take(torch.arange(10)).x, pairs(10).tensors[0])


def test_examples_may_have_no_labels():
    """x alone is an example."""
    data = er.TorchData(list(pairs().tensors[0]))
    assert data.spec.classes is None
    assert data.split("train").take(torch.arange(3)).y is None


def test_an_example_may_be_a_tuple_of_one():
    """As those of ``TensorDataset(x)`` are."""
    data = er.TorchData(TensorDataset(pairs().tensors[0]))
    assert data.spec == er.DataSpec((4, 4, 1), levels=5)
    check_dataset(data)


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64", "uint16"])
def test_arrays_are_data(kind):
    """An array x of integers, or a pair (x, y), is what a torch data set of them is."""
    x, y = (values.numpy() for values in pairs().tensors)
    x = x.astype(kind)
    of_array, of_pair = er.assemble(SMALL, data=x), er.assemble(SMALL, data=(x, y))
    assert of_array.process.data == er.DataSpec((4, 4, 1), levels=5)
    assert of_pair.process.data == er.DataSpec((4, 4, 1), levels=5, classes=3)
    assert er.assemble(SMALL, data=pairs().tensors).process.data == of_pair.process.data


def test_arrays_of_floats_are_refused():
    """In the sentence that torch data sets of floats get."""
    with pytest.raises(ElbowroomError, match=r"float64\. Data are integers 0 to levels-1"):
        er.assemble(SMALL, data=torch.rand(9, 4, 4, 1).double().numpy())


def test_floats_are_refused():
    """Pictures of 0 .. 1 are no integers."""
    with pytest.raises(ElbowroomError, match=r"float32\. Data are integers 0 to levels-1"):
        er.TorchData(TensorDataset(torch.rand(9, 4), torch.zeros(9)))


def test_a_run_with_it_is_a_run(tmp_path):
    """It is trained, sampled, and with the data given again goes on and is measured."""
    model = er.assemble(SMALL, data=pairs())
    with pytest.warns(UserWarning, match="pass the data again"):
        er.train(model, tmp_path / "run", **QUIET)
    assert er.sample(tmp_path / "run", 3, device="cpu").x.shape == (3, 4, 4, 1)
    assert er.resume(tmp_path / "run", {"train.steps": 3}, data=pairs(), **QUIET).step == 3
    assert er.evaluate(tmp_path / "run", data=pairs(), metrics=("bpd",)).measurements
    with pytest.raises(ElbowroomError, match=r"needs a data set.*er\.evaluate\(run, data="):
        evaluate_run(tmp_path / "run")


@pytest.mark.parametrize("channels", [1, 3])
def test_channels_first_are_refused(channels):
    """Images [N, C, H, W] are not read as if they were channels last."""
    x = torch.zeros(20, channels, 8, 8, dtype=torch.uint8)
    with pytest.raises(ElbowroomError, match=r"channels first.*permute\(0, 2, 3, 1\)"):
        er.assemble(SMALL, data=x)
    assert er.TorchData(TensorDataset(x.permute(0, 2, 3, 1))).spec.shape == (8, 8, channels)
