"""The folder of a run.

    RUN/
      config.yaml        every choice of the run, resolved
      provenance.json    who supplied each component, and the versions of what ran
      log.jsonl          one line of measurements for each logging step and each evaluation
      checkpoints/       see elbowroom.runs.checkpoint
      saved.json         that there were checkpoints: none can get lost without being missed
      fault/             what reproduces a non-finite loss, if there was one

Loading a run reads these files as text and tensors; no code is ever executed out of the folder.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from ..config.sections import Config, dump_yaml, load_config, named_component, to_plain
from ..config.spec import ComponentSpec
from ..errors import ElbowroomError
from ..files.atomic import replace_file
from ..files.json_file import JSONFileError, is_count, is_number, parse_json, read_json
from ..files.lock import LOCK, locked
from ..registry.component import Owner
from ..registry.trust import Origin, remember
from .checkpoint import Checkpoint, Unusable, best, checkpoints, clean, look, undamaged

_WHEN = ("steps", "log_every", "save_every", "keep", "milestones", "evaluate_every")
MAY_CHANGE = frozenset(f"train.{key}" for key in _WHEN)
"""What may differ when a run goes on: how long it is, and what is written when."""

_CONFIG = "config.yaml"
_VERSIONS = ("elbowroom", "torch", "numpy", "safetensors")


class RunError(ElbowroomError):
    """A run folder that cannot be used as asked."""


@attrs.frozen
class RunFolder:
    """Where a run keeps what it writes."""

    path: Path
    trusted: bool = False  # the user says so of the code it names (elbowroom.registry.trust)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def has_begun(self) -> bool:
        """Is there a run? Its config is written last."""
        return (self.path / _CONFIG).is_file()

    @classmethod
    def create(cls, path: str | PathLike[str], config: Config) -> RunFolder:
        """A new run's folder, with its config; one in use is refused."""
        folder = cls(Path(path))
        folder.check_free()
        with _writing(folder.path):
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.rewrite(config)  # its config comes last: now it is a run
        return folder

    def check_free(self) -> None:
        """May a new run begin here? Nothing is written."""
        if self.has_begun:
            found = look(self.checkpoints)[0]
            step = found[-1].step if found else 0
            raise RunError(
                f"{self.path} has a run already, at step {step}: go on with --resume {self.path}, "
                "or choose another folder"
            )
        with _writing(self.path):
            there = list(self.path.iterdir()) if self.path.exists() else []
        if any(not _ours(path.name) for path in there):
            raise RunError(f"{self.path} is not empty and not a run: choose another folder")

    @classmethod
    def open(cls, path: str | PathLike[str], *, trust: bool = False) -> RunFolder:
        """An existing run's folder; ``trust`` lets code run that its config refers to."""
        folder = cls(Path(path), trust)
        if not folder.has_begun:
            raise RunError(f"{path} is not a run: it has no config.yaml")
        return folder

    def config(self, overrides: Any = (), *, like: Config | None = None) -> Config:
        """The run's config; a component whose plugin is missing names what to install.

        Code it refers to is executed if it was trained with here or is trusted, and is as it was
        recorded; or if the config ``like``, which was read already, has it.

        A run writes down the schedule its process chose. One that did not is older than processes
        that choose its ends, and was trained on the schedule's own.
        """
        vouched = () if like is None else tuple(_suppliers(like).values())
        origin = Origin("run", self.path, self._owners(), vouched, self.trusted)
        found = load_config(self.path / _CONFIG, overrides, origin=origin)
        if found.schedule is None:
            name = found.process.build().natural_schedule
            found = attrs.evolve(found, schedule=named_component("schedule", name, path="schedule"))
        return found

    def _owners(self) -> dict[str, Owner]:
        try:
            record = read_json(self.path / "provenance.json")
            return {key: Owner.of_record(value) for key, value in record["components"].items()}
        except (JSONFileError, KeyError, TypeError, AttributeError):
            return {}  # a run copied without it can still be tried

    def recorded(self, config: Config) -> bool:
        """Is its provenance that of ``config``, whatever the versions?"""
        return _code(self._owners()) == _code(_suppliers(config))

    def rewrite(self, config: Config) -> None:
        """Keep a config that differs in what may change: the next sitting begins with it."""
        with _writing(self.path):
            if not self.recorded(config):
                text = json.dumps(provenance(config), indent=1)
                replace_file(self.path / "provenance.json", text.encode())
            replace_file(self.path / _CONFIG, dump_yaml(config).encode())

    def latest(self) -> Checkpoint | None:
        """The last complete checkpoint."""
        found = checkpoints(self.checkpoints)
        return found[-1] if found else None

    def best(self) -> Checkpoint | None:
        """The checkpoint with the lowest EMA bits/dim on the validation split."""
        return best(checkpoints(self.checkpoints))

    # -- where it goes on

    def start(self) -> Checkpoint | None:
        """The checkpoint a run goes on from, every byte of it compared; None: its beginning.

        The last that is good: one that is damaged is left aside with a warning. Where there were
        checkpoints and none can be used, the run is refused rather than begun anew over them.
        """
        self._refuse_broken_lines()
        found, broken = look(self.checkpoints)
        newer = [one for one in broken if one.newer]
        if newer:
            raise RunError(f"{_told(newer)}\nupdate elbowroom to go on with {self.path}")
        for one in broken:
            warnings.warn(str(one), stacklevel=2)
        if good := next(undamaged(found[::-1]), None):
            return good
        lost = [*broken, *(Unusable(one.path, one.damage()) for one in found)]
        if lost or self._saved.exists():
            why = _told(lost) or f"there were checkpoints in {self.checkpoints}, and all are gone"
            raise RunError(
                f"{self.path} has no checkpoint to go on from, and nothing was changed:\n{why}\n"
                "bring one back, or begin again at step 0 with --restart"
            )
        if rows := self.rows():
            warnings.warn(
                f"{self.path} was stopped at step {rows[-1]['step']}, before its first checkpoint: "
                "it begins again at step 0",
                stacklevel=2,
            )
        return None

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step that was chosen, and thereby compared, before."""
        chosen = [one for one in look(self.checkpoints)[0] if one.step == step]
        if not chosen:
            raise RunError(f"{self.checkpoints} has no checkpoint of step {step} any more")
        return attrs.evolve(chosen[0], checked=True)

    def begin_again(self) -> None:
        """Make a run without a good checkpoint one that has not saved yet; keep what there is."""
        if good := next(undamaged(look(self.checkpoints)[0][::-1]), None):
            raise RunError(
                f"{self.path} has a good checkpoint, of step {good.step}: leave --restart out to "
                "go on from it, or choose another folder"
            )
        with _writing(self.path):
            if self.checkpoints.exists():
                self.checkpoints.rename(_unused(self.path / "checkpoints-left"))
            self._saved.unlink(missing_ok=True)

    @property
    def _saved(self) -> Path:
        return self.path / "saved.json"

    def note_saved(self, step: int) -> None:
        """Leave word, once, that there is a checkpoint: from now on its loss would be one."""
        if not self._saved.exists():
            with _writing(self.path):
                replace_file(self._saved, json.dumps({"first": step}).encode())

    # -- the log

    def rows(self) -> list[dict[str, Any]]:
        """The log; a line that cannot be read is left out with a warning."""
        rows, broken = self._log()
        for number, reason in broken.items():
            warnings.warn(f"{self.log}, line {number} is left out: {reason}", stacklevel=2)
        return rows

    def _log(self) -> tuple[list[dict[str, Any]], dict[int, str]]:
        """The rows of the log, and what is wrong with the lines that are none."""
        try:
            lines = self.log.read_bytes().splitlines() if self.log.exists() else []
        except OSError as error:
            raise RunError(f"cannot read {self.log}: {error.strerror}") from error
        read = {number: _row(line) for number, line in enumerate(lines, 1)}
        broken = {number: row for number, row in read.items() if isinstance(row, str)}
        return [row for row in read.values() if not isinstance(row, str)], broken

    def _refuse_broken_lines(self) -> None:
        """Only the last line may be one that cannot be read."""
        rows, broken = self._log()
        for number, reason in broken.items():
            if number != len(rows) + len(broken):
                raise RunError(
                    f"{self.log}, line {number} cannot be read: {reason}; mend it, or delete the "
                    "line to go on without it"
                )

    def append(self, row: Mapping[str, Any]) -> bytes:
        """One line of the log; what was written."""
        line = _line(row)
        if self.log.is_symlink():  # a stranger's run may hold any link
            raise RunError(f"{self.log} is a link, and a run writes through none: take it away")
        with _writing(self.log), self.log.open("ab") as file:
            file.write(line)
        return line

    def rewind(self, step: int, recorded: Mapping[str, Any] | None = None) -> None:
        """Make the folder that of a run at ``step``: what was logged later will be logged again.

        The last line may have been cut short by a kill, and is logged again too. Another one that
        cannot be read would be lost: the run is refused until somebody has looked at it. Where the
        log is not as it was ``recorded`` at this step, a warning says so: no weight depends on it.
        """
        self._refuse_broken_lines()
        rows, broken = self._log()
        for number, reason in broken.items():
            words = f"{self.log}, line {number} cannot be read: {reason}"
            warnings.warn(f"{words}; it was cut short and is dropped", stacklevel=2)
        kept = LogSoFar([_line(row) for row in rows if row["step"] <= step])
        if recorded is not None and kept.record() != recorded:
            warnings.warn(
                f"{self.log} is not what was written: {kept.record()['lines']} lines up to step "
                f"{step}, where {recorded.get('lines')} were",
                stacklevel=2,
            )
        with _writing(self.path):
            clean(self.checkpoints)
            if self.log.exists():
                replace_file(self.log, b"".join(kept.lines))

    @contextmanager
    def locked(self, patience: float = 0.0) -> Iterator[None]:
        """One process at a time; the lock goes with the process, however it ends."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path, "training", patience))
            except ElbowroomError as error:
                raise RunError(str(error)) from error
            yield


class LogSoFar:
    """Lines of a log and their digest, as a checkpoint writes it down."""

    def __init__(self, lines: Sequence[bytes] = ()) -> None:
        self.lines, self._digest, self._count = lines, sha256(), 0
        for line in lines:
            self.add(line)

    @classmethod
    def of(cls, log: Path) -> LogSoFar:
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


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Whatever the disk says is told in a sentence."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write to {path}: {error.strerror}") from error


def _told(broken: Sequence[Unusable]) -> str:
    return "\n".join(f"  {one.path.name}: {one.reason}" for one in broken)


def _unused(path: Path) -> Path:
    """``path-1``, or the next that is not there."""
    names = (path.with_name(f"{path.name}-{n}") for n in itertools.count(1))
    return next(name for name in names if not name.exists())


def _ours(name: str) -> bool:
    """Is it what a run leaves that was killed before it became one?"""
    return name in ("provenance.json", LOCK) or (name.startswith(".") and ".partial-" in name)


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


# -- who supplied what


def provenance(config: Config) -> dict[str, Any]:
    """Who supplied each component, by its path in the config, and the versions of what runs."""
    return {
        "components": {path: owner.record() for path, owner in _suppliers(config).items()},
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in _VERSIONS},
        "platform": platform.platform(),
    }


def remember_code(config: Config) -> None:
    """Whoever trains with code trusts it: from now on it needs no word (registry.trust)."""
    remember(_suppliers(config).values())


def _suppliers(config: Config) -> dict[str, Owner]:
    return {spec.path: spec.component.owner for spec in _specs(config) if spec.component}


def _code(owners: Mapping[str, Owner]) -> dict[str, Any]:
    return {key: (own.distribution, own.path, own.sha256) for key, own in owners.items()}


def _specs(value: Any) -> Iterator[ComponentSpec]:
    """Every component in a config, those inside others too."""
    if isinstance(value, ComponentSpec):
        yield value
        yield from _specs(dict(value.options))
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            yield from _specs(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _specs(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _specs(item)


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
                f"{_CONFIG} was changed after {checkpoint.path.name} was saved: "
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
