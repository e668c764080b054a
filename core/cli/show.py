"""How commands speak: tables for people, JSON for programs, complaints on stderr."""

from __future__ import annotations

import json
import math
import sys
from typing import Annotated, Any

import typer

JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Let code run that a RUN from elsewhere names; read it first."),
]


def print_json(value: Any) -> None:
    """Strict JSON; what is not a finite number is null."""
    typer.echo(json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def finite(value: Any) -> Any:
    """``value`` with NaN and infinities as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def console(*, stderr: bool = False) -> Any:
    """A rich console that does not guess at words and wraps only for a terminal."""
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    width = None if file.isatty() else 120
    return Console(file=file, highlight=False, soft_wrap=not file.isatty(), width=width)


def table(title: str, *columns: str) -> Any:
    """An empty table; columns whose name starts with '>' are right-aligned."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for column in columns:
        made.add_column(column.lstrip(">"), justify="right" if column[0] == ">" else "left")
    return made


def number(value: float) -> str:
    """A number in a table."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.6g}"


def complain(message: str) -> None:
    """One message on stderr."""
    from rich.text import Text

    console(stderr=True).print(Text.assemble(("error: ", "bold red"), message))
