"""A new plugin: a whole package that installs and passes its own tests as it is.

    elbowroom-NAME/
      pyproject.toml               the entry point that announces the plugin
      README.md  LICENSE  .gitignore  .github/workflows/ci.yml
      src/elbowroom_NAME/          a hook, and the component with its formula
      tests/                       the laws of its kind, through elbowroom.plugins.conformance

The files come from ``templates/plugin``, where ``$name`` and the like stand for the choices made
here; what differs from kind to kind is in ``templates/plugin/kinds``.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping
from importlib import resources
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import attrs
import elbowroom
from elbowroom import PLUGIN_API, ElbowroomError, installed
from elbowroom.errors import did_you_mean
from elbowroom.files import atomic_folder
from elbowroom.registry import KINDS, normalised

TEMPLATES = resources.files("elbowroom.plugins.new_plugin") / "templates" / "plugin"

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 28  # every line of the templates then fits
_MEAN_SOMETHING = {
    *keyword.kwlist,
    *dir(builtins),
    *dir(elbowroom),
    *("Any", "ClassVar", "Mapping", "Path", "SteppingSampler", "Tensor"),  # in the templates
}


@attrs.frozen
class NewPlugin:
    """The names a plugin has in different places."""

    name: str  # in a config: min-snr
    kind: str

    @property
    def distribution(self) -> str:
        """What pip installs: elbowroom-min-snr."""
        return f"elbowroom-{self.name}"

    @property
    def module(self) -> str:
        """What Python imports: elbowroom_min_snr."""
        return self.distribution.replace("-", "_")

    @property
    def cls(self) -> str:
        """The component's class, MinSnr; with its kind where that would mean something else."""
        spelled = _camel if KINDS[self.kind].is_class else _snake
        alone, whole = spelled(self.name), spelled(f"{self.name}-{self.kind}")
        return whole if alone in _MEAN_SOMETHING else alone

    def files(self) -> dict[str, str]:
        """Path in the package -> text."""
        plugin, kind = f"src/{self.module}", _of_kind(self.kind)
        names = self._names()
        names |= {
            "what": self._filled(kind / "what.md.in", names).rstrip(),
            "use": self._filled(kind / "use.md.in", names).rstrip(),
        }
        sources = {
            "pyproject.toml": TEMPLATES / "pyproject.toml.in",
            "README.md": TEMPLATES / "README.md.in",
            ".gitignore": TEMPLATES / "gitignore.in",
            ".github/workflows/ci.yml": TEMPLATES / "ci.yml.in",
            f"{plugin}/__init__.py": TEMPLATES / "init.py.in",
            f"{plugin}/{self.kind}.py": kind / "component.py.in",
            f"tests/test_{self.kind}.py": kind / "test.py.in",
            "tests/test_plugin.py": TEMPLATES / "test_plugin.py.in",
        }
        texts = {path: self._filled(source, names) for path, source in sources.items()}
        licence = (TEMPLATES / "LICENSE").read_text("utf-8")
        return {**texts, "LICENSE": licence, f"{plugin}/py.typed": ""}

    def _filled(self, source: Any, names: Mapping[str, str]) -> str:
        return Template(source.read_text("utf-8")).substitute(names)

    def _names(self) -> dict[str, str]:
        return {
            "name": self.name,
            "distribution": self.distribution,
            "module": self.module,
            "cls": self.cls,
            "kind": self.kind,
            "words": KINDS[self.kind].words.replace("dataset", "data set"),
            "hook": KINDS[self.kind].hook,
            "check": f"check_{self.kind}",
            "api": ", ".join(map(str, PLUGIN_API)),
            "version": version("elbowroom"),
        }


def new_plugin(name: str, kind: str = "weighting", out: str | PathLike[str] = ".") -> Path:
    """Write the package of a new plugin into the folder ``out``; answers where it is."""
    plugin = NewPlugin(_checked_name(name), _checked_kind(kind))
    _refuse_taken(plugin)
    folder = Path(out) / plugin.distribution
    if folder.exists() or folder.is_symlink():
        raise ElbowroomError(f"{folder} exists already: choose another name or another --out")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder) as aside:
            for path, text in plugin.files().items():
                file = aside / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
    except OSError as error:
        raise ElbowroomError(f"cannot write {folder}: {error.strerror or error}") from error
    return folder


def _camel(words: str) -> str:
    return "".join(word.capitalize() for word in re.split("[-_]", words))


def _snake(words: str) -> str:
    return words.replace("-", "_")


def _checked_name(given: str) -> str:
    name = given.removeprefix("elbowroom-")
    if _NAME.fullmatch(name) is None:
        near = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower())
        near = near.strip("-")
        hint = f" (did you mean {near!r}?)" if _NAME.fullmatch(near) else ""
        raise ElbowroomError(
            f"a plugin cannot be called {given!r}{hint}: a name is small letters, digits and "
            "single hyphens, and begins with a letter, as in 'min-snr'"
        )
    if len(name) > _LONGEST:
        raise ElbowroomError(f"{name!r} has {len(name)} characters; a name has at most {_LONGEST}")
    return name


def _checked_kind(given: str) -> str:
    kind = given.replace("-", "_")
    known = kinds()
    if kind not in known:
        raise ElbowroomError(
            f"no template for kind {given!r}{did_you_mean(kind, known)}; kinds: {', '.join(known)}"
        )
    return kind


def _refuse_taken(plugin: NewPlugin) -> None:
    """A name that is in use would mean two things, and using it would be an error."""
    for component in installed().components(plugin.kind).values():
        owner = component.owner
        if component.name == plugin.name and normalised(owner.distribution or "") != (
            plugin.distribution
        ):
            raise ElbowroomError(
                f"there is a {plugin.kind.replace('_', ' ')} {plugin.name!r} already, supplied by "
                f"{owner}: choose another name"
            )


def kinds() -> tuple[str, ...]:
    """The kinds that have a template: their own, or one here."""
    installed()  # adds the kinds of plugins
    return tuple(kind for kind in KINDS if (_of_kind(kind) / "component.py.in").is_file())


def _of_kind(kind: str) -> Any:
    """The folder with a kind's component, its test and two texts."""
    package, _, folder = KINDS[kind].template.partition(":")
    if not package:
        return TEMPLATES / "kinds" / kind
    return resources.files(package).joinpath(*folder.split("/"))
