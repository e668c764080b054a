"""Characters of a file as a data set, and a model of sequences over them."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import torch
from elbowroom import (
    ElbowroomError,
    EvaluationProtocol,
    Noise,
    assemble,
    named_component,
    resume,
    train,
)
from elbowroom.plugins.conformance import check_dataset
from elbowroom.plugins.evaluation.run import evaluate_run
from elbowroom.plugins.sampling.write import sample_run
from elbowroom.plugins.text import files
from elbowroom.plugins.text.dataset import Text
from elbowroom.runs.load import load_run
from hypothesis import given, settings, strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

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
        (None, "does not exist"),
        (b"\xff\xfe\x00bad", "not utf-8"),
        (b"too short", "Reduce data.length"),
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


@pytest.mark.parametrize("process", ["masked", "uniform"])
def test_a_sequence_model_learns_to_spell(book, process):
    """A small dit over sequences soon beats guessing by frequency, under either process."""
    model = assemble(
        {
            "data": {"name": "text", "path": str(book), "length": 16},
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
    said = data.decode(model.sampler.sample(model, Noise.of(0, 2)).x)
    assert [len(one) for one in said] == [16, 16]


# -- folders


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def test_a_folder_is_one_text_of_all_its_files(tmp_path):
    """Every character of every file is in some split once, and other files are not looked at."""
    parts = {f"a{n}": f"{n} is {n * n}. " * 20 for n in range(12)} | {"deep__b": "deep. " * 30}
    write(tmp_path, **parts)
    (tmp_path / "notes.md").write_text("never read")
    (tmp_path / ".hidden.txt").write_text("never read")
    data = Text(path=tmp_path, length=1)
    whole = "".join(
        "".join(data.decode(split.take(torch.arange(len(split))).x))
        for split in map(data.split, ("train", "validation", "test"))
    )
    assert sorted(whole.split("\n")) == sorted(parts.values())
    assert whole.split("\n") != [parts[name] for name in sorted(parts)]  # no name decides


def test_files_called_train_and_test_are_the_splits(tmp_path):
    """A part that is missing is cut off the end of train."""
    write(tmp_path, train="ab" * 500, test="ba" * 50)
    data = Text(path=tmp_path, length=10, stride=10)
    assert [len(data.split(name)) for name in ("train", "validation", "test")] == [95, 5, 10]
    write(tmp_path, valid__one="aabb" * 10)
    data = Text(path=tmp_path, length=10, stride=10)
    assert [len(data.split(name)) for name in ("train", "validation", "test")] == [100, 4, 10]


def test_a_limit_takes_the_beginning(tmp_path):
    """So many characters are read, whatever comes after them."""
    path = tmp_path / "long.txt"
    path.write_bytes(b"ab" * 20_000 + b"\xff")
    data = Text(path=path, length=10, stride=10, limit=1000)
    assert sum(len(data.split(name)) for name in ("train", "validation", "test")) == 100


# -- hostile input


def said(**options):
    with pytest.raises(ElbowroomError) as caught:
        _ = Text(**options).split("train")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_no_text_is_told_what_it_is(tmp_path):
    """Another encoding, a program, a pipe, an empty folder: each has its sentence."""
    other = tmp_path / "other.txt"
    other.write_text("ab" * 500, "utf-16")
    assert "data.encoding=utf-16" in said(path=other)
    assert Text(path=other, encoding="utf-16", length=4).alphabet == "ab"
    other.write_bytes("äb".encode("latin-1") * 500)
    assert "e.g. latin-1" in said(path=other)
    other.write_bytes(b"\x7fELF\x02\x00\x00\xff" * 500)
    assert "it is not text" in said(path=other)
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    assert "neither a file nor a folder" in said(path=pipe)
    (tmp_path / "folder").mkdir()
    assert "'*.txt'" in said(path=tmp_path / "folder")
    assert "not a file pattern" in said(path=tmp_path, pattern="/*")


def test_more_text_than_memory_needs_a_limit(tmp_path):
    """It is said before anything is read."""
    path = tmp_path / "sparse.txt"
    with path.open("wb") as file:
        file.truncate(files.LARGEST_SIZE + 1)
    assert "Set data.limit" in said(path=path)


def test_too_many_characters_are_sent_to_a_tokenizer(tmp_path):
    """An alphabet of thousands is no alphabet."""
    path = tmp_path / "many.txt"
    path.write_text("".join(map(chr, range(0x4E00, 0x4E00 + 5000))), "utf-8")
    assert "data.tokenizer=" in said(path=path)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("encoding", "utf-9", "unknown encoding"), ("encoding", "hex", "not a text encoding"),
     ("tokenizer", 100, "256 tokens are the bytes"), ("limit", 0, "limit")],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(book, option, value, said):
    """Before any file is read."""
    with pytest.raises(ElbowroomError, match=said):
        named_component("dataset", {"name": "text", "path": str(book), option: value})


# -- units


def test_units_are_counted_over_the_split(tmp_path):
    """Characters and bytes of an example, on average, are those of its split's text."""
    path = tmp_path / "umlauts.txt"
    path.write_text("aä€🙂" * 1000, "utf-8")  # 1, 2, 3 and 4 bytes
    data = Text(path=path, length=8)
    assert data.units("test") == {"character": 8.0, "byte": 20.0}


# -- a run


TINY = {
    "denoiser": {"name": "dit", "width": 16, "depth": 1, "dropout": 0.0},
    "process": "masked",
    "sampler": {"name": "ancestral", "steps": 4},
    "train": {"steps": 2, "batch_size": 4, "warmup": 1, "evaluate_every": 2},
}


@pytest.fixture
def run(book, tmp_path):
    data = {"name": "text", "path": str(book), "length": 16}
    train({**TINY, "data": data}, tmp_path / "run", without=["console"])
    return tmp_path / "run"


def test_a_run_shows_its_samples_as_text(run, book):
    """In files, in TensorBoard and in an evaluation, without the text it was trained on."""
    book.rename(book.with_name("gone.txt"))
    report = sample_run(run, count=3)
    written = report.paths["texts"].read_text("utf-8")
    assert written.count("--- sample ") == 3
    x = torch.from_numpy(np.load(report.paths["samples"])["x"].astype("int64"))
    spec = load_run(run).model.process.data
    assert all(one in written for one in spec.texts(x))
    events = EventAccumulator(str(run / "tensorboard" / run.name)).Reload()
    (shown,) = events.Tensors("samples/text_summary")
    assert shown.tensor_proto.string_val[0].decode().startswith("    ")


def test_an_evaluation_counts_bits_by_characters_and_bytes(run, book):
    """For characters of one byte each, all three are the same number; texts are beside them."""
    report = evaluate_run(run, (), EvaluationProtocol(metrics=("bpd",)))
    bits = {name: one["value"] for name, one in report.measurements.items()}
    assert bits["bits_per_character"] == bits["bits_per_byte"] == bits["bits_per_dim"]
    assert [len(one) for one in report.record["texts"]] == [16] * 8


def test_a_text_that_changed_is_not_resumed(run, book):
    """The same number of other characters: numbers would mean something else."""
    book.write_text(VERSE.replace("q", "Q"), "utf-8")
    with pytest.raises(ElbowroomError, match="in shape, levels or tokens"):
        resume(run, ["train.steps=4"], without=["console"])
    with pytest.raises(ElbowroomError, match="other tokens"):
        evaluate_run(run, (), EvaluationProtocol(metrics=("bpd",)))
