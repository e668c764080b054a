"""Generate the package of a plugin, which installs and passes its tests unchanged.

    elbowroom-NAME/
      pyproject.toml               the entry point
      README.md  LICENSE  .gitignore  .github/workflows/ci.yml
      src/elbowroom_NAME/          a hook, and the component
      tests/test_plugin.py         the laws of its kind

``templates`` has the files; a kind adds ``component.py.in`` and ``readme.md.in``, in the folder
``template`` of its row, or here in ``templates/kinds``.
"""

from __future__ import annotations

import re
from importlib import resources
from importlib.metadata import distribution, distributions
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

from elbowroom import PLUGIN_API, ElbowroomError, installed
from elbowroom.errors import did_you_mean
from elbowroom.files import atomic_folder
from elbowroom.registry import KINDS, normalised

TEMPLATES = resources.files("elbowroom.plugins.new_plugin") / "templates"

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 22  # every line of the templates then fits


def new_plugin(name: str, kind: str = "weighting", out: str | PathLike[str] = ".") -> Path:
    """Write the package of a new plugin into the folder ``out``; returns its folder."""
    name, kind = _checked_name(name), _checked_kind(kind)
    folder = Path(out) / f"elbowroom-{name}"
    for component in installed().components(kind).values():
        owner = component.owner
        if component.name == name and normalised(owner.distribution or "") != folder.name:
            raise ElbowroomError(
                f"there is already a {KINDS[kind].words} {name!r}, supplied by {owner}: choose "
                "another name"
            )
    if folder.exists() or folder.is_symlink():
        raise ElbowroomError(f"{folder} exists already: choose another name or another --out")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder) as aside:
            for path, text in plugin_files(name, kind).items():
                file = aside / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
    except OSError as error:
        raise ElbowroomError(f"cannot write {folder}: {error.strerror or error}") from error
    return folder


def plugin_files(name: str, kind: str) -> dict[str, str]:
    """Path in the package -> text."""
    row, elbowroom = KINDS[kind], distribution("elbowroom")
    words = [*name.split("-"), *kind.split("_")]
    names = {
        "name": name,
        "distribution": f"elbowroom-{name}",
        "module": f"elbowroom_{name.replace('-', '_')}",
        "cls": "".join(map(str.capitalize, words)) if row.is_class else "_".join(words),
        "kind": kind,
        "words": row.words.replace("dataset", "data set"),
        "hook": row.hook,
        "api": ", ".join(map(str, PLUGIN_API)),
        "version": elbowroom.version,
    }

    def filled(source: Any) -> str:
        return Template(source.read_text("utf-8")).substitute(names)

    names["about"] = filled(_folder_of(kind) / "readme.md.in").rstrip()
    package = f"src/{names['module']}"
    return {
        "pyproject.toml": filled(TEMPLATES / "pyproject.toml.in"),
        "README.md": filled(TEMPLATES / "README.md.in"),
        "LICENSE": _license(),
        ".gitignore": filled(TEMPLATES / "gitignore.in"),
        ".github/workflows/ci.yml": filled(TEMPLATES / "ci.yml.in"),
        f"{package}/__init__.py": filled(TEMPLATES / "init.py.in"),
        f"{package}/{kind}.py": filled(_folder_of(kind) / "component.py.in"),
        f"{package}/py.typed": "",
        "tests/test_plugin.py": filled(TEMPLATES / "test_plugin.py.in"),
    }


def kinds() -> tuple[str, ...]:
    """The kinds that have a template."""
    installed()  # adds the kinds of plugins
    return tuple(kind for kind in KINDS if (_folder_of(kind) / "component.py.in").is_file())


def _license() -> str:
    """The text of elbowroom's licence; a checkout's egg-info, found first, has none."""
    found = (one.read_text("licenses/LICENSE") for one in distributions(name="elbowroom"))
    return next(filter(None, found), "Apache-2.0\n")


def _folder_of(kind: str) -> Any:
    package, _, folder = KINDS[kind].template.partition(":")
    if not package:
        return TEMPLATES / "kinds" / kind
    return resources.files(package).joinpath(*folder.split("/"))


def _checked_name(given: str) -> str:
    name = given.removeprefix("elbowroom-")
    if _NAME.fullmatch(name) is None:
        near = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
        near = re.sub(r"[^a-z0-9]+", "-", near).strip("-")
        hint = f" (did you mean {near!r}?)" if _NAME.fullmatch(near) else ""
        raise ElbowroomError(
            f"{given!r} is not a plugin name{hint}: a name has lower-case letters, digits and "
            "single hyphens, and begins with a letter, e.g. 'min-snr'"
        )
    if len(name) > _LONGEST:
        raise ElbowroomError(f"{name!r} has {len(name)} characters; a name has at most {_LONGEST}")
    return name


def _checked_kind(given: str) -> str:
    kind, known = given.replace("-", "_"), kinds()
    if kind not in known:
        raise ElbowroomError(
            f"no template for kind {given!r}{did_you_mean(kind, known)}; kinds: {', '.join(known)}"
        )
    return kind
