"""Ways to harm a file: what disks, copies, editors and other versions do to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

_STRANGE: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 1.5, float("nan"), float("inf"), "", "x", "\x00", "ö" * 50),
    *([], {}, [[]], [None], {"": {}}, {"name": 3}, [1, "a"], {"a": [{}]}),
)


def flip_a_bit(file: Path, chance: Random) -> None:
    data = bytearray(file.read_bytes() or b"\0")
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def zero_a_page(file: Path, chance: Random) -> None:
    data = bytearray(file.read_bytes())
    at = chance.randrange(len(data) + 1)
    data[at : at + 512] = bytes(len(data[at : at + 512]))
    file.write_bytes(data)


def random_bytes(file: Path, chance: Random) -> None:
    file.write_bytes(chance.randbytes(file.stat().st_size))


def cut(file: Path, chance: Random) -> None:
    file.write_bytes(file.read_bytes()[: chance.randrange(file.stat().st_size or 1)])


def empty(file: Path, chance: Random) -> None:
    file.write_bytes(b"")


def delete(file: Path, chance: Random) -> None:
    file.unlink()


def make_a_folder_of(file: Path, chance: Random) -> None:
    file.unlink()
    file.mkdir()


def append(file: Path, chance: Random) -> None:
    file.write_bytes(file.read_bytes() + chance.randbytes(chance.randrange(1, 40)))


def nest(file: Path, chance: Random) -> None:
    file.write_bytes(chance.choice((b"[", b'{"a":', b"- ")) * 100_000)


def no_utf_8(file: Path, chance: Random) -> None:
    data = file.read_bytes()
    at = chance.randrange(len(data) + 1)
    file.write_bytes(data[:at] + b"\xff\xfe" + data[at:])


def change_places(file: Path, chance: Random) -> None:
    others = [p for p in file.parent.iterdir() if p.is_file() and p != file] or [file]
    other = chance.choice(others)
    aside = file.with_name("aside")
    file.rename(aside)
    other.rename(file) if other != file else None
    aside.rename(other)


def from_another_step(file: Path, chance: Random) -> None:
    others = [p for p in file.parent.parent.glob(f"*/{file.name}") if p != file] or [file]
    content = chance.choice(others).read_bytes()
    file.write_bytes(content)


def dangling_link(file: Path, chance: Random) -> None:
    file.unlink()
    file.symlink_to(file.with_name("nowhere"))


def link_to_itself(file: Path, chance: Random) -> None:
    file.unlink()
    file.symlink_to(file.name)


def strange_value(file: Path, chance: Random) -> None:
    """One value of a JSON or YAML file, or of a line of a log, becomes another."""
    if file.suffix not in (".jsonl", ".json", ".yaml"):
        flip_a_bit(file, chance)
        return
    text = file.read_text("utf-8")
    if file.suffix == ".jsonl":
        lines = text.splitlines() or ["{}"]
        k = chance.randrange(len(lines))
        lines[k] = json.dumps(_changed(json.loads(lines[k]), chance))
        file.write_text("\n".join(lines) + "\n", "utf-8")
    elif file.suffix == ".json":
        file.write_text(json.dumps(_changed(json.loads(text), chance)), "utf-8")
    else:
        file.write_text(yaml.safe_dump(_changed(yaml.safe_load(text), chance)), "utf-8")


def _changed(value: Any, chance: Random) -> Any:
    """A part of it is something else, is gone, or is called otherwise."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        rest = {k: v for k, v in value.items() if k != key}
        way = chance.random()
        if way < 0.1:
            return rest
        if way < 0.2:
            return {**rest, f"{key}x": value[key]}
        return {**value, key: _changed(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        k = chance.randrange(len(value))
        return [*value[:k], _changed(value[k], chance), *value[k + 1 :]]
    return chance.choice(_STRANGE)


def lose_the_folder(file: Path, chance: Random) -> None:
    shutil.rmtree(file.parent)


HARM: tuple[Callable[[Path, Random], None], ...] = (
    *(flip_a_bit, flip_a_bit, zero_a_page, random_bytes, cut, empty, delete, make_a_folder_of),
    *(append, nest, no_utf_8, change_places, from_another_step, dangling_link, link_to_itself),
    *(strange_value, strange_value, strange_value, lose_the_folder),
)
