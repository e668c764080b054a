"""Trust: whose code may run.

A config that is given to a command is its user's word: the code it refers to is executed. A run
and an export are data, perhaps a stranger's. Code that they refer to is executed only if

- this user trained with that very file on this machine: training remembers path and sha256, or
- the user says so (``--trust``, ``trust=True``), and its sha256 is the one that was recorded.

Registered names need neither: they mean what is installed. ``ELBOWROOM_TRUST=0`` forbids code by
reference altogether, also in configs, for services that read what others write.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import attrs

from ..errors import ConfigError, PluginError
from ..files.atomic import replace_file
from ..files.state_home import state_home
from .component import Owner

VARIABLE = "ELBOWROOM_TRUST"

_LOG = logging.getLogger("elbowroom.registry.trust")
_told: set[tuple[str, str]] = set()
_session: set[tuple[str, str]] = set()  # what this process trained with, where nothing can be kept


def refuse_if_forbidden(who: str) -> None:
    """Refuse any reference to code where the environment forbids them."""
    given = os.environ.get(VARIABLE, "").strip()
    if given not in ("", "0"):
        raise ConfigError(f"{VARIABLE} is {given!r}; it must be 0, or not set")
    if given == "0":
        raise PluginError(
            f"{who}: {VARIABLE}=0 forbids code named by reference; use a registered name "
            "(elbowroom plugins lists them)"
        )


@attrs.frozen
class Origin:
    """A run or an export that a config was read from: data, perhaps a stranger's."""

    what: str = "run"  # or "export"
    folder: Path | None = None  # out of which nothing is ever executed
    owners: Mapping[str, Owner] = attrs.Factory(dict)  # who supplied what, by path, as recorded
    vouched: tuple[Owner, ...] = ()  # code that a config of the user's own word has, as it is now
    trusted: bool = False  # the user says so
    files: bool = True  # may it name files at all?


@attrs.frozen
class Vetting:
    """What may be executed for one reference in such a config."""

    origin: Origin
    recorded: Owner | None = None  # who supplied the component there
    overridden: bool = False  # an override named it: that is the user's word

    def file(self, who: str) -> None:
        """Refuse a reference to a file where none may be."""
        if not self.origin.files:
            raise PluginError(
                f"{who} is a file, which cannot be shared by its name: put the class into a "
                "package (elbowroom new-plugin) and name it by that"
            )

    def code(self, who: str, code: Owner) -> None:
        """Refuse code that is neither known nor trusted; called before it is executed."""
        self._refuse_inside(who, code)
        if self.overridden or _key(code) in map(_key, self.origin.vouched):
            return
        self._refuse_other(who, code)
        if remembered(code):
            return
        what = self.origin.what
        if not self.origin.trusted:
            raise PluginError(
                f"{who}: this {what} names code that was not trained with here, "
                f"{_described(code)}. Code can do all that you can: read it, then say --trust "
                "(in Python trust=True)"
            )
        if self.recorded is None or code.sha256 is None:
            raise PluginError(
                f"{who}: the {what} did not record the sha256 of {_described(code)}, so nothing "
                "says that it is the same; name it in an override if you mean it"
            )
        _tell(who, code)

    def _refuse_inside(self, who: str, code: Owner) -> None:
        folder, what = self.origin.folder, self.origin.what
        if folder is None or code.path is None:
            return
        if Path(code.path).resolve().is_relative_to(folder.resolve()):
            raise PluginError(
                f"{who}: {code.path} lies in the {what}'s own folder, and code out of a {what} is "
                "never executed; keep the file outside and name it in an override"
            )

    def _refuse_other(self, who: str, code: Owner) -> None:
        """Refuse what is not what was recorded, whoever wrote it."""
        if self.recorded is not None and code.sha256 != self.recorded.sha256:
            raise PluginError(
                f"{who}: {_described(code)} is not what the {self.origin.what} recorded, "
                f"{self.recorded.full}; put that back, or name the code you mean in an override"
            )


def _described(code: Owner) -> str:
    if code.sha256 is None:
        return f"{code.path}, whose file cannot be told without executing it"
    return code.full


def _tell(who: str, code: Owner) -> None:
    key = _key(code)
    if key not in _told:
        _told.add(key)
        _LOG.warning("%s: trusting %s", who, code.full)


# -- what this user trained with on this machine


def remember(owners: Iterable[Owner]) -> None:
    """Keep path and sha256 of code that is being trained with; one file each, so none is lost."""
    for code in owners:
        if code.path is None or code.sha256 is None or remembered(code):
            continue
        file, (path, sha256) = _note(code), _key(code)
        _session.add((path, sha256))
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(file, json.dumps({"path": path, "sha256": sha256}).encode())
        except OSError as error:
            _LOG.warning(
                "cannot remember %s in %s (%s): other commands will ask for --trust",
                code.path,
                file.parent,
                error.strerror or error,
            )


def remembered(code: Owner) -> bool:
    """Did this user train with this file, as it is now, on this machine?"""
    if code.path is None or code.sha256 is None:
        return False
    if _key(code) in _session:
        return True
    with suppress(OSError, ValueError, KeyError, TypeError):  # damaged: not remembered
        note = json.loads(_note(code).read_text("utf-8"))
        return (note["path"], note["sha256"]) == _key(code)
    return False


def _key(code: Owner) -> tuple[str, str]:
    return str(Path(str(code.path)).resolve()), str(code.sha256)


def _note(code: Owner) -> Path:
    name = hashlib.sha256(json.dumps(_key(code)).encode()).hexdigest()
    return state_home() / "trained-with" / f"{name}.json"
