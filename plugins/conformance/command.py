"""Laws of a command."""

from __future__ import annotations

import inspect

import typer
from elbowroom import Command
from typer.testing import CliRunner

from .law import ensure, run


def check_command(command: Command) -> None:
    """Every law of a command; it is not run, only asked for its help."""
    run(command, [_says_what_it_does, _has_help, _refuses_the_unknown], command)


def _called(command: Command, *arguments: str) -> tuple[int, str]:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    answer = CliRunner().invoke(app, list(arguments))
    return answer.exit_code, answer.output


def _says_what_it_does(command: Command) -> None:
    """Its docstring begins with a sentence, which stands in the list of commands."""
    first = (inspect.getdoc(command) or "").partition("\n")[0]
    ensure(first.endswith("."), f"it begins with {first!r}.")


def _has_help(command: Command) -> None:
    """typer can read its arguments: --help answers."""
    code, told = _called(command, "--help")
    ensure(code == 0, f"--help ends with {code}: {told}")


def _refuses_the_unknown(command: Command) -> None:
    """An option that is not there is refused with exit code 2."""
    code, _ = _called(command, "--no-such-option-anywhere")
    ensure(code == 2, f"it ends with {code}.")  # of wrong usage
