"""``elbowroom new-plugin``: generate the package of a plugin."""

from __future__ import annotations

from typing import Annotated

import typer
from elbowroom.cli import JSON, console, echo, help_group, print_json

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The component's name in configs, e.g. min-snr.")
]
Kind = Annotated[
    str,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="weighting, process, sampler, command, ...; elbowroom plugins lists them.",
    ),
]
Out = Annotated[str, typer.Option("--out", metavar="DIR", help="The parent folder.")]


@help_group("Plugins", 2)
def new_plugin(name: Name, kind: Kind = "weighting", out: Out = ".", json: JSON = False) -> None:
    """Create a plugin package with a component, a test and a CI workflow.

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
