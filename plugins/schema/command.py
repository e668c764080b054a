"""``elbowroom schema``: what a config may say, for editors that complete and check it."""

from __future__ import annotations

import json

import typer
from elbowroom.cli import help_group


@help_group("Plugins", 3)
def schema() -> None:
    """Print the JSON Schema of configs, for completion in editors.

    Example: elbowroom schema > elbowroom.schema.json

    A config that begins with "# yaml-language-server: $schema=elbowroom.schema.json" is then
    completed and checked while it is written.
    """
    from .json_schema import config_schema

    typer.echo(json.dumps(config_schema(), indent=1))
