"""``elbowroom figures``: the paper's figures from our own functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from elbowroom.cli import JSON, echo, help_group, print_json


@help_group("Theory", 3)
def figures(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The output folder.")],
    json: JSON = False,
) -> None:
    """Draw the paper's figures as PNG files.

    Example: elbowroom figures --out figures
    """
    from elbowroom import installed

    from .figures import paper_figures

    paths = [str(path) for path in paper_figures(installed(), out)]
    if json:
        print_json({"figures": paths})
        return
    for path in paths:
        echo(path)
