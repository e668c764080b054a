"""The pickle reader that knows data only."""

from __future__ import annotations

import builtins
import collections
import contextlib
import os
import pickle
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.datasets.pickles import PickledArray, Span, read_pickle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

UNHURRIED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.text()
)
DATA = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.binary() | st.integers(), inner)
        | st.lists(inner).map(tuple)
    ),
    max_leaves=20,
)


def read(tmp_path: Path, content: bytes):
    path = tmp_path / "made"
    path.write_bytes(content)
    return read_pickle(path)


@given(value=DATA, protocol=st.integers(2, 5))
@settings(suppress_health_check=UNHURRIED)
def test_plain_data_comes_back(tmp_path, value, protocol: int):
    """Nested dicts, lists, tuples, strings, bytes and numbers are read as Python reads them."""
    assert read(tmp_path, pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["u1", "<i4", ">i4", "<f8", "b1"])
@pytest.mark.parametrize("shape", [(3,), (4, 5), (2, 3, 4), (0, 3), (1200, 1000)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back(tmp_path, protocol: int, dtype: str, shape: tuple, order: str):
    """Arrays of every protocol, byte order, shape and layout are read, large ones in place."""
    array = np.asarray(np.random.default_rng(0).integers(0, 2, shape), dtype, order=order)
    found = read(tmp_path, pickle.dumps({"a": array}, protocol))["a"]
    assert isinstance(found, PickledArray)
    assert np.array_equal(found.whole(), array)
    if protocol > 2 and array.nbytes >= 1 << 20:
        assert isinstance(found.data, Span)
    if array.flags.c_contiguous and array.size:
        assert np.array_equal(np.concatenate(list(found.pieces(7))), array)


def test_scalars_of_numpy_come_back(tmp_path):
    """Numbers of numpy are read as Python's."""
    value = [np.int64(7), np.float32(0.5), np.bool_(True)]
    assert read(tmp_path, pickle.dumps(value)) == [7, 0.5, True]


def test_python_2_is_understood(tmp_path):
    """A batch as Python 2 wrote it, with strings as keys, is read; its strings are bytes."""
    content = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\n"
        b"q\x04K\x00\x85q\x05U\x01b\x87q\x06Rq\x07(K\x01K\x02K\x03\x86q\x08cnumpy\ndtype\nq\tU\x02u1"
        b"K\x00K\x01\x87q\nRq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06"
        b"abcdeftbU\x06labelsq\x0c]q\r(K\x05K\x06eu."
    )
    found = read(tmp_path, content)
    assert found[b"labels"] == [5, 6]
    assert found[b"data"].whole().tolist() == [[97, 98, 99], [100, 101, 102]]


class Evil:
    """Unpickled by Python itself, this would make a file."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda path: Evil(os.system, f"touch {path}"), "system"),
        (lambda path: Evil(builtins.eval, f"open({str(path)!r}, 'w')"), "eval"),
        (lambda path: Evil(builtins.open, str(path), "w"), "open"),
        (lambda path: Evil(builtins.getattr, "", "join"), "getattr"),
        (lambda path: Evil(np.load, str(path)), "load"),
        (lambda path: Evil(np.memmap, str(path), "u1", "w+", 0, 4), "memmap"),
    ],
)
def test_calls_are_refused(tmp_path, protocol: int, make, name: str):
    """A pickle that would run something is refused by name, and nothing runs."""
    target = tmp_path / "touched"
    evil = make(target)
    with pytest.raises(ElbowroomError, match=rf"made refused.*{name}"):
        read(tmp_path, pickle.dumps({"data": np.zeros(3), "labels": [evil]}, protocol))
    assert not target.exists()


@pytest.mark.parametrize(
    "value",
    [
        collections.OrderedDict(a=1),
        Fraction(1, 2),
        {1, 2},
        frozenset((1,)),
        np.array([{}], dtype=object),
        np.zeros(2, dtype="U3"),
        np.zeros(2, dtype=[("a", "u1")]),
        np.zeros(2, dtype="M8[s]"),
        Path("/"),
        len,  # not print, which some libraries replace
        int,
    ],
    ids=str,
)
def test_everything_else_is_refused(tmp_path, value):
    """Objects other than plain data and numeric arrays are refused."""
    with pytest.raises(ElbowroomError, match="made"):
        read(tmp_path, pickle.dumps([value]))


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x02cnumpy\nndarray\n(K\x02tR.",  # our own symbol, but not to be called
        b"\x80\x02cnumpy\ndtype\n}b.",  # a state for a symbol
        b"\x80\x02}}b.",  # a state for a dict
        b"\x80\x02K\x01K\x01a.",  # an append to a number
        b"\x80\x02K\x01K\x01K\x02s.",  # an item of a number
        b"\x80\x02]]]s.",  # an item of a list
        b"\x80\x02}]K\x01s.",  # an unhashable key
        b"\x80\x02(t",  # no end
        b"\x80\x02.",  # nothing on the stack
        b"\x80\x02t.",  # no mark
        b"\x80\x02\x86.",
        b"\x80\x02h\x05.",
        b"\x80\x02Ppersistent\n.",
        b"\x80\x02\x82\x01.",  # the extension registry
        b"\x80\x02(ios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.",
        b"\x80\x02U\x05ab.",
        b"\x80\x02X\x02\x00\x00\x00\xff\xff.",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**63) + b"abc.",
        b"\x80\x02\xfe.",
        b"",
        b"\x80",
        b"I1\n.",
        b"PK\x03\x04",
    ],
)
def test_broken_and_crafted_programs_are_refused(tmp_path, program: bytes):
    """Programs that are cut short, malformed or made to do harm end in an error naming the file."""
    with pytest.raises(ElbowroomError, match="made"):
        read(tmp_path, program)


@given(content=st.binary(max_size=60))
@settings(max_examples=300, suppress_health_check=UNHURRIED)
def test_no_bytes_cause_any_other_error(tmp_path, content: bytes):
    """Whatever the bytes, the answer is data or an error for people."""
    with contextlib.suppress(ElbowroomError):
        read(tmp_path, b"\x80\x02" + content)


@given(cut=st.integers(0, 1500))
@settings(suppress_health_check=UNHURRIED)
def test_truncation_is_noticed(tmp_path, cut: int):
    """A pickle cut short anywhere is refused."""
    content = pickle.dumps({"data": np.arange(300), "labels": [1, 2]}, 4)
    with pytest.raises(ElbowroomError, match="made"):
        read(tmp_path, content[: min(cut, len(content) - 1)])


def test_shape_must_fit_the_data(tmp_path):
    """An array that claims more elements than it has bytes is refused."""
    content = pickle.dumps(np.zeros((5, 7), np.uint8), 3).replace(b"K\x05K\x07", b"K\x05K\x08")
    with pytest.raises(ElbowroomError, match=r"shape \(5, 8\) with 35 bytes"):
        read(tmp_path, content)


# -- programs that ask for more than they are worth


def twice(start: bytes, times: int) -> bytes:
    """(x, x), of that the same again, ...: 2^times leaves in a few bytes."""
    return start + b"".join(b"q%ch%c\x86" % (n, n) for n in range(times))


BOMBS = {
    "hash of a key": b"\x80\x02}" + twice(b"K\x01", 60) + b"K\x01s.",
    "hash of many keys": b"\x80\x02}(" + twice(b"K\x01", 60) + b"K\x01u.",
    "keys of equal hash": b"\x80\x02}("
    + b"".join(b"\x8a\x0a" + (n * (2**61 - 1)).to_bytes(10, "little") + b"N" for n in range(20_000))
    + b"u.",
    "text of a structure": b"\x80\x02c_codecs\nencode\n" + twice(b"K\x01", 60) + b"\x85R.",
    "name of a structure": b"\x80\x04" + twice(b"K\x01", 60) + b"K\x01\x93.",
    "call of a structure": b"\x80\x02" + twice(b"K\x01", 60) + b")R.",
    "one text many times": b"\x80\x02c_codecs\nencode\nq\x00X\x00\x00\x10\x00"
    + b"a" * (1 << 20)
    + b"q\x01"
    + b"h\x00h\x01\x85R" * 100_000
    + b".",
    "deep tuples": b"\x80\x02K\x01" + b"\x85" * 200_000 + b".",
    "deep lists": b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "deep dicts": b"\x80\x02" + b"}K\x01" * 200_000 + b"N" + b"s" * 200_000 + b".",
    "a list in itself": b"\x80\x02]q\x00h\x00a.",
    "lists in each other": b"\x80\x02]q\x00]q\x01h\x00ah\x00h\x01a.",
    "a dict in itself": b"\x80\x02}q\x00K\x01h\x00s.",
    "many marks": b"\x80\x02" + b"(" * 200_000 + b".",
}


def array(shape: bytes) -> bytes:
    """An empty array that claims a shape."""
    return (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R(K\x01"
        + shape
        + b"cnumpy\ndtype\nU\x02u1"
        b"\x85R(K\x03U\x01|NNNtb\x89U\x00tb."
    )


LARGE = b"\x8a\xff" + b"\xff" * 254 + b"\x7f"
BOMBS |= {
    "a long shape": array(b"(" + LARGE * 100_000 + b"t"),
    "a huge side": array(b"K\x00" + LARGE + b"\x86"),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.timeout(60)  # an endless one would never get there
def test_small_programs_cannot_ask_for_much(tmp_path, bomb):
    """Whatever a few bytes ask for, the answer is an error at once, with little memory."""
    import tracemalloc

    content = BOMBS[bomb]
    tracemalloc.start()
    try:
        with pytest.raises(ElbowroomError, match="made"):
            read(tmp_path, content)
        assert tracemalloc.get_traced_memory()[1] < 300 * len(content) + 10_000_000
    finally:
        tracemalloc.stop()


def test_rows_without_elements_are_not_walked(tmp_path):
    """2^39 empty rows fit into no bytes; nobody counts them."""
    found = read(tmp_path, array(b"\x8a\x05\x00\x00\x00\x00\x10K\x00\x86"))
    with pytest.raises(ElbowroomError, match="empty rows"):
        next(found.pieces(1))


def test_labels_that_share_their_parts_are_not_unfolded(tmp_path):
    """A list of one list ten times, thirty deep, would be 10^30 labels."""
    from elbowroom.plugins.datasets.batches import label_array

    labels = read(tmp_path, b"\x80\x02]K\x01a" + b"".join(
        b"q%c](" % n + b"h%c" % n * 10 + b"e" for n in range(30)) + b".")  # fmt: skip
    with pytest.raises(ElbowroomError, match="not a plain list of whole numbers"):
        label_array(labels, tmp_path)
