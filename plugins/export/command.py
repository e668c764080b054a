"""``elbowroom export``: write a run in the format of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from elbowroom.cli import (
    JSON,
    Checkpoint,
    Ema,
    Overrides,
    Run,
    Trust,
    console,
    echo,
    help_group,
    print_json,
    with_ema,
)

Out = Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")]


@help_group("Models", 2)
def export(
    run: Run,
    out: Out,
    overrides: Overrides = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="The format, e.g. diffusers. Needed if several are installed.",
        ),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(
            "--push", metavar="REPO", help="Also publish the folder, e.g. to OWNER/NAME on a hub."
        ),
    ] = None,
    checkpoint: Checkpoint = "best",
    ema: Ema = None,
    trust: Trust = False,
    json: JSON = False,
) -> None:
    """Export a run's model and sampler to another library.

    Example: elbowroom export runs/digits --to diffusers exported/digits
    """
    from elbowroom import named_component
    from elbowroom.config import parse_spec

    from .export import export_run

    spec = parse_spec(to or _only_exporter())
    named = spec if isinstance(spec, str) else dict(spec)
    changes = with_ema(overrides, ema)
    folder = export_run(run, named, out, changes, checkpoint=checkpoint, trust=trust)
    pushed = (
        named_component("exporter", named, path="--to").build().push(folder, push) if push else None
    )
    found = (path for path in folder.rglob("*") if path.is_file())
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(found)}
    if json:
        print_json({"folder": str(folder), "files": sizes, "pushed": pushed})
        return
    from rich.text import Text

    console().print(Text.assemble(("wrote ", "bold"), str(folder)))
    for name, size in sizes.items():
        echo(f"  {name}  {size:,} bytes")
    if pushed:
        console().print(Text.assemble(("pushed ", "bold"), pushed))


def _only_exporter() -> str:
    from elbowroom import ConfigError, installed

    names = list(installed().components("exporter"))
    if len(names) != 1:
        raise ConfigError(f"--to: missing. Exporters: {', '.join(names) or 'none'}")
    return names[0]
