"""YAML as people write it: 1.2 values, lines, and refusals that cost nothing."""

from __future__ import annotations

import math

import pytest
from elbowroom.config.yaml_reader import read_file, read_yaml, write_yaml
from elbowroom.errors import ConfigError
from hypothesis import example, given, strategies as st


def value_of(text):
    return read_yaml(text, "f.yaml").value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.inf", -math.inf),
        ("0o17", 15),
        ("0x1F", 31),
        ("017", 17),
        ("+3", 3),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("nan", "nan"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("1e", "1e"),
    ],
)
def test_scalars_follow_the_core_schema(text, expected):
    """An unquoted scalar means what YAML 1.2 says, with its exact type."""
    value = value_of(f"a: {text}")["a"]
    assert value == expected
    assert type(value) is type(expected)


def test_every_value_knows_its_line():
    """The place of a value is the line its key stands in."""
    places = read_yaml("a: 1\nb:\n  c:\n    2\n  d: [x,\n    y]\n", "f.yaml").places
    assert places["a",] == "f.yaml:1"
    assert places["b", "c"] == "f.yaml:3"
    assert places["b", "d", 1] == "f.yaml:6"
    assert places[()] == "f.yaml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3", "f.yaml:3: the key 'a' is given twice"),
        ("1: a\n1: b", "given twice"),
        ("a: !!python/object/apply:os.system [ls]", "f.yaml:1: a tag"),
        ("a: !!int three", "f.yaml:1: 'three' cannot be read as a number"),
        ("a: !mine 3", "a tag"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: not YAML: expected a single document"),
        ("? [a]\n: 1", "a key must be a word"),
        ("true: 1", "the key 'true' must be a word"),
        ("null: 1", "the key 'null' must be a word"),
        ("1.5: 1", "the key '1.5' must be a word"),
        ("a: &x [*x]", "f.yaml: nested too deep"),
        ("a: *y", "f.yaml:1:4: not YAML: found undefined alias"),
        ("a: b: c", "f.yaml:1:5: not YAML"),
        ("a: [1,", "not YAML"),
        ("a: '", "not YAML"),
        ("a: \x00", "not YAML"),
        ("\ud800", "not UTF-8"),
        ("a: " + "1" * 5000, "cannot be read as a number"),
    ],
)
def test_refusals_say_what_and_where(text, said):
    """What a config must not contain is refused in one line that names it."""
    with pytest.raises(ConfigError) as caught:
        value_of(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_reasonable_alias_is_a_copy():
    """Anchors and aliases within reason are allowed."""
    assert value_of("a: &x {b: 1}\nc: *x") == {"a": {"b": 1}, "c": {"b": 1}}


def test_files_that_cannot_be_read_say_why(tmp_path):
    """A missing file, a folder, a file that is no text: one clear error each."""
    missing, latin = tmp_path / "none.yaml", tmp_path / "latin.yaml"
    latin.write_bytes(b"data: d\xefgits")
    for path, said in [
        (missing, "there is no file"),
        (tmp_path, "is a directory"),
        (latin, "byte 7 is 0xef"),
        (tmp_path / "a\0b", "cannot read"),
        (tmp_path / ("x" * 5000), "cannot read"),
    ]:
        with pytest.raises(ConfigError, match=said):
            read_file(path)


def test_a_forbidden_file_says_so(tmp_path, monkeypatch):
    """A file that may not be read says so in the system's words."""
    path = tmp_path / "secret.yaml"
    path.write_text("a: 1")

    def refuse(self, *_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "read_bytes", refuse)
    with pytest.raises(ConfigError, match="Permission denied"):
        read_file(path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    """Files of editors that write a mark at the start are read as if it were not there."""
    path = tmp_path / "marked.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1")
    assert value_of(read_file(path)) == {"a": 1}


words = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["1e-3", "no", "0o17", "017", "null", "", "~", ".inf", "2024-01-01", "a: b", "#", "- a", "1_0"]
)
plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(plain_data)
@example({"\x85": ["\u2028", "\u2029x", "a\x85b", "\ufeff", "\r\n", "\t", " a ", "\xa0"]})
@example(["1" * 5000, "1e-3", "0x1", "a\nb\n", "é", "\U0001f600", "\x7f"])
def test_what_is_written_reads_back_equal(value):
    """Writing then reading is the identity, types included."""
    back = value_of(write_yaml(value))
    assert repr(back) == repr(value)


@given(st.binary(max_size=60) | st.text("{}[]:,&*!|>'\"%@`?-# \n\tab1.e", max_size=40))
def test_garbage_is_a_config_error_or_a_value(garbage):
    """Whatever the text, a value comes out or a ConfigError: nothing else."""
    text = garbage.decode("latin-1") if isinstance(garbage, bytes) else garbage
    try:
        document = read_yaml(text, "f.yaml")
    except ConfigError:
        return
    assert document.places[()] == "f.yaml"
