"""What may differ between the config a run was made with and the one it goes on with."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from ..config.sections import Config, to_plain
from .checkpoint import Checkpoint
from .run_error import RunError

_WHEN = ("steps", "log_every", "save_every", "keep", "milestones", "evaluate_every")
MAY_CHANGE = frozenset(f"train.{key}" for key in (*_WHEN, "micro_batch"))
"""How long a run is, what is written when, and how much is worked on at once."""


def check_unchanged(now: Config | Mapping[str, Any], then: Mapping[str, Any], where: str) -> None:
    """Refuse to go on with another config, :data:`MAY_CHANGE` aside, saying which keys differ."""
    new = json.loads(json.dumps(to_plain(now) if isinstance(now, Config) else now))
    if new.get("schedule") is None or then.get("schedule") is None:  # one left it to the process
        new, then = {**new, "schedule": None}, {**then, "schedule": None}
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


def in_todays_form(record: Any, like: Any) -> Any:
    """A config as an older version wrote it, as this one would.

    ``like`` is the same config read today: it has the options that were not known then, and may
    have a component with options where there was only a name.
    """
    if isinstance(like, Mapping) and isinstance(record, str) and record == like.get("name"):
        return like
    if not isinstance(record, Mapping) or not isinstance(like, Mapping):
        return record
    known = {key: in_todays_form(value, like.get(key)) for key, value in record.items()}
    return {**{key: value for key, value in like.items() if key not in record}, **known}


def warn_of_changes(now: Config, checkpoint: Checkpoint) -> None:
    """Say where a run's config is another than the one its checkpoint was made with.

    What only one of them knows is an option of another version, and says nothing.
    """
    then, new = checkpoint.state.config or {}, json.loads(json.dumps(to_plain(now)))
    if then.get("schedule") is None:  # it was left to the process
        new = {**new, "schedule": None}
    for key, a, b in _differences(in_todays_form(then, new), new):
        if _Absent not in (a, b) and not _may_change(key):
            warnings.warn(
                f"config.yaml was changed after {checkpoint.path.name} was saved: "
                f"{key} is {_show(b)}, and was {_show(a)}",
                stacklevel=3,
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
    elif a != b:
        yield path, a, b
