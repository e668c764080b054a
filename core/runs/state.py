"""The state of a checkpoint: everything but tensors, in ``state.json``.

The file has a digest of its content, and every value is checked when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from ..errors import ElbowroomError
from ..files import atomic
from ..files.digest import is_sealed, sealed
from ..files.json_file import is_count, is_number, read_json

FORMAT = 2
FILE = "state.json"
VALIDATION = "validation/bits_per_dim"
"""The measurement on the validation split by which checkpoints are compared."""


class StateError(ElbowroomError):
    """A file that is not the state of a checkpoint."""


class OtherFormatError(StateError):
    """A state in the format of another version."""


def _fits(test: Callable[[Any], bool]) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    def check(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
        if not test(value):
            raise StateError(f"{FILE} has a {field.name} that cannot be one")

    return check


def _maps(fits: Callable[[Any], bool] = lambda _: True) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and all(map(fits, value.values()))


def _if_known(fits: Callable[[Any], bool]) -> Any:
    """A field that may be missing."""
    return attrs.field(default=None, validator=_fits(lambda value: value is None or fits(value)))


@attrs.frozen(kw_only=True)
class State:
    """The state of a checkpoint; None: not recorded."""

    format: int = FORMAT
    data: Mapping[str, Any] | None = _if_known(_maps())  # the form of the data
    config: Mapping[str, Any] | None = _if_known(_maps())  # of the run
    provenance: Mapping[str, Any] | None = _if_known(_maps())
    validation: Mapping[str, float | None] | None = _if_known(
        _maps(lambda value: value is None or is_number(value))
    )
    seconds: float | None = _if_known(is_number)  # of training, over all sessions
    log: Mapping[str, Any] | None = _if_known(_maps())  # how long it was, and its digest
    step: int = attrs.field(default=0, validator=_fits(is_count))  # updates made
    files: Mapping[str, int] = attrs.field(factory=dict, validator=_fits(_maps(is_count)))  # bytes
    sha256: Mapping[str, str] = attrs.field(
        factory=dict, validator=_fits(_maps(lambda digest: isinstance(digest, str)))
    )
    trained_in: str | None = _if_known(lambda name: isinstance(name, str))  # the run that lent it

    @classmethod
    def read(cls, folder: Path) -> State:
        """The state in a checkpoint's folder."""
        record = read_json(folder / FILE)
        if not isinstance(record, dict) or not is_count(record.get("format") or None):
            raise StateError(f"{FILE} is not the state of a checkpoint")
        if record["format"] != FORMAT:
            raise OtherFormatError(
                f"it has format {record['format']}, and this elbowroom reads format {FORMAT}"
            )
        if not is_sealed(record):
            raise StateError(f"{FILE} is not what was written")
        given = {
            f.name: record[f.name] for f in attrs.fields(cls) if record.get(f.name) is not None
        }
        state = cls(**{"step": None, "files": None, **given})  # these two must be there
        if state.files.keys() != state.sha256.keys():
            raise StateError(f"{FILE} does not have a digest for each file")
        return state

    def write(self, folder: Path) -> None:
        """Keep it in a checkpoint's folder, sealed and forced to disk."""
        plain = attrs.asdict(self, recurse=False, filter=lambda _, value: value is not None)
        atomic.write_forced(folder / FILE, json.dumps(sealed(plain), indent=1).encode())
