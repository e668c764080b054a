"""``elbowroom presets``: the configs that have a name."""

from __future__ import annotations

from .options import JSON
from .output import console, print_json, table


def presets(json: JSON = False) -> None:
    """Configs shipped with elbowroom and its plugins; name one where a CONFIG is asked for.

    Example: elbowroom explain digits process=gaussian
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
