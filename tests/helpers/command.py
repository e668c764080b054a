"""Run the command line in this process, as a shell would see it."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any
from unittest import mock

import attrs


@attrs.frozen
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=_no_json)


def _no_json(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def elbowroom(*arguments: object) -> Ran:
    """``elbowroom ARGUMENTS``: exit code, stdout, stderr."""
    from elbowroom.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["elbowroom", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return Ran(code, out.getvalue(), err.getvalue())
