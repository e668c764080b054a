"""What may differ between the config a run was made with and the one it goes on with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from elbowroom import Config, RunError
from elbowroom.config import to_plain

_WHEN = ("steps", "log_every", "save_every", "keep", "milestones", "evaluate_every")
MAY_CHANGE = frozenset(f"train.{key}" for key in (*_WHEN, "micro_batch"))
"""How long a run is, what is written when, and how much is worked on at once."""


def check_unchanged(now: Config | Mapping[str, Any], then: Mapping[str, Any], where: str) -> None:
    """Refuse to go on with another config, :data:`MAY_CHANGE` aside, saying which keys differ."""
    new = json.loads(json.dumps(to_plain(now) if isinstance(now, Config) else now))
    if new.get("schedule") is None:  # the run has the one the process chose
        then = {**then, "schedule": None}
    differing = [
        f"  {key}: {_show(a)} in the run, {_show(b)} now"
        for key, a, b in _differences(then, new)
        if not _may_change(key)
    ]
    if differing:
        raise RunError(
            f"{where} was made with another config; resuming can change only "
            f"{', '.join(sorted(MAY_CHANGE))}:\n" + "\n".join(differing)
        )


def _may_change(key: str) -> bool:
    return any(key == free or key.startswith(f"{free}.") for free in MAY_CHANGE)


class _Absent:
    """Stands for a key that is not there."""


def _show(value: Any) -> str:
    return "absent" if value is _Absent else json.dumps(value, default=str)


def _differences(a: Any, b: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in [*a, *(key for key in b if key not in a)]:
            inner = f"{path}.{key}" if path else str(key)
            yield from _differences(a.get(key, _Absent), b.get(key, _Absent), inner)
    elif isinstance(a, str) and isinstance(b, Mapping) and a == b.get("name"):
        return  # a component by its name alone
    elif a != b:
        yield path, a, b
