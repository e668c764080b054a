"""The data-set contract."""

from __future__ import annotations

import pytest
import torch
from elbowroom.config.sections import load_config
from elbowroom.contracts.dataset import SPLITS, Batch, DataSpec, Split, check_split
from elbowroom.errors import ElbowroomError
from torch.utils.data import DataLoader


class Squares(Split):
    def __len__(self):
        return 10

    def take(self, indices):
        return Batch(indices**2, indices % 3)


@pytest.mark.parametrize("size", [1, 3, 10, 64])
def test_batches_go_through_the_split_once(size: int):
    """Batches hold every example once, in order, and are no larger than asked."""
    batches = list(Squares().batches(size))
    assert torch.cat([batch.x for batch in batches]).equal(torch.arange(10) ** 2)
    assert all(len(batch) <= size for batch in batches)
    assert len(batches) == -(-10 // size)


def test_empty_batches_are_refused():
    """A batch size of zero is an error, not an endless loop."""
    with pytest.raises(ValueError, match="at least 1"):
        next(Squares().batches(0))


def test_unknown_split_lists_the_choices():
    """A wrong split name is answered with the right ones."""
    assert [check_split(name) for name in SPLITS] == list(SPLITS)
    with pytest.raises(ElbowroomError, match=r"did you mean 'train'.*train, validation, test"):
        check_split("trian")


def test_dims_counts_integers():
    """A spec's dims is the number of integers in one example."""
    assert DataSpec((8, 8, 3), 256).dims == 192
    assert DataSpec((), 2).dims == 1


def test_a_split_is_a_torch_data_set():
    """A DataLoader gives the split's own examples, in order, and iteration ends."""
    split = load_config("digits").data.build().split("validation")
    batches = list(DataLoader(split, batch_size=32))
    whole = split.take(torch.arange(len(split)))
    assert torch.equal(torch.cat([x for x, _ in batches]), whole.x)
    assert torch.equal(torch.cat([y for _, y in batches]), whole.y)
    assert torch.equal(split[-1][0], whole.x[-1])
    assert sum(1 for _ in split) == len(split)
    with pytest.raises(IndexError, match="of a split of"):
        split[len(split)]


def test_a_split_without_labels_gives_examples_alone():
    """None cannot be collated."""
    split = load_config({"process": "masked", "data": "toy-bits"}).data.build().split("test")
    x = next(iter(DataLoader(split, batch_size=4)))
    assert torch.equal(x, split.take(torch.arange(4)).x)
