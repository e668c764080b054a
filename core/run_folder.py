"""The folder of a run.

    RUN/
      config.yaml        every choice of the run, resolved
      provenance.json    who supplied each component, and the versions of what ran
      log.jsonl          one line of figures for each logging step and each evaluation
      checkpoints/       see elbowroom.checkpoint
      fault/             what reproduces a non-finite loss, if there was one

Loading a run reads these files as text and tensors; no code is ever executed out of the folder.
"""

from __future__ import annotations

import errno
import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import IO, Any

import attrs

from .atomic import replace_file
from .checkpoint import Checkpoint, best, checkpoints, clean
from .component import Owner
from .component_spec import ComponentSpec
from .config import Config, component, dump_yaml, load_config, to_plain
from .errors import ElbowroomError
from .trust import Origin, remember

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
    trusted: bool = False  # the user says so of the code it names (elbowroom.trust)

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
        if folder.has_begun:
            found = checkpoints(folder.checkpoints)
            step = found[-1].step if found else 0
            raise RunError(
                f"{path} has a run already, at step {step}: go on with --resume {path}, "
                "or choose another folder"
            )
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            if any(not _ours(path.name) for path in folder.path.iterdir()):
                raise RunError(f"{path} is not empty and not a run: choose another folder")
            folder.rewrite(config)  # its config comes last: now it is a run
        except OSError as error:
            raise RunError(f"cannot write to {path}: {error.strerror}") from error
        return folder

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
            found = attrs.evolve(found, schedule=component("schedule", name, path="schedule"))
        return found

    def _owners(self) -> dict[str, Owner]:
        try:
            record = json.loads((self.path / "provenance.json").read_text("utf-8"))
            return {key: Owner.of_record(value) for key, value in record["components"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}  # a run copied without it can still be tried

    def recorded(self, config: Config) -> bool:
        """Is its provenance that of ``config``, whatever the versions?"""
        return _code(self._owners()) == _code(_suppliers(config))

    def rewrite(self, config: Config) -> None:
        """Keep a config that differs in what may change: the next sitting begins with it."""
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

    def rows(self) -> list[dict[str, Any]]:
        """The log; a last line cut short is left out."""
        lines = self.log.read_text("utf-8").splitlines() if self.log.is_file() else []
        return [row for row in map(_row, lines) if row is not None]

    def append(self, row: Mapping[str, Any]) -> None:
        """One line of the log."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def rewind(self, step: int) -> None:
        """Make the folder that of a run at ``step``: what was logged later will be logged again."""
        clean(self.checkpoints)
        if self.log.is_file():
            kept = (json.dumps(row) + "\n" for row in self.rows() if row.get("step", 0) <= step)
            replace_file(self.log, "".join(kept).encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time; the lock goes with the process, however it ends."""
        with (self.path / ".lock").open("w") as file:
            _lock(file, self.path)
            yield


def _ours(name: str) -> bool:
    """Is it what a run leaves that was killed before it became one?"""
    return name == "provenance.json" or (name.startswith(".") and ".partial-" in name)


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _lock(file: IO[str], path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system: no lock
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise RunError(f"another process is training in {path}") from None
        # a file system without locks: no lock


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
    """Whoever trains with code trusts it: from now on it needs no word (elbowroom.trust)."""
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
        if not any(key == free or key.startswith(f"{free}.") for free in MAY_CHANGE)
    ]
    if differing:
        raise RunError(
            f"{where} was made with another config; resuming can change only "
            f"{', '.join(sorted(MAY_CHANGE))}:\n" + "\n".join(differing)
        )


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
