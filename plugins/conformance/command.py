"""Laws of a command."""

from __future__ import annotations

import inspect

import typer
from elbowroom import Command
from typer.testing import CliRunner

from .law import ensure, run


def check_command(command: Command) -> None:
    """Check the laws of a command; only its help is run."""
    run(command, [_docstring, _help, _unknown_option], command)


def _called(command: Command, *arguments: str) -> tuple[int, str]:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def _docstring(command: Command) -> None:
    """Its docstring begins with a sentence, shown in the list of commands."""
    first = (inspect.getdoc(command) or "").partition("\n")[0]
    ensure(first.endswith("."), f"it begins with {first!r}.")


def _help(command: Command) -> None:
    """typer can read its arguments: --help works."""
    code, output = _called(command, "--help")
    ensure(code == 0, f"--help exits with {code}: {output}")


def _unknown_option(command: Command) -> None:
    """An unknown option exits with code 2."""
    code, _ = _called(command, "--no-such-option-anywhere")
    ensure(code == 2, f"it exits with {code}.")
