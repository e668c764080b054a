"""The application: the commands of core, and those of plugins."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .explain import explain
from .options import HELP_GROUPS as _GROUPS
from .plugins import plugins
from .presets import presets

_LISTING = "elbowroom.listing"
_OTHERS = "Other commands"
_OURS = {command.__name__: command for command in (plugins, presets, explain)}


class Commands(TyperGroup):
    """The commands of core first, then those of the registry."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help: of a plugin's command it shows one line, so that its options are not built."""
        ctx.meta[_LISTING] = True
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name, in the order of help."""
        from ..registry.components import installed

        names = dict.fromkeys([*_OURS, *installed().commands()])
        return sorted(names, key=lambda name: _place(_function(name)))

    def get_params(self, ctx: Any) -> Any:
        """The options of ``elbowroom`` itself."""
        return _without_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, None where there is none."""
        listing = ctx is not None and _LISTING in ctx.meta
        found = super().get_command(ctx, cmd_name) or _of_plugin(cmd_name, listing)
        if found is not None:
            _without_types(found.get_params(ctx))
        return found


def _without_types(params: Any) -> Any:
    """Hide the types that typer prints: <bool> of flags, <str> of arguments."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
        elif param.param_type_name == "argument":
            param.display_type_rich = lambda **_: ""
    return params


def _place(function: Any) -> tuple[int, int]:
    """Where help lists a command: the index of its group, and its place in the group."""
    group, place = getattr(function, "help_group", (_OTHERS, 0))
    return (*_GROUPS, _OTHERS).index(group), place


def _function(name: str) -> Any:
    """The function of a command, None if there is no such command."""
    from ..errors import PluginError
    from ..registry.components import installed

    found = installed().commands().get(name)
    if name in _OURS or found is None:
        return _OURS.get(name)
    try:
        return found.load()
    except PluginError as error:  # help lists it; calling it raises this error
        return _broken(error)


def _of_plugin(name: str, listing: bool) -> Any:
    function = _function(name)
    if function is None:
        return None
    if listing:
        return TyperCommand(name, help=inspect.getdoc(function), rich_help_panel=_panel(function))
    alone = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
    )
    alone.command(name)(function)
    return typer.main.get_command(alone)


def _panel(function: Any) -> str:
    return (*_GROUPS, _OTHERS)[_place(function)[0]]


def _broken(error: Exception) -> Any:
    def fail() -> None:
        raise error

    fail.__doc__ = f"Broken: {error}"
    return fail


app = typer.Typer(
    cls=Commands,
    name="elbowroom",
    help="Train, sample, compare and certify diffusion models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for _command in _OURS.values():
    app.command(rich_help_panel=_panel(_command))(_command)


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
