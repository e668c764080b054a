"""The application: the commands that must work when plugins do not, and those plugins bring."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .doctor import doctor
from .evaluate import evaluate
from .explain import explain
from .export import export
from .plugins import plugins
from .presets import presets
from .sample import sample
from .train import train


class Commands(TyperGroup):
    """Our own commands first; any other name is asked of the registry."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name, in the order of help."""
        from ..registry.components import installed

        own = super().list_commands(ctx)
        return [*own, *(name for name in installed().commands() if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, None where there is none."""
        return super().get_command(ctx, cmd_name) or _of_plugin(cmd_name)


def _of_plugin(name: str) -> Any:
    from ..errors import PluginError
    from ..registry.components import installed

    found = installed().commands().get(name)
    if found is None:
        return None
    alone = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
    )
    try:
        alone.command(name)(found.load())
    except PluginError as error:  # help goes on without it; whoever calls it is told why
        alone.command(name, help=f"Broken: {error}")(_broken(error))
    return typer.main.get_command(alone)


def _broken(error: Exception) -> Any:
    def fail() -> None:
        raise error

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
