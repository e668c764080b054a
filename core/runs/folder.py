"""The folder of a run.

    RUN/
      config.yaml        the resolved config
      provenance.json    who supplied each component, and the versions of what ran
      log.jsonl          one line of measurements for each logging step and each evaluation
      checkpoints/       see elbowroom.runs.checkpoint
      saved.json         records that there were checkpoints, so that their loss is detected
      non_finite/        reproduces a non-finite loss, if there was one

Loading a run reads these files as text and tensors. Code that its config names is refused unless
the user names or trusts it (elbowroom.registry.trust).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from ..config.messages import check_path, show
from ..config.sections import Config, dump_yaml, load_config
from ..config.spec import ComponentSpec
from ..config.yaml_reader import read_file, read_yaml
from ..errors import ElbowroomError
from ..files.atomic import replace_file
from ..files.json_file import JSONFileError, read_json
from ..files.lock import LOCK, locked
from ..registry.component import Owner
from ..registry.trust import Origin
from .checkpoint import Checkpoint, Unusable, best, checkpoints, clean, find_checkpoints, undamaged
from .log_file import LogFile
from .provenance import code_of, provenance, suppliers
from .run_error import RunError, readable_disk_errors

_CONFIG = "config.yaml"


@attrs.frozen
class RunFolder:
    """The folder of a run."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def exists(self) -> bool:
        """Whether there is a run. Its config is written last."""
        return (self.path / _CONFIG).is_file()

    @classmethod
    def create(cls, path: str | PathLike[str], config: Config) -> RunFolder:
        """A new run's folder, with its config; one in use is refused."""
        folder = cls(Path(path))
        folder.check_free()
        with readable_disk_errors(folder.path):
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.rewrite(config)  # its config comes last: now it is a run
        return folder

    def check_free(self) -> None:
        """Raise unless a new run may be created here. Nothing is written."""
        if self.exists:
            found = find_checkpoints(self.checkpoints)[0]
            step = found[-1].step if found else 0
            raise RunError(
                f"{self.path} has a run already, at step {step}: go on with --resume {self.path}, "
                "or choose another folder"
            )
        with readable_disk_errors(self.path):
            there = list(self.path.iterdir()) if self.path.exists() else []
        if any(not _ours(path.name) for path in there):
            raise RunError(f"{self.path} is not empty and not a run: choose another folder")

    @classmethod
    def open(cls, path: str | PathLike[str]) -> RunFolder:
        """An existing run's folder."""
        check_path("run", path)
        folder = cls(Path(path))
        try:
            found = folder.exists
        except OSError as error:  # a name that is too long
            raise RunError(f"cannot read {show(str(path))}: {error.strerror}") from None
        if not found:
            raise RunError(f"{path} is not a run: it has no config.yaml")
        folder._refuse_links_and_pipes()
        return folder

    def _refuse_links_and_pipes(self) -> None:
        """Raise if a link leads out of the folder, or if reading a file could wait forever."""
        inside = os.path.realpath(self.path)
        for path in self.path.rglob("*"):
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
                raise RunError(f"{path} is a link that leads out of the run: remove it")
            if not path.is_symlink() and not path.is_file() and not path.is_dir():
                raise RunError(f"{path} is neither a file nor a folder: remove it")

    def config(self, overrides: Any = ()) -> Config:
        """The run's config; a component whose plugin is missing names what to install.

        Code that it names is refused unless an override names it too, or it is trusted.
        """
        return load_config(self.path / _CONFIG, overrides, origin=self._origin)

    def plain_config(self) -> dict[str, Any]:
        """The run's config as plain data: no code is executed."""
        path = self.path / _CONFIG
        return dict(read_yaml(read_file(path), str(path)).value)

    def component(self, section: str, given: Any, process: ComponentSpec) -> ComponentSpec:
        """A component that the run's config names in a section; its code is refused as there."""
        named = load_config({"process": process, section: given}, origin=self._origin)
        found: ComponentSpec = getattr(named, section)
        return found

    @property
    def _origin(self) -> Origin:
        return Origin("run", self._owners())

    def _owners(self) -> dict[str, Owner]:
        try:
            record = read_json(self.path / "provenance.json")
            return {key: Owner.of_record(value) for key, value in record["components"].items()}
        except (JSONFileError, KeyError, TypeError, AttributeError):
            return {}  # a run copied without it can still be tried

    def requirements(self) -> list[str]:
        """The packages of the run as lines of a requirements.txt, and files as comments.

        Read from its provenance: nothing of it needs to be installed.
        """
        owners = self._owners().values()
        packages = {f"{own.distribution}=={own.version}" for own in owners if own.distribution}
        files = {f"# and {own}" for own in owners if not own.distribution and own.path}
        return [*sorted(packages), *sorted(files)]

    def recorded(self, config: Config) -> bool:
        """Whether its provenance is that of ``config``, except for versions."""
        return code_of(self._owners()) == code_of(suppliers(config))

    def rewrite(self, config: Config) -> None:
        """Replace the config, for the next session."""
        with readable_disk_errors(self.path):
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

    # -- resuming

    def start(self) -> Checkpoint | None:
        """The checkpoint to resume from, its files verified; None: step 0.

        It is the last undamaged one; a warning is given for each damaged one. A run that had
        checkpoints of which none can be used is refused.
        """
        LogFile(self.log).refuse_broken_lines()
        found, broken = find_checkpoints(self.checkpoints)
        foreign = [one for one in broken if one.foreign]
        if foreign:
            raise RunError(
                f"{_told(foreign)}\nresume {self.path} with the elbowroom version that wrote it"
            )
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
        """The checkpoint of a step, whose files were verified before."""
        chosen = [one for one in find_checkpoints(self.checkpoints)[0] if one.step == step]
        if not chosen:
            raise RunError(f"{self.checkpoints} has no checkpoint of step {step} any more")
        return attrs.evolve(chosen[0], checked=True)

    def restart(self) -> None:
        """Move unusable checkpoints aside, so that the run starts at step 0."""
        if good := next(undamaged(find_checkpoints(self.checkpoints)[0][::-1]), None):
            raise RunError(
                f"{self.path} has a good checkpoint, of step {good.step}: leave --restart out to "
                "go on from it, or choose another folder"
            )
        with readable_disk_errors(self.path):
            if self.checkpoints.exists():
                self.checkpoints.rename(_unused(self.path / "checkpoints-left"))
            self._saved.unlink(missing_ok=True)

    @property
    def _saved(self) -> Path:
        return self.path / "saved.json"

    def record_first_checkpoint(self, step: int) -> None:
        """Record, once, that there is a checkpoint."""
        if not self._saved.exists():
            with readable_disk_errors(self.path):
                replace_file(self._saved, json.dumps({"first": step}).encode())

    # -- the log

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the log; a warning for each line that cannot be read."""
        return LogFile(self.log).rows()

    def append(self, row: Mapping[str, Any]) -> bytes:
        """Append a line to the log; return its bytes."""
        return LogFile(self.log).append(row)

    def rewind(self, step: int, recorded: Mapping[str, Any] | None = None) -> None:
        """Remove what was logged after ``step`` and incomplete checkpoints.

        ``recorded`` is the log's digest in the checkpoint of this step.
        """
        LogFile(self.log).rewind(step, recorded)
        with readable_disk_errors(self.path):
            clean(self.checkpoints)

    @contextmanager
    def locked(self, patience: float = 0.0) -> Iterator[None]:
        """Hold the lock of the run; it is released when the process ends."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path, "training", patience))
            except ElbowroomError as error:
                raise RunError(str(error)) from error
            yield


def _told(broken: Sequence[Unusable]) -> str:
    return "\n".join(f"  {one.path.name}: {one.reason}" for one in broken)


def _unused(path: Path) -> Path:
    """``path-1``, or the next that is not there."""
    names = (path.with_name(f"{path.name}-{n}") for n in itertools.count(1))
    return next(name for name in names if not name.exists())


def _ours(name: str) -> bool:
    """Whether a killed process may have left this file before the run existed."""
    return name in ("provenance.json", LOCK) or (name.startswith(".") and ".partial-" in name)
