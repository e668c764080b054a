"""The data of a comparison: named as configs name it, and shown class by class."""

from __future__ import annotations

import pytest
import torch
from elbowroom import Batch, Split, load_config
from elbowroom.plugins.compare.real_data import changed_options, examples, show_data
from hypothesis import given, strategies as st

from tests.helpers.comparing import comparison


class Labelled(Split):
    """Example k is the number k, of a given label."""

    def __init__(self, labels):
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def take(self, indices):
        y = None if None in self.labels else torch.tensor(self.labels)[indices]
        return Batch(indices[:, None], y)


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), min_size=1))
def test_every_place_has_an_example_of_its_class(labels, wanted):
    """None is shown twice, and a place is empty only where its class has no more examples."""
    found = examples(Labelled(labels), wanted, (1,))[:, 0].tolist()
    shown = [k for k in found if k >= 0]
    assert len(set(shown)) == len(shown)
    for label in set(wanted):
        of_it = [k for k, asked in zip(found, wanted, strict=True) if asked == label]
        filled = [k for k in of_it if k >= 0]
        assert all(labels[k] == label for k in filled)
        assert len(filled) == min(len(of_it), labels.count(label))


def test_examples_without_labels_are_any():
    """Where data have no classes every place is filled."""
    found = examples(Labelled([None] * 9), [0] * 6, (1,))
    assert len(set(found[:, 0].tolist())) == 6


def test_real_examples_are_arranged_as_samples_are(tmp_path):
    """The same size as samples.png, a digit in each column; data that is not varied stands once."""
    made = comparison(tmp_path, "weighting=simple,elbo")
    (one,) = show_data(made.points(), tmp_path / "out")
    assert one.name == "digits" and one.models == ["simple", "elbo"]
    assert one.options == {"size": "4", "levels": "5", "limit": "64"}
    assert (tmp_path / "out" / "real.png").is_file() and one.split == "test"
    assert one.classes[0] == list("0123456789")
    assert (one.width - 1) % 10 == 0 and (one.height - 1) % len(one.classes) == 0


def test_every_data_set_has_its_picture(tmp_path):
    """Where data are varied, each says which models have it."""
    shown = show_data(comparison(tmp_path, "data.levels=5,3").points(), tmp_path / "out")
    assert [one.picture for one in shown] == ["real.png", "real-1.png"]
    assert [one.models for one in shown] == [["5"], ["3"]]


def test_data_that_are_elsewhere_are_named_without_a_picture(tmp_path):
    """The report is made where files need not be; a path is shown as it was written."""
    made = comparison(tmp_path, overrides=("data={name: image-folder, path: no/such, size: 8}",))
    (one,) = show_data(made.points(), tmp_path / "out")
    assert one.picture is None
    assert str(one) == "data: image-folder (size: 8, path: no/such)"


@pytest.mark.parametrize(
    ("given", "said"), [("digits", {}), ("{name: digits, size: 4}", {"size": "4"})]
)
def test_only_what_was_chosen_is_said(given, said):
    """Options at their usual values, and the places data are looked for, are not."""
    assert changed_options(load_config("digits", (f"data={given}",)).data) == said
