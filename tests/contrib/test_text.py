"""Characters of a file as a data set, and a model of sequences over them."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom import ElbowroomError, Noise, assemble
from elbowroom.conformance import check_dataset
from elbowroom.contrib.text import Text
from hypothesis import given, settings
from hypothesis import strategies as st

VERSE = "the quick brown fox jumps over the lazy dog. " * 60


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(VERSE, "utf-8")
    return path


@pytest.mark.parametrize(("length", "stride"), [(1, 1), (16, 1), (16, 16), (64, 5)])
def test_it_keeps_the_laws_of_a_data_set(tmp_path, length, stride):
    """It passes the conformance kit for runs of every length and stride."""
    book = tmp_path / "counting.txt"  # one that does not repeat itself: splits must differ
    book.write_text(" ".join(f"{n} is not {n * n}." for n in range(400)), "utf-8")
    check_dataset(Text(path=book, length=length, stride=stride))


def test_the_alphabet_is_what_the_file_has(tmp_path):
    """Every character has one level, in the order of Unicode, whatever its script."""
    path = tmp_path / "mixed.txt"
    path.write_text("λ→🙂ab\n" * 200, "utf-8")
    data = Text(path=path, length=4)
    assert data.alphabet == "\nabλ→🙂"
    assert data.spec.levels == 6


def test_big_and_small_letters_may_be_one(tmp_path):
    """lower folds the alphabet."""
    path = tmp_path / "case.txt"
    path.write_text("AbaB" * 200, "utf-8")
    assert Text(path=path, length=4).alphabet == "ABab"
    assert Text(path=path, length=4, lower=True).alphabet == "ab"


def test_splits_are_stretches_that_do_not_overlap(tmp_path):
    """Put together again, the three splits are the text, in order, each character once."""
    text = "".join(chr(0x100 + i % 4000) for i in range(4000))
    path = tmp_path / "unique.txt"
    path.write_text(text, "utf-8")
    data = Text(path=path, length=10, stride=10)
    parts = []
    for name in ("train", "validation", "test"):
        split = data.split(name)
        parts += data.decode(split.take(torch.arange(len(split))).x)
    assert "".join(parts) == text


def test_training_runs_begin_at_every_stride(book):
    """With stride 1 each character but the last begins a run."""
    data = Text(path=book, length=8)
    train = data.split("train")
    assert len(train) == round(0.9 * len(VERSE)) - 7
    assert data.decode(train.take(torch.tensor([3, 0])).x) == [VERSE[3:11], VERSE[:8]]


@settings(max_examples=30)
@given(text=st.text(min_size=60, max_size=400))
def test_decoding_undoes_encoding(tmp_path_factory, text):
    """For any text, the codes of a run give the run back."""
    path = tmp_path_factory.mktemp("any") / "text.txt"
    path.write_bytes(text.encode("utf-8", "replace"))
    whole = path.read_bytes().decode("utf-8-sig")
    data = Text(path=path, length=1)
    if len(set(whole)) < 2:
        with pytest.raises(ElbowroomError, match="different characters"):
            _ = data.spec
        return
    assert data.decode(data.encode(whole)[None]) == [whole]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read the text"),
        (b"\xff\xfe\x00bad", "no UTF-8"),
        (b"too short", "make data.length smaller"),
        (b"a" * 5000, "1 different characters"),
        (b"", "0 different characters"),
    ],
)
def test_a_file_that_will_not_do_says_why(tmp_path, content, said):
    """Missing, undecodable, short and monotonous files are errors for people."""
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ElbowroomError, match=said):
        _ = Text(path=path).spec


def test_an_unknown_character_and_a_wrong_index_are_errors(book):
    """What the alphabet does not have cannot be encoded; what is not there cannot be taken."""
    data = Text(path=book, length=8)
    with pytest.raises(ElbowroomError, match="'Q'"):
        data.encode("Q")
    with pytest.raises(IndexError):
        data.split("test").take(torch.tensor([-1]))


@pytest.mark.parametrize("process", ["masked", "elbowroom.contrib.uniform:Uniform"])
def test_a_sequence_model_learns_to_spell(book, process):
    """A small dit over sequences soon beats guessing by frequency, under either process."""
    model = assemble(
        {
            "data": {"name": "elbowroom.contrib.text:Text", "path": str(book), "length": 16},
            "process": process,
            "denoiser": {"name": "dit", "width": 64, "depth": 2, "dropout": 0.0},
            "sampler": {"name": "ancestral", "steps": 8},
        }
    )
    data = Text(path=book, length=16)
    train, test = data.split("train"), data.split("test").take(torch.arange(8)).x
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(150):
        noise = Noise.of(0, 32, step=step)
        optimiser.zero_grad()
        model(train.take(noise.integers("which", len(train))).x, None, noise).loss.backward()
        optimiser.step()
    model.eval()
    draws = [model.bound(test, None, Noise.of(1, len(test), step=s)).bits_per_dim(16)
             for s in range(8)]  # fmt: skip
    frequency = torch.bincount(data.encode(VERSE)).double() / len(VERSE)
    entropy = float(torch.special.entr(frequency).sum() / math.log(2))
    assert float(torch.stack(draws).mean()) < 0.8 * entropy
    said = data.decode(model.sample(Noise.of(0, 2)).x)
    assert [len(one) for one in said] == [16, 16]
