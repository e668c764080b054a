"""The application: the commands that must work when plugins do not, and those plugins bring."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .doctor import doctor
from .evaluate import evaluate
from .explain import explain
from .export import export
from .plugins import plugins
from .presets import presets
from .sample import sample
from .train import train

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
        return super().get_command(ctx, cmd_name) or _of_plugin(cmd_name, listing)


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

_plugins = typer.Typer()
_plugins.callback(invoke_without_command=True)(plugins)
_plugins.command()(doctor)
app.add_typer(_plugins, name="plugins")
for _command in (presets, explain, train, sample, evaluate, export):
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
