"""References: code named in a config without a package around it, to try an idea.

    ./my.py:MinSNR       a class in a file, found from the folder of the config that names it
    /home/me/my.py:MinSNR
    pkg.module:MinSNR    a class in anything that Python can import

A file must stand alone: its folder is not put on the import path, so that the sha256 kept in the
provenance speaks for all of its code. Entry points are for sharing; references are for trying.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import operator
import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from .component import TARGET, Component, Owner, cause
from .errors import PluginError, did_you_mean


def is_reference(name: str) -> bool:
    """Whether a component's name in a config points at code instead of at a registered name."""
    return ":" in name or name.endswith(".py")


def find_reference(kind: str, text: str, base: Path, run: Path | None = None) -> Component:
    """The component that a reference names; a relative file is looked up from ``base``.

    Its name is the reference in a form that holds from any folder. With ``run``, a file inside
    that folder is refused: loading a run never executes code out of the run.
    """
    place, _, attribute = text.rpartition(":")
    if not place or not attribute.replace(".", "_").isidentifier():
        raise PluginError(
            f"{kind} {text!r} is not a reference: write ./file.py:Class or package.module:Class"
        )
    if place.endswith(".py"):
        return _in_file(kind, place, attribute, base, run)
    return _in_module(kind, text, run)


def _in_file(kind: str, place: str, attribute: str, base: Path, run: Path | None) -> Component:
    path = (base / Path(place).expanduser()).resolve()
    _refuse_inside(path, run, f"{kind} {place}:{attribute}")
    try:
        source = path.read_bytes()
    except OSError as error:
        looked = "" if Path(place).is_absolute() else f", looked up from {base.resolve()}"
        raise PluginError(
            f"{kind} {place}:{attribute}: cannot read {path}: {error.strerror or error}{looked}"
        ) from error
    digest = hashlib.sha256(source).hexdigest()
    try:
        module = _module_of(path, source, digest)
    except ImportError as error:
        raise PluginError(
            f"{kind} {place}:{attribute} cannot be loaded: {cause(error)}; a file must stand alone "
            "(its folder is not on the import path): what needs several files is a package"
        ) from error
    except (Exception, SystemExit) as error:
        raise PluginError(f"{kind} {place}:{attribute} cannot be loaded: {cause(error)}") from error
    target = _attribute(module, attribute, f"{kind} {place}:{attribute}")
    owner = Owner(path=str(path), sha256=digest)
    return Component(kind, f"{path}:{attribute}", owner, target)


def _in_module(kind: str, text: str, run: Path | None) -> Component:
    if TARGET.fullmatch(text) is None:
        raise PluginError(
            f"{kind} {text!r} is not a reference: write ./file.py:Class or package.module:Class"
        )
    name, _, attribute = text.partition(":")
    if run is not None:
        _refuse_shadowed(name, run, f"{kind} {text}")
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:
        hint = ""
        if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
            hint = f"; for a file write ./{name.replace('.', '/')}.py:{attribute}"
        raise PluginError(f"{kind} {text} cannot be loaded: {cause(error)}{hint}") from error
    return Component(kind, text, _owner_of(module), _attribute(module, attribute, f"{kind} {text}"))


def _refuse_inside(path: Path, run: Path | None, who: str) -> None:
    if run is not None and path.is_relative_to(run.resolve()):
        raise PluginError(
            f"{who}: {path} lies in the run's own folder, and code out of a run is never executed; "
            "keep the file outside and name it in an override"
        )


def _refuse_shadowed(name: str, run: Path, who: str) -> None:
    """A run's folder may be the working directory, from which ``python -m`` imports."""
    top = name.partition(".")[0]
    if top in sys.modules:
        return
    spec = importlib.util.find_spec(top)  # looks for a top-level name without executing it
    if spec is None:
        return
    places = [spec.origin] if spec.has_location else []  # the origin of a built-in is no path
    for place in [*places, *(spec.submodule_search_locations or ())]:
        _refuse_inside(Path(str(place)).resolve(), run, who)


class FileSource(importlib.abc.SourceLoader):
    """Runs the very bytes that were hashed, and leaves no bytecode behind."""

    def __init__(self, path: Path, source: bytes) -> None:
        self._path, self._source = str(path), source

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        return self._source


def _module_of(path: Path, source: bytes, digest: str) -> ModuleType:
    """The file as a module; the same path and content give the same module, so the same classes."""
    place = hashlib.sha256(str(path).encode()).hexdigest()
    name = f"elbowroom_file_{path.stem}_{digest[:12]}_{place[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_loader(name, FileSource(path, source))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: type hints are looked up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _attribute(module: ModuleType, attribute: str, who: str) -> Any:
    try:
        return operator.attrgetter(attribute)(module)
    except AttributeError as error:
        classes = [
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
        raise PluginError(
            f"{who}: {getattr(module, '__file__', None) or module.__name__} has no {attribute!r}"
            f"{did_you_mean(attribute, classes)}; its classes: {', '.join(classes) or 'none'}"
        ) from error


def _owner_of(module: ModuleType) -> Owner:
    """The distribution whose list of files has this module, and the file itself with its hash."""
    if getattr(module, "__file__", None) is None:  # built in, or only a namespace
        return Owner(path=module.__name__)
    path = Path(str(module.__file__))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    where = Owner(path=str(path), sha256=sha256)
    depth = module.__name__.count(".") + (1 if path.stem == "__init__" else 0)
    line = "/".join(path.parts[-1 - depth :]) + ","  # as RECORD writes it
    root = path.parents[depth]
    for distribution in metadata.distributions():
        listed = distribution.read_text("RECORD") or ""
        if line in listed and Path(str(distribution.locate_file(""))) == root:
            files = {entry.partition(",")[0] + "," for entry in listed.splitlines()}
            if line in files:
                return Owner(
                    distribution=distribution.metadata["Name"],
                    version=distribution.version,
                    path=where.path,
                    sha256=where.sha256,
                )
    return where
