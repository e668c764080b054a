"""``elbowroom new-plugin``: from an idea to a package that installs and passes its tests."""

from __future__ import annotations

from typing import Annotated

import typer
from elbowroom.cli import JSON, console, echo, print_json

Name = Annotated[str, typer.Argument(metavar="NAME", help="What configs will call it: min-snr.")]
Kind = Annotated[
    str,
    typer.Option(
        "--kind",
        help="weighting, process, sampler, command, ...: see elbowroom plugins.",
    ),
]
Out = Annotated[str, typer.Option("--out", metavar="DIR", help="The folder to put it into.")]


def new_plugin(name: Name, kind: Kind = "weighting", out: Out = ".", json: JSON = False) -> None:
    """A ready package: entry point, typed component with its formula, conformance test, CI.

    Example: elbowroom new-plugin min-snr --kind weighting
    """
    from .new_plugin import new_plugin as make

    folder = make(name, kind, out)
    files = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    if json:
        print_json({"folder": str(folder), "files": files})
        return
    from rich.text import Text

    console().print(Text.assemble(("wrote ", "bold"), str(folder)))
    for file in files:
        echo(f"  {file}")
    echo(f"\nnext:\n  cd {folder}\n  pip install -e '.[dev]'\n  pytest\n  elbowroom plugins")
