"""Reference pages made from the classes themselves, so that they cannot lie."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import attrs
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages to the site."""
    for name, page in (("configuration", configuration()), ("hooks", hooks())):
        files.append(File.generated(config, f"reference/{name}.md", content=page))
    return files


def configuration() -> str:
    """Every section and every component's options."""
    from elbowroom.config.sections import Config, ObjectiveSection, Train
    from elbowroom.registry.components import KINDS, installed

    lines = [
        "# Configuration",
        "",
        "Generated from the classes. A component is a name, or a mapping with `name` and its "
        "options; `key.sub=value` on the command line overrides.",
    ]
    for title, section in (
        ("The config", Config),
        ("objective", ObjectiveSection),
        ("train", Train),
    ):
        lines += ["", f"## {title}", "", _first_line(section), "", *_options(section)]
    for kind, row in KINDS.items():
        components = installed().components(kind)
        if not components or not row.is_class:
            continue
        lines += ["", f"## {row.plural.capitalize()}"]
        for name, component in components.items():
            cls = component.load()
            lines += ["", f"### {row.words} `{name}`", "", _first_line(cls), ""]
            lines += _options(cls) or ["No options."]
    return "\n".join(lines) + "\n"


def hooks() -> str:
    """Every hook with its exact signature."""
    from elbowroom.registry.hooks import Hooks

    lines = ["# Hooks", "", "Generated from the hook specifications (`core/registry/hooks.py`)."]
    for name, hook in vars(Hooks).items():
        if name.startswith("_"):
            continue
        arguments = [a for a in inspect.signature(hook).parameters if a != "self"]
        text = inspect.cleandoc(hook.__doc__ or "").replace(":class:", "")
        lines += ["", f"## `{name}({', '.join(arguments)})`", "", text.replace("``", "`")]
    return "\n".join(lines) + "\n"


def _options(cls: type[Any]) -> list[str]:
    from elbowroom.config.schema import options_of

    rows = list(_rows(options_of(cls).values()))
    if not rows:
        return []
    return ["| option | takes | default |", "| --- | --- | --- |", *rows]


def _rows(options: Any) -> Iterator[str]:
    from elbowroom.config.messages import describe, show
    from elbowroom.config.schema import Required

    for option in options:
        default = option.default() if option.usual is None else option.usual
        if default is Required:
            told = "required"
        elif attrs.has(type(default)):
            told = "see below"
        else:
            told = f"`{show(default)}`"
        takes = describe(option.hint).replace("|", chr(92) + "|")
        yield f"| `{option.name}` | {takes} | {told} |"


def _first_line(cls: type[Any]) -> str:
    text = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0]
    return " ".join(text.replace("``", "`").split())
