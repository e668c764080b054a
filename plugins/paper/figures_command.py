"""``elbowroom figures``: the paper's figures from our own functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from elbowroom.cli import JSON, echo, print_json


def figures(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to put them.")],
    json: JSON = False,
) -> None:
    """The paper's weighting figure and total-weight figure, as PNG files.

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
