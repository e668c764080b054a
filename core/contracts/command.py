"""Commands: what a plugin adds to ``elbowroom`` on the command line.

A command is a plain function. Its arguments are annotated the way typer reads them, its docstring
is its help, and it answers by printing: tables for people, JSON with ``--json``. What the user can
mend is raised as :class:`elbowroom.ElbowroomError` and ends in one sentence and exit code 2.

    @elbowroom.python_form("my_package.sweep:sweep")
    def command(config: Annotated[str, typer.Argument()], json: JSON = False) -> None:
        \"\"\"Sweep a config. (This line stands in ``elbowroom --help``.)\"\"\"

It should import what is heavy inside the function: ``--help`` loads every command. A command that
is worth calling from Python names the function that does its work, and ``elbowroom.sweep`` is that
function from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar


class Command(Protocol):
    """A function that typer can turn into a command."""

    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> None: ...


_F = TypeVar("_F", bound=Callable[..., Any])


def python_form(target: str) -> Callable[[_F], _F]:
    """Say which function, ``"module:function"``, does a command's work in Python."""

    def mark(function: _F) -> _F:
        function.python_form = target  # type: ignore[attr-defined]
        return function

    return mark
