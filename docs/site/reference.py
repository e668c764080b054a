"""Reference pages, generated from the classes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import elbowroom
from elbowroom import Kind
from elbowroom.registry.kinds import KINDS

elbowroom.installed()  # adds the kinds of plugins

CORE = Path(__file__).parents[2] / "core"
CONFORMANCE = CORE.parent / "plugins" / "conformance" / "__init__.pyi"

TITLES = {
    "api": "The verbs",
    "errors": "Errors",
    "files": "Files and locks",
    "randomness": "Random numbers",
    "contracts": "Values that contracts exchange",
    "objective": "The objective",
    "registry": "The registry",
    "config": "Configs",
    "runs": "Runs",
    "cli": "For authors of commands",
    "datasets": "Data",
    "training": "Training",
    "sampling": "Sampling",
    "evaluation": "Evaluation",
    "paper": "The certificate",
    "conformance": "Conformance",
}
"""Room of core, or plugin with public names -> the title of its page."""

FROM_THE_ROOT = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security-policy.md"}
"""File at the root of the repository -> its page."""


def navigation() -> list[dict[str, list[dict[str, str]]]]:
    """The pages of contracts and of public names, for the site's contents."""
    contracts = [{_title(kind): f"reference/contracts/{name}.md"} for name, kind in KINDS.items()]
    rooms = [{title: f"reference/api/{room}.md"} for room, title in TITLES.items()]
    return [{"Contracts": contracts}, {"Public names": rooms}]


def pages() -> dict[str, str]:
    """Every generated page, by its name."""
    found = {"configuration": configuration(), "hooks": hooks(), "commands": commands()}
    found |= {f"contracts/{name}": contract(kind) for name, kind in KINDS.items()}
    return found | {f"api/{room}": public_names(room) for room in TITLES}


def contract(kind: Kind) -> str:
    """A contract with its theory, and who supplies such components."""
    module, _, cls = kind.contract.partition(":")
    names = {cls, *public().get(module, ())}
    members = sorted(names, key=lambda name: (name != cls, name))  # the contract first
    supplied = elbowroom.installed().components(kind.name)
    names = ", ".join(f"`{name}`" for name in supplied) or "none"
    lines = [f"# {_title(kind)}", "", f"{kind.meaning}: hook `{kind.hook}`. Built in: {names}.", ""]
    return "\n".join([*lines, *_members(module, members)])


def public_names(room: str) -> str:
    """What a room has of the public names, but for contracts, which have pages of their own."""
    contracts = {kind.contract.partition(":")[0] for kind in KINDS.values()}
    lines = [f"# {TITLES[room]}", ""]
    for module, names in public().items():
        if _room(module) == room and module not in contracts:
            lines += _members(module, names)
    return "\n".join(lines)


def public() -> Mapping[str, list[str]]:
    """Module -> its public names, as the stubs of the package and of its rooms list them."""
    found: dict[str, list[str]] = {}
    for stub in sorted((*CORE.glob("__init__.pyi"), *CORE.glob("*/__init__.pyi"), CONFORMANCE)):
        base = "elbowroom" if stub.parent == CORE else f"elbowroom.{stub.parent.name}"
        base = "elbowroom.plugins.conformance" if stub == CONFORMANCE else base
        for node in ast.parse(stub.read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                names = found.setdefault(f"{base}.{node.module}", [])
                names += [one.name for one in node.names if one.name not in names]
    return found


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[2] if parts[1] == "plugins" else parts[1]


def _members(module: str, names: list[str]) -> list[str]:
    """What mkdocstrings replaces by the module's docstring and these members."""
    options = ["    options:", "      members:", *(f"        - {name}" for name in names)]
    return [f"::: {module}", *options, ""]


def _title(kind: Kind) -> str:
    return kind.words.capitalize()


def configuration() -> str:
    """Every section and every component's options."""
    from elbowroom import installed
    from elbowroom.config.sections import Config, ObjectiveSection

    lines = [
        "# Configuration",
        "",
        "Generated from the classes. A component is a name, or a mapping with `name` and its "
        "options; `key.sub=value` on the command line overrides.",
    ]
    for title, section in (
        ("The config", Config),
        ("objective", ObjectiveSection),
        *((name, found.load()) for name, found in installed().components("section").items()),
    ):
        lines += ["", f"## {title}", "", _first_line(section), "", *_options(section)]
    for kind, row in KINDS.items():
        components = installed().components(kind)
        if not components or not row.is_class or kind == "section":
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


def commands() -> str:
    """Every command with its arguments and options, as its own help says them."""
    import click
    import typer
    from elbowroom.cli import app

    group = typer.main.get_command(app)
    context = click.Context(group, info_name="elbowroom")
    lines = ["# Commands", "", "Generated from the commands themselves."]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        text = inspect.cleandoc(command.help or "").replace("``", "`")
        lines += ["", f"## `elbowroom {name}`", "", text, ""]
        lines += ["| argument or option | what it is |", "| --- | --- |"]
        for given in command.params:
            written = given.metavar if given.param_type_name == "argument" else None
            said = written or ", ".join(given.opts) or given.name
            told = " ".join((getattr(given, "help", None) or "").split()).replace(
                "|", chr(92) + "|"
            )
            lines.append(f"| `{said}` | {told} |")
    return "\n".join(lines) + "\n"


def _options(cls: type[Any]) -> list[str]:
    from elbowroom.config.schema import options_of

    rows = list(_rows(options_of(cls).values()))
    if not rows:
        return []
    return ["| option | takes | default |", "| --- | --- | --- |", *rows]


def _rows(options: Any) -> Iterator[str]:
    from elbowroom.config.messages import COMPONENT, describe, show
    from elbowroom.config.schema import Required

    for option in options:
        default = option.default() if option.usual is None else option.usual
        if default is Required:
            told = "required"
        elif attrs.has(type(default)):
            told = "see below"
        else:
            told = f"`{show(default)}`"
        takes = describe(option.hint).replace(f": {COMPONENT}", "").replace("|", chr(92) + "|")
        yield f"| `{option.name}` | {takes} | {told} |"


def _first_line(cls: type[Any]) -> str:
    text = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0]
    return " ".join(text.replace("``", "`").split())
