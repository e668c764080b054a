"""``elbowroom presets``: the configs that have a name."""

from __future__ import annotations

from .options import JSON, help_group
from .output import console, print_json, table


@help_group("Start here")
def presets(json: JSON = False) -> None:
    """List the configs that have a name.

    Example: elbowroom presets
    """
    from rich.text import Text

    from ..config.preset import presets as named_configs

    found = named_configs()
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
