"""References: components in a config by file or module, without a plugin.

    ./my.py:MinSNR       a class in a file, found from the folder of the config that names it
    /home/me/my.py:MinSNR
    pkg.module:MinSNR    a class in anything that Python can import

The class must be defined in the file or module that is named: imported names and functions are
refused. A file must be self-contained: its folder is not put on the import path. Trust in
references is checked before (elbowroom.registry.trust).
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import PluginError, did_you_mean
from .component import TARGET, Component, Owner, cause
from .importing import UserInterrupt, importing
from .trust import refuse_if_forbidden


def is_reference(name: str) -> bool:
    """Whether a component's name in a config refers to code instead of a registered name."""
    return ":" in name or name.endswith(".py")


def find_reference(kind: str, text: str, base: Path) -> Component:
    """Execute the code that a reference names, and return its component.

    A relative file is resolved from ``base``; the component's name is valid from any folder.
    """
    refuse_if_forbidden(f"{kind} {text}")
    place, _, attribute = text.rpartition(":")
    if not place or not attribute.isidentifier():
        raise PluginError(
            f"{kind} {text!r} is not a reference: write ./file.py:Class or package.module:Class"
        )
    if place.endswith(".py"):
        return _in_file(kind, place, attribute, base)
    return _in_module(kind, text)


def _in_file(kind: str, place: str, attribute: str, base: Path) -> Component:
    who = f"{kind} {place}:{attribute}"
    path = (base / Path(place).expanduser()).resolve()
    try:
        source = path.read_bytes()
    except OSError as error:
        looked = "" if Path(place).is_absolute() else f", looked up from {base.resolve()}"
        raise PluginError(
            f"{who}: cannot read {path}: {error.strerror or error}{looked}"
        ) from error
    owner = Owner(path=str(path), sha256=hashlib.sha256(source).hexdigest())
    try:
        with importing(lambda: who):
            module = _module_of(path, source, str(owner.sha256))
    except ImportError as error:
        raise PluginError(
            f"{who} cannot be loaded: {cause(error)}; a file must stand alone "
            "(its folder is not on the import path): what needs several files is a package"
        ) from error
    except UserInterrupt:
        raise
    except BaseException as error:
        raise PluginError(f"{who} cannot be loaded: {cause(error)}") from error
    return Component(kind, f"{path}:{attribute}", owner, _class(module, attribute, who))


def _in_module(kind: str, text: str) -> Component:
    if TARGET.fullmatch(text) is None:
        raise PluginError(
            f"{kind} {text!r} is not a reference: write ./file.py:Class or package.module:Class"
        )
    name, _, attribute = text.partition(":")
    try:
        with importing(lambda: f"{kind} {text}"):
            module = import_module(name)
    except UserInterrupt:
        raise
    except BaseException as error:
        hint = ""
        if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
            hint = f"; for a file write ./{name.replace('.', '/')}.py:{attribute}"
        raise PluginError(f"{kind} {text} cannot be loaded: {cause(error)}{hint}") from error
    return Component(kind, text, owner_of(module), _class(module, attribute, f"{kind} {text}"))


class FileSource(importlib.abc.SourceLoader):
    """Executes the bytes that were hashed; writes no bytecode."""

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


def _class(module: ModuleType, name: str, who: str) -> type[Any]:
    """The class of this name that the module itself defines."""
    found = vars(module).get(name)
    if isinstance(found, type) and found.__module__ == module.__name__:
        return found
    classes = [
        key
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    place = getattr(module, "__file__", None) or module.__name__
    message = f"{who}: {place} defines no class {name!r}{did_you_mean(name, classes)}"
    if isinstance(found, type):
        message += f"; it imports it: write {found.__module__}:{name}"
    if module.__name__ == "__main__":
        message += "; only the script that defines it can load it"
    raise PluginError(f"{message}; its classes: {', '.join(classes) or 'none'}")


def owner_of(module: ModuleType) -> Owner:
    """The distribution that contains a module, and the module's file with its hash."""
    if getattr(module, "__file__", None) is None:  # built in, or only a namespace
        return Owner(path=module.__name__)
    path = Path(str(module.__file__))
    where = _of_file(path)
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


def _of_file(path: Path) -> Owner:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    return Owner(path=str(path), sha256=sha256)


def lasting_name(made: Any) -> str:
    """As :func:`name_of`, but by file for a module outside packages, except ``__main__``."""
    module = sys.modules[made.__module__]
    file, package = getattr(module, "__file__", None), getattr(module, "__package__", None)
    if module.__name__ == "__main__" or package or not file or owner_of(module).distribution:
        return name_of(made)
    return f"{Path(file).resolve()}:{made.__qualname__}"


def name_of(cls: type[Any]) -> str:
    """The reference to a class: ``package.module:Class`` or ``/a/file.py:Class``."""
    module = sys.modules.get(cls.__module__)
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    if isinstance(loader, FileSource):
        return f"{loader.get_filename(cls.__module__)}:{cls.__qualname__}"
    return f"{cls.__module__}:{cls.__qualname__}"
