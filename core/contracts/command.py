"""Commands of the command line.

A command is a function. Its arguments are annotated as typer reads them, its docstring is its help,
and it prints its result: tables, or JSON with ``--json``. An :class:`elbowroom.ElbowroomError` ends
the command with one message and exit code 2.

    @elbowroom.python_form("my_package.sweep:sweep")
    def command(config: Annotated[str, typer.Argument()], json: JSON = False) -> None:
        \"\"\"Sweep a config. (Shown by ``elbowroom --help``.)\"\"\"

Heavy libraries are imported inside the function, since ``--help`` loads every command. A command
that names a Python function by :func:`python_form` is available as ``elbowroom.sweep`` too.
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
    """Name the function that does a command's work in Python.

    Args:
        target: ``"module:function"``, imported on first use.

    Returns:
        A decorator of the command.
    """

    def mark(function: _F) -> _F:
        function.python_form = target  # type: ignore[attr-defined]
        return function

    return mark
