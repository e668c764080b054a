"""Output of commands: tables, JSON, and errors on stderr.

Names and messages may come from an untrusted run or data set. All output passes :func:`printable`,
so that no control character reaches a terminal.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO, Any

import typer

from ..files.json_file import finite

_documents: list[IO[str]] = []  # the file for JSON, if not standard output


@contextmanager
def json_alone() -> Iterator[None]:
    """Keep standard output for JSON: other output goes to stderr."""
    try:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):  # no real files, as in a notebook or a test
        with _documents_to(sys.stdout), redirect_stdout(sys.stderr):
            yield
        return
    encoding = sys.stdout.encoding
    with os.fdopen(os.dup(out), "w", encoding=encoding) as file, _documents_to(file):
        os.dup2(err, out)  # also what libraries and other processes print
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            os.dup2(file.fileno(), out)


@contextmanager
def _documents_to(file: IO[str]) -> Iterator[None]:
    _documents.append(file)
    try:
        yield
    finally:
        _documents.pop()


def print_json(value: Any) -> None:
    """Print strict JSON; numbers that are not finite are null."""
    text = json.dumps(finite(value), indent=2, allow_nan=False)
    typer.echo(text, file=_documents[-1] if _documents else None)


def printable(text: str) -> str:
    """``text`` with control characters, ANSI escapes and bidi marks as ``\\x1b``; lines stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter.encode("unicode_escape").decode("ascii") if _is_control(letter) else letter
        for letter in text
    )


def _is_control(letter: str) -> bool:
    return letter not in "\n\t" and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def echo(text: object = "") -> None:
    """Print text to standard output."""
    typer.echo(printable(str(text)))


def is_first_rank() -> bool:
    """Whether this process is the first rank, which prints, or no rank at all."""
    return os.environ.get("RANK", "0") == "0"


def set_up_logging() -> None:
    """Send the library's log and warnings to stderr, one line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable("%(message)s"))
    log = logging.getLogger("elbowroom")
    log.setLevel(logging.INFO if is_first_rank() else logging.ERROR)
    log.handlers = [handler]  # once, also where a test calls main many times
    warnings.formatwarning = _EachOnce()


class _Printable(logging.Formatter):
    """Messages without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _EachOnce:
    """Formats a warning as one line without file and code, and each message once."""

    def __init__(self) -> None:
        self.shown: set[str] = set()

    def __call__(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,  # of code
    ) -> str:
        words = f"warning: {message}\n"
        if category is not UserWarning:
            words = f"{filename}:{lineno}: {category.__name__}: {message}\n"
        words = printable(words)
        if words in self.shown:
            return ""
        self.shown.add(words)
        return words


def log_details() -> None:
    """Show debug messages, e.g. of components that choose their own options."""
    if is_first_rank():
        logging.getLogger("elbowroom").setLevel(logging.DEBUG)


def console(*, stderr: bool = False) -> Any:
    """A rich console without highlighting, which wraps only for a terminal."""
    from rich.console import Console
    from rich.segment import Segment

    class PrintableConsole(Console):
        """A console whose text has no control characters but rich's own."""

        def render(self, *given: Any, **options: Any) -> Iterable[Segment]:
            for text, style, control in super().render(*given, **options):
                yield Segment(text if control else printable(text), style, control)

    file = sys.stderr if stderr else sys.stdout
    width = None if file.isatty() else 120
    return PrintableConsole(file=file, highlight=False, soft_wrap=not file.isatty(), width=width)


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


def print_error(message: str) -> None:
    """Print an error message to stderr."""
    from rich.text import Text

    console(stderr=True).print(Text.assemble(("error: ", "bold red"), message))
