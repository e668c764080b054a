"""The application: the commands of core, and those of plugins."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .explain import explain
from .plugins import plugins
from .presets import presets

_LISTING = "elbowroom.listing"


class Commands(TyperGroup):
    """Our own commands first; any other name is asked of the registry."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help: of a plugin's command it shows one line, so that its options are not built."""
        ctx.meta[_LISTING] = True
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name, in the order of help."""
        from ..registry.components import installed

        own = super().list_commands(ctx)
        return [*own, *(name for name in installed().commands() if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, None where there is none."""
        listing = ctx is not None and _LISTING in ctx.meta
        found = super().get_command(ctx, cmd_name) or _of_plugin(cmd_name, listing)
        for option in [] if found is None else found.get_params(ctx):
            if getattr(option, "is_flag", False):
                option.metavar = ""  # typer would print <bool>
        return found


def _of_plugin(name: str, listing: bool) -> Any:
    from ..errors import PluginError
    from ..registry.components import installed

    found = installed().commands().get(name)
    if found is None:
        return None
    try:
        function = found.load()
    except PluginError as error:  # help goes on without it; whoever calls it is told why
        function = _broken(error)
    if listing:
        return TyperCommand(name, help=inspect.getdoc(function))
    alone = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
    )
    alone.command(name)(function)
    return typer.main.get_command(alone)


def _broken(error: Exception) -> Any:
    def fail() -> None:
        raise error

    fail.__doc__ = f"Broken: {error}"
    return fail


app = typer.Typer(
    cls=Commands,
    name="elbowroom",
    help="Diffusion objectives as variational bounds, for every noise process.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for _command in (plugins, presets, explain):
    app.command()(_command)


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
