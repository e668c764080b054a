"""Pieces of text by a byte-level tokenizer, learnt or given."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from elbowroom import ElbowroomError
from elbowroom.plugins.conformance import check_dataset
from elbowroom.plugins.text.dataset import Text
from hypothesis import given, settings, strategies as st

tokenizers = pytest.importorskip("tokenizers")
pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("book") / "counting.txt"
    path.write_text(" ".join(f"{n} is not {n * n} — äh🙂." for n in range(2000)), "utf-8")
    return path


@pytest.fixture(scope="module")
def data(book):
    return Text(path=book, length=16, tokenizer=300)


def test_it_keeps_the_laws_of_a_data_set(data):
    """Pieces are levels like any others."""
    assert data.spec.levels == 300
    check_dataset(data)


@settings(max_examples=50)
@given(text=st.text(max_size=60))
def test_pieces_in_a_row_are_the_text(data, text):
    """Whatever the text: 256 pieces are the bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return  # no text in UTF-8
    assert data.decode(data.encode(text)[None]) == [text]


def test_pieces_are_the_same_each_time(book, data):
    """They are a function of the text, so a run can go on where its tokenizer was not kept."""
    assert Text(path=book, length=16, tokenizer=300).spec.tokens == data.spec.tokens


def test_units_are_those_of_the_text(data):
    """All pieces of a split together have its characters and its bytes."""
    codes = data._codes["test"]
    text = data.decode(torch.from_numpy(codes.astype("int64"))[None])[0]
    units = data.units("test")
    assert units["character"] * len(codes) / 16 == pytest.approx(len(text))
    assert units["byte"] * len(codes) / 16 == pytest.approx(len(text.encode()))


def test_a_tokenizers_file_can_be_given(tmp_path, book, data):
    """It means the same as the one that was saved."""
    file = tmp_path / "pieces.json"
    data._vocabulary._tokenizer.save(str(file))
    given = Text(path=book, length=16, tokenizer=file)
    assert given.spec.tokens == data.spec.tokens
    assert torch.equal(given.encode("not 7"), data.encode("not 7"))


def test_a_tokenizer_that_loses_text_is_refused(tmp_path, book):
    """Words and SentencePiece's pieces in a row are not the text."""
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, "[UNK]"))
    words.save(str(tmp_path / "words.json"))
    with pytest.raises(ElbowroomError, match="not a byte-level tokenizer"):
        _ = Text(path=book, tokenizer=tmp_path / "words.json").spec


@pytest.mark.parametrize("content", [None, "", "{}", "\0", '{"model": 3}'])
def test_a_file_that_is_no_tokenizer_says_so(tmp_path, book, content):
    """Missing or broken."""
    file = tmp_path / "no.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ElbowroomError, match=r"no\.json"):
        _ = Text(path=book, tokenizer=file).spec


@pytest.mark.parametrize(
    ("vocab", "merges"),
    [({"a": 0, "b": 0, "c": 1}, [["a", "c"]]), ({"a": 0, "b": 4_000_000_000}, [])],
    ids=["panic", "huge id"],
)
def test_a_hostile_tokenizer_file_is_an_error(tmp_path, book, vocab, merges):
    """The library panics on some files, and an id may claim any size of the vocabulary."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    record = json.loads(tokenizer.to_str())
    record["model"] |= {"vocab": vocab, "merges": merges}
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(record))
    with pytest.raises(ElbowroomError, match=r"bad\.json"):
        _ = Text(path=book, tokenizer=file).spec


def test_more_pieces_than_the_text_has_are_refused(tmp_path):
    """It says how many there are."""
    path = tmp_path / "small.txt"
    path.write_text("ab " * 400)
    with pytest.raises(ElbowroomError, match=r"only \d+ different tokens"):
        _ = Text(path=path, length=4, tokenizer=1000).spec


def test_without_the_package_it_says_what_to_install(book, monkeypatch):
    """And that characters need nothing."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ElbowroomError, match=r"elbowroom\[text\]"):
        _ = Text(path=book, tokenizer=300).spec
