"""``elbowroom presets``: the configs that have a name."""

from __future__ import annotations

import typer

from .options import JSON
from .output import console, print_json, table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("presets")(list_presets)


def list_presets(json: JSON = False) -> None:
    """Configs shipped with elbowroom and its plugins; name one where a CONFIG is asked for.

    Example: elbowroom explain digits process=gaussian
    """
    from rich.text import Text

    from ..config.preset import presets

    found = presets()
    if json:
        print_json(
            {
                name: {"distribution": preset.owner.distribution, "description": preset.description}
                for name, preset in found.items()
            }
        )
        return
    listing = table("Presets", "name", "what it is", "supplied by")
    for name, preset in found.items():
        listing.add_row(Text(name), Text(preset.description), Text(str(preset.owner)))
    console().print(listing)
