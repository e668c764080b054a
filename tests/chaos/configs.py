"""Configs nobody meant: read, or refused by a sentence; what is read is written and read again."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import dump_yaml, load_config, to_plain
from elbowroom.errors import ElbowroomError

from ..helpers.tiny_run import tiny_config

_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        2,
        3,
        -1,
        0.5,
        1e-9,
        1e300,
        float("nan"),
        float("inf"),
        2**63,
        10**30,
    ),
    *(
        "",
        " ",
        "gaussian",
        "masked",
        "elbo",
        "simple",
        "dit",
        "null",
        "1e3",
        "a=b",
        "../x.py:Y",
        "\n",
    ),
    *("ä", "\x00", "{", "${x}", "a.b", [], {}, [1, 2], [[1]], {"name": "elbo"}, {"name": None}),
    *({"name": "dit", "width": 16}, {"name": []}, {"nom": "x"}, {"name": "sigmoid", "k": "2"}),
)


def configs(folder: Path, count: int, chance: Random, tell: Callable[[str], None]) -> Counter[str]:
    """``count`` of them; what happened, by name."""
    seeds = [json.loads(json.dumps(to_plain(tiny_config(p)))) for p in ("masked", "gaussian")]
    said: Counter[str] = Counter()
    for n in range(count):
        value, overrides = _spoilt(chance.choice(seeds), chance), _overrides(chance)
        try:
            kind = _tried(value, overrides, folder, as_text=chance.random() < 0.2)
        except Exception:
            kind = "unexplained: a traceback"
            tell(f"config {n}: {value!r} {overrides!r}\n{traceback.format_exc()[-1500:]}")
        said[kind] += 1
    return said


def _tried(value: Any, overrides: tuple[str, ...], folder: Path, *, as_text: bool) -> str:
    source = value
    if as_text:
        source = folder / "fuzzed.yaml"
        source.write_text(json.dumps(value), "utf-8")
    try:
        config = load_config(source, overrides)
        text = dump_yaml(config)
    except ElbowroomError as error:
        return "refused in a sentence" if str(error).strip() else "unexplained: no sentence"
    (folder / "again.yaml").write_text(text, "utf-8")
    if json.dumps(to_plain(load_config(folder / "again.yaml"))) != json.dumps(to_plain(config)):
        return "unexplained: written, it reads otherwise"
    try:
        if not _is_large(to_plain(config)):
            build_model(build_parts(config))
    except ElbowroomError:
        return "read, and refused when built"
    return "read and built"


def _is_large(plain: Any) -> bool:
    """Would building it take long?"""
    if isinstance(plain, dict):
        return any(_is_large(value) for key, value in plain.items() if key != "train")
    if isinstance(plain, list):
        return any(map(_is_large, plain))
    return isinstance(plain, int) and plain > 128


def _spoilt(value: Any, chance: Random) -> Any:
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        value = _changed(value, chance)
    return value


def _changed(value: Any, chance: Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.95:
        key = chance.choice(list(value))
        rest = {k: v for k, v in value.items() if k != key}
        way = chance.random()
        if way < 0.1:
            return rest
        if way < 0.2:
            return {**rest, chance.choice((f"{key}s", key.upper(), "", "name", "x.y")): value[key]}
        return {**value, key: _changed(value[key], chance)}
    if isinstance(value, str) and value and chance.random() < 0.4:
        k = chance.randrange(len(value))
        return value[:k] + chance.choice(("", "x", value[k] * 2, "é")) + value[k + 1 :]
    return chance.choice(_VALUES)


def _overrides(chance: Random) -> tuple[str, ...]:
    keys = ("process", "weighting", "weighting.k", "schedule", "denoiser.width", "train.steps")
    more = (
        "sampler",
        "sampler.steps",
        "seed",
        "data",
        "data.size",
        "",
        "train",
        "train.betas",
        "x",
    )
    words = []
    for _ in range(chance.choice((0, 0, 1, 2))):
        value = chance.choice(_VALUES)
        words.append(
            f"{chance.choice(keys + more)}={value if chance.random() < 0.5 else json.dumps(value)}"
        )
    return tuple(words)
