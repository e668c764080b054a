"""The log of a run, a JSON line for each logging step and each evaluation: ``log.jsonl``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs

from ..files.atomic import replace_file
from ..files.json_file import is_count, is_number, parse_json
from .run_error import RunError, readable_disk_errors


@attrs.frozen
class LogFile:
    """A run's log on disk."""

    path: Path

    def rows(self) -> list[dict[str, Any]]:
        """What was logged; a line that cannot be read is left out with a warning."""
        rows, broken = self._read()
        for number, reason in broken.items():
            warnings.warn(f"{self.path}, line {number} is left out: {reason}", stacklevel=3)
        return rows

    def append(self, row: Mapping[str, Any]) -> bytes:
        """One line more; what was written."""
        line = _line(row)
        if self.path.is_symlink():  # a stranger's run may hold any link
            raise RunError(f"{self.path} is a link, and a run writes through none: take it away")
        with readable_disk_errors(self.path), self.path.open("ab") as file:
            file.write(line)
        return line

    def rewind(self, step: int, recorded: Mapping[str, Any] | None = None) -> None:
        """Take out what was logged after ``step``: it will be logged again.

        The last line may have been cut short by a kill, and is logged again too. Another one that
        cannot be read would be lost: the run is refused until somebody has looked at it. Where the
        log is not as it was ``recorded`` at this step, a warning says so: no weight depends on it.
        """
        lines, broken, last = [], {}, 0
        for last, row in self._parsed():
            if isinstance(row, str):
                broken[last] = row
            elif row["step"] <= step:
                lines.append(_line(row))
        self._refuse(broken, last)
        for number, reason in broken.items():
            words = f"{self.path}, line {number} cannot be read: {reason}"
            warnings.warn(f"{words}; it was cut short and is dropped", stacklevel=3)
        kept = LogDigest(lines)
        if recorded is not None and kept.record() != recorded:
            warnings.warn(
                f"{self.path} is not what was written: {kept.record()['lines']} lines up to step "
                f"{step}, where {recorded.get('lines')} were",
                stacklevel=3,
            )
        if self.path.exists():
            with readable_disk_errors(self.path):
                replace_file(self.path, b"".join(kept.lines))

    def refuse_broken_lines(self) -> None:
        """Only the last line may be one that cannot be read."""
        broken, last = {}, 0
        for last, row in self._parsed():
            if isinstance(row, str):
                broken[last] = row
        self._refuse(broken, last)

    def _refuse(self, broken: Mapping[int, str], last: int) -> None:
        """Raise for a broken line before the ``last``."""
        for number, reason in broken.items():
            if number != last:
                raise RunError(
                    f"{self.path}, line {number} cannot be read: {reason}; mend it, or delete the "
                    "line to go on without it"
                )

    def _read(self) -> tuple[list[dict[str, Any]], dict[int, str]]:
        """The rows, and what is wrong with the lines that are none."""
        rows, broken = [], {}
        for number, row in self._parsed():
            if isinstance(row, str):
                broken[number] = row
            else:
                rows.append(row)
        return rows, broken

    def _parsed(self) -> Iterator[tuple[int, dict[str, Any] | str]]:
        """The number of each line with its row or what is wrong with it, one at a time."""
        try:
            lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror}") from error
        yield from ((number, _row(line)) for number, line in enumerate(lines, 1))


class LogDigest:
    """Lines of a log and their digest, as a checkpoint writes it down."""

    def __init__(self, lines: Sequence[bytes] = ()) -> None:
        self.lines, self._digest, self._count = lines, sha256(), 0
        for line in lines:
            self.add(line)

    @classmethod
    def of(cls, log: Path) -> LogDigest:
        """That of the log as it is."""
        found = cls(log.read_bytes().splitlines(keepends=True) if log.exists() else ())
        found.lines = ()  # the digest is all that is needed from here on
        return found

    def add(self, line: bytes) -> None:
        """One more line."""
        self._digest.update(line)
        self._count += 1

    def record(self) -> dict[str, Any]:
        """Plain data."""
        return {"lines": self._count, "sha256": self._digest.hexdigest()}


def _line(row: Mapping[str, Any]) -> bytes:
    """The one way to write a row: reading a line and writing it again changes nothing."""
    return json.dumps(row).encode() + b"\n"


def _row(line: bytes) -> dict[str, Any] | str:
    """A line of the log: a step, measurements and curves; or what is wrong with it."""
    try:
        row = parse_json(line)
    except ValueError as error:
        return str(error)
    if not isinstance(row, dict) or not is_count(row.get("step")):
        return "it says no step"
    curves = row.get("curves", {})
    wrong = [key for key, value in row.items() if key != "curves" and not _is_measurement(value)]
    if wrong or not isinstance(curves, dict) or not all(map(_is_curve, curves.values())):
        return f"{wrong[0] if wrong else 'curves'} is no number"
    return row


def _is_measurement(value: Any) -> bool:
    return value is None or is_number(value)


def _is_curve(value: Any) -> bool:
    """[x, y], numbers each."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(axis, list) and all(map(is_number, axis)) for axis in value)
        and len(value[0]) == len(value[1])
    )
