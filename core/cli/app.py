"""The application and its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from . import (
    bench,
    compare,
    evaluate,
    explain,
    export,
    figures,
    new_plugin,
    plugins,
    presets,
    sample,
    theory,
    train,
    weighting,
)

app = typer.Typer(
    name="elbowroom",
    help="Diffusion objectives as variational bounds, for every noise process.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

_COMMANDS = (
    *(plugins, presets, explain, weighting, theory, figures),
    *(train, sample, evaluate, compare, bench, export, new_plugin),
)
for _command in _COMMANDS:
    _command.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"elbowroom {version('elbowroom')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass
