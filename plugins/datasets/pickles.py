"""Pickles that hold data only: dicts, lists, tuples, strings, bytes, numbers and numpy arrays.

A pickle is a program for a small stack machine, and Python's own machine will import and call
whatever the program names. This one has no such power: a name is a mere symbol, the few symbols
by which numpy arrays are written are understood here (numpy's own constructors are never
called), and any other name or instruction is refused. Protocols 2 to 5.

Byte strings of a megabyte and more are not read at all but remembered by their place in the
file, so an array of many gigabytes can be read in pieces.

Time and memory are bounded by the size of the file. A few bytes could ask for much more: tuples of
one tuple twice, sixty deep, take 2^60 steps to hash or to write out; one text can be encoded a
million times. So keys are plain, nothing is written out, structures are shallow and do not grow
once they are part of another (hence hold no cycle), and bytes are made only once each.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import attrs
import numpy as np
from elbowroom import ElbowroomError
from numpy.typing import NDArray

from .files import reading

_LARGE = 1 << 20
_SHOWN = 80  # characters of a name in an error
_DEEPEST = 100  # containers inside containers
_MOST_KEYS = 10_000  # of all dicts together: keys of equal hash cost the square of their number
_MOST_SIDES = 32  # of an array, as in numpy
_KEYS = (str, bytes, int, float, bool, type(None))
_NUMBERS = frozenset(("b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"))


@attrs.frozen
class Span:
    """Bytes that stayed in the file."""

    offset: int
    length: int


@attrs.frozen
class Symbol:
    """A name in a pickle; never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@attrs.define(eq=False)
class _DType:
    code: str  # kind and bytes: u1, f8, ...
    order: str = "<"

    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


@attrs.define(eq=False)
class PickledArray:
    """An array whose elements may still be in the file."""

    path: Path
    shape: tuple[int, ...] = (0,)
    dtype: np.dtype[Any] = attrs.field(factory=lambda: np.dtype("u1"))
    columns_first: bool = False
    data: bytes | Span = b""

    def set(self, shape: Any, dtype: Any, columns_first: Any, data: Any) -> None:
        """Takes on a state found in a pickle, if it is a sound one."""
        if not (
            isinstance(shape, tuple)
            and len(shape) <= _MOST_SIDES
            and all(type(side) is int and 0 <= side < 2**40 for side in shape)
            and isinstance(dtype, _DType)
            and isinstance(data, bytes | Span)
        ):
            raise ValueError("an array that is not made of plain numbers")
        count = 1
        for side in shape:
            count *= side
        length = data.length if isinstance(data, Span) else len(data)
        if count * dtype.numpy().itemsize != length:
            raise ValueError(f"an array of shape {shape} with {length} bytes of data")
        self.shape, self.dtype = tuple(shape), dtype.numpy()
        self.columns_first, self.data = bool(columns_first), data

    def whole(self) -> NDArray[Any]:
        """All of it, in memory."""
        flat = np.frombuffer(self._bytes(0, None), self.dtype)
        if self.columns_first:
            return np.transpose(flat.reshape(self.shape[::-1]))
        return flat.reshape(self.shape)

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        """At most ``rows`` rows at a time, so that memory does not grow with the array."""
        if self.columns_first and len(self.shape) > 1:
            raise ElbowroomError(
                f"{self.path}: its array of shape {self.shape} is stored column by column; "
                "save it again from numpy.ascontiguousarray"
            )
        width = self.dtype.itemsize
        for side in self.shape[1:]:
            width *= side
        if not width:
            raise ElbowroomError(f"{self.path}: its array of shape {self.shape} has empty rows")
        for start in range(0, self.shape[0], rows):
            count = min(rows, self.shape[0] - start)
            data = self._bytes(start * width, count * width)
            yield np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])

    def _bytes(self, start: int, length: int | None) -> bytes:
        if isinstance(self.data, bytes):
            return self.data[start:] if length is None else self.data[start : start + length]
        length = self.data.length if length is None else length
        with reading(self.path), self.path.open("rb") as file:
            file.seek(self.data.offset + start)
            data = file.read(length)
        if len(data) != length:
            raise ElbowroomError(f"{self.path} is cut short")
        return data


def read_pickle(path: Path) -> Any:
    """The object in a data-only pickle; text of Python 2 comes as bytes, arrays as PickledArray."""
    with reading(path), path.open("rb") as file:
        try:
            return _Machine(path, file).run()
        except (IndexError, TypeError, AttributeError, UnicodeError, struct.error) as error:
            raise ElbowroomError(f"{path} is not a sound pickle: {error}") from error


class _List(list[Any]):
    """A list of a pickle: how deep it is, and whether it is part of something already."""

    __slots__ = ("depth", "placed")

    def __init__(self) -> None:
        self.depth, self.placed = 1, False


class _Dict(dict[Any, Any]):
    """A dict of a pickle, alike."""

    __slots__ = ("depth", "placed")

    def __init__(self) -> None:
        self.depth, self.placed = 1, False


class _Tuple(tuple[Any, ...]):
    """A tuple of a pickle: it never grows."""

    depth = 1


class _Machine:
    """The stack machine: one method an instruction, as in the module ``pickletools``."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self.file = path, file
        self.length = path.stat().st_size
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.keys = self.encoded = 0  # how many keys there were, how many bytes came from text

    def run(self) -> Any:
        if self.read(1) != b"\x80":
            raise ElbowroomError(f"{self.path} is not a pickle of protocol 2 or newer")
        self.read(1)
        while (code := self.read(1)) != b".":
            act = _INSTRUCTIONS.get(code)
            if act is None:
                self.refuse(f"instruction {_name_of(code)}")
            act(self)
        return self.stack.pop()

    def refuse(self, what: str) -> NoReturn:
        raise ElbowroomError(
            f"{self.path} refused: it holds {what}. Only dicts, lists, strings, bytes, numbers "
            "and numpy arrays are read from a pickle, as anything else could run code"
        )

    # -- reading

    def read(self, length: int) -> bytes:
        data = self.file.read(length) if length <= self.length else b""
        if len(data) != length:
            raise ElbowroomError(f"{self.path} is cut short")
        return data

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.read(struct.calcsize("<" + form)))[0]

    def line(self) -> str:
        return self.file.readline(256).rstrip(b"\n").decode("ascii")

    def blob(self, form: str) -> bytes | Span:
        """A byte string: in memory if small, else its place."""
        length = self.number(form)
        if length < _LARGE:
            return self.read(length)
        offset = self.file.tell()
        if offset + length > self.length:
            raise ElbowroomError(f"{self.path} is cut short")
        self.file.seek(length, 1)
        return Span(offset, length)

    def push_blob(self, form: str) -> None:
        self.stack.append(self.blob(form))

    def push_text(self, form: str) -> None:
        blob = self.blob(form)
        if isinstance(blob, Span):
            self.file.seek(blob.offset)
            blob = self.read(blob.length)
        self.stack.append(blob.decode("utf-8", "surrogatepass"))

    def push_long(self) -> None:
        self.stack.append(int.from_bytes(self.read(self.number("B")), "little", signed=True))

    # -- containers

    def mark(self) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.marks.pop()
        return items

    def push_tuple(self) -> None:
        items = self.since_mark()  # before ``self.stack`` is looked up: it changes it
        self.stack.append(self.tuple(items))

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise IndexError("stack is empty")
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        self.stack.append(self.tuple(items))

    def tuple(self, items: list[Any]) -> _Tuple:
        made = _Tuple(items)
        if depth := self.place(items):
            made.depth = depth + 1
        return made

    def place(self, items: Iterable[Any]) -> int:
        """Make ``items`` part of something; how deep they are."""
        deepest = 0
        for item in items:
            if isinstance(item, _List | _Dict):
                item.placed = True
            elif not isinstance(item, _Tuple):
                continue
            deepest = max(deepest, item.depth)
        if deepest >= _DEEPEST:
            self.refuse(f"more than {_DEEPEST} containers inside each other")
        return deepest

    def grow(self, target: _List | _Dict, items: Iterable[Any]) -> None:
        target.depth = max(target.depth, self.place(items) + 1)
        if target.placed:
            self.refuse("a container that grows after it was put into another")

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, _List):
            self.refuse(f"an append to {kind(target)}")
        self.grow(target, items)
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, _Dict):
            self.refuse(f"items of {kind(target)}")
        keys, values = items[::2], items[1::2]
        self.keys += len(keys)
        if self.keys > _MOST_KEYS:
            self.refuse(f"more than {_MOST_KEYS} keys")
        for key in keys:
            if type(key) not in _KEYS:
                self.refuse(f"a key that is a {kind(key)}")
        self.grow(target, values)
        target.update(zip(keys, values, strict=True))

    def memoize(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise IndexError(f"nothing remembered as {index}")
        self.stack.append(self.memo[index])

    # -- numpy arrays

    def symbol(self, module: Any, name: Any) -> None:
        symbol = Symbol(_text(module), _text(name))
        if symbol not in _SYMBOLS:
            self.refuse(f"the name {str(symbol)[:_SHOWN]}")
        self.stack.append(symbol)

    def symbol_of_stack(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.symbol(module, name)

    def reduce(self) -> None:
        arguments, symbol = self.stack.pop(), self.stack.pop()
        make = _SYMBOLS.get(symbol) if isinstance(symbol, Symbol) else None
        if make is None or not isinstance(arguments, _Tuple):
            self.refuse(f"a call of {symbol if isinstance(symbol, Symbol) else 'no name'}")
        self.stack.append(make(self, *arguments))

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, PickledArray):
            _, shape, dtype, columns_first, data = state
            target.set(shape, dtype, columns_first, data)
        elif isinstance(target, _DType):
            order = _text(state[1])
            if order not in "<>|=" or any(part is not None for part in state[2:5]):
                self.refuse("an array with fields")
            # "=" is the order of the machine that wrote it, which nobody knows: the usual one.
            target.order = ">" if order == ">" else "<"
        else:
            self.refuse(f"a state for {kind(target)}")

    def make_empty_array(self, *_: Any) -> PickledArray:
        return PickledArray(self.path)

    def make_array(self, data: Any, dtype: Any, shape: Any, order: Any) -> PickledArray:
        array = PickledArray(self.path)
        array.set(shape, dtype, _text(order) == "F", data)
        return array

    def make_dtype(self, code: Any, *_: Any) -> _DType:
        if _text(code) not in _NUMBERS:
            self.refuse(f"an array of type {_text(code)[:_SHOWN]!r}")
        return _DType(_text(code))

    def make_scalar(self, dtype: Any, data: Any) -> Any:
        array = PickledArray(self.path)
        array.set((1,), dtype, False, data)
        return array.whole()[0].item()

    def make_bytes(self, text: Any = "", encoding: Any = "latin1") -> bytes:
        """How Python 3 writes bytes in protocol 2: as text to be encoded in Latin-1."""
        if _text(encoding) not in ("latin1", "latin-1"):
            self.refuse(f"text encoded as {_text(encoding)[:_SHOWN]!r}")
        made = text.encode("latin1") if isinstance(text, str) else _no_text(text)
        self.encoded += len(made)
        if self.encoded > self.length:
            self.refuse("one text that stands for many byte strings")
        return made


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("ascii")
    return value if isinstance(value, str) else _no_text(value)


def _no_text(value: Any) -> NoReturn:
    raise TypeError(f"text was expected, not {kind(value)}")


def kind(value: Any) -> str:
    """What a value of a pickle is, in Python's words."""
    plain = (base for base in (list, dict, tuple) if isinstance(value, base))
    return next(plain, type(value)).__name__


def _name_of(code: bytes) -> str:
    names = {op.code: op.name for op in pickletools.opcodes}
    return names.get(code.decode("latin1"), f"0x{code.hex()}")


_SYMBOLS: dict[Symbol, Callable[..., Any] | None] = {
    Symbol("numpy", "ndarray"): None,  # only ever an argument of _reconstruct
    Symbol("numpy", "dtype"): _Machine.make_dtype,
    Symbol("_codecs", "encode"): _Machine.make_bytes,
    Symbol("__builtin__", "bytes"): _Machine.make_bytes,
    Symbol("builtins", "bytes"): _Machine.make_bytes,
    **{
        Symbol(f"numpy.{core}.{module}", name): make
        for core in ("core", "_core")
        for module, name, make in (
            ("multiarray", "_reconstruct", _Machine.make_empty_array),
            ("multiarray", "scalar", _Machine.make_scalar),
            ("numeric", "_frombuffer", _Machine.make_array),
        )
    },
}

_INSTRUCTIONS: dict[bytes, Callable[[_Machine], Any]] = {
    b"\x80": lambda m: m.read(1),  # protocol
    b"\x95": lambda m: m.read(8),  # frame: only a hint for reading ahead
    b"N": lambda m: m.stack.append(None),
    b"\x88": lambda m: m.stack.append(True),
    b"\x89": lambda m: m.stack.append(False),
    b"K": lambda m: m.stack.append(m.number("B")),
    b"M": lambda m: m.stack.append(m.number("H")),
    b"J": lambda m: m.stack.append(m.number("i")),
    b"\x8a": lambda m: m.push_long(),
    b"G": lambda m: m.stack.append(struct.unpack(">d", m.read(8))[0]),
    b"U": lambda m: m.push_blob("B"),  # strings of Python 2, kept as bytes
    b"T": lambda m: m.push_blob("I"),
    b"C": lambda m: m.push_blob("B"),
    b"B": lambda m: m.push_blob("I"),
    b"\x8e": lambda m: m.push_blob("Q"),
    b"\x96": lambda m: m.push_blob("Q"),
    b"\x8c": lambda m: m.push_text("B"),
    b"X": lambda m: m.push_text("I"),
    b"\x8d": lambda m: m.push_text("Q"),
    b"}": lambda m: m.stack.append(_Dict()),
    b"]": lambda m: m.stack.append(_List()),
    b")": lambda m: m.stack.append(_Tuple()),
    b"(": lambda m: m.mark(),
    b"t": lambda m: m.push_tuple(),
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"a": lambda m: m.append([m.stack.pop()]),
    b"e": lambda m: m.append(m.since_mark()),
    b"s": lambda m: m.set_items([m.stack.pop(-2), m.stack.pop()]),
    b"u": lambda m: m.set_items(m.since_mark()),
    b"q": lambda m: m.memoize(m.number("B")),
    b"r": lambda m: m.memoize(m.number("I")),
    b"\x94": lambda m: m.memoize(len(m.memo)),
    b"h": lambda m: m.recall(m.number("B")),
    b"j": lambda m: m.recall(m.number("I")),
    b"0": lambda m: m.stack.pop(),
    b"c": lambda m: m.symbol(m.line(), m.line()),
    b"\x93": lambda m: m.symbol_of_stack(),
    b"R": lambda m: m.reduce(),
    b"b": lambda m: m.build(),
}
