"""``elbowroom plugins``: what is installed, who supplies it, what is broken and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import JSON, help_group
from .output import console, echo, print_json, table

if TYPE_CHECKING:
    from ..registry.components import Registry


Requirements = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="Print the packages that RUN needs, for pip install -r."),
]


@help_group("Plugins")
def plugins(requirements: Requirements = None, json: JSON = False) -> None:
    """List every component with the package that supplies it.

    Example: elbowroom plugins --json
    """
    if requirements is not None:
        from ..runs.folder import RunFolder

        needed = RunFolder.open(requirements).requirements()
        print_json(needed) if json else echo("\n".join(needed))
        return

    from ..registry.components import installed

    found = installed()
    if json:
        print_json(describe(found))
        return
    show(found)


def describe(found: Registry) -> dict[str, Any]:
    """The registry as plain data."""
    from ..registry.components import KINDS

    return {
        "plugins": [plugin.record() for plugin in found.plugins],
        "components": {
            kind: {
                name: {
                    "distribution": component.owner.distribution,
                    "version": component.owner.version,
                    "plugin": component.owner.plugin,
                }
                for name, component in found.components(kind).items()
            }
            for kind in KINDS
        },
        "broken": [plugin.record() for plugin in found.broken],
    }


def show(found: Registry) -> None:
    """The registry as a table."""
    from rich.text import Text

    from ..registry.components import KINDS

    out = console()
    listing = table("Components", "kind", "name", "supplied by")
    for kind in KINDS:
        components = found.components(kind)
        for place, (name, component) in enumerate(components.items()):
            last = place == len(components) - 1
            listing.add_row(
                Text(kind.replace("_", " ") if place == 0 else ""),
                Text(name),
                Text(str(component.owner)),
                end_section=last,
            )
    out.print(listing)
    for plugin in found.plugins:
        for note in plugin.notes:
            out.print(Text(f"note on {plugin}: {note}", style="yellow"))
    for plugin in found.broken:
        out.print(Text.assemble(("broken ", "bold red"), f"{plugin}: {plugin.error}"))
    if found.left_out:
        out.print(Text(f"ELBOWROOM_PLUGINS leaves out: {', '.join(found.left_out)}"))
    if not found.broken:
        out.print(Text(f"{len(found.plugins)} plugins, none broken"))
