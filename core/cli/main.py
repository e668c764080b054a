"""The ``elbowroom`` command: run the application, and end in one sentence where it fails."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from contextlib import nullcontext

from .app import app
from .output import json_alone, speaks

STOPPED_BY_CTRL_C = 130


def main() -> None:
    """The ``elbowroom`` command: what the user can mend is one message and exit code 2."""
    from ..errors import ElbowroomError

    _listen()
    asked = sys.argv[1:]
    try:
        with json_alone() if "--json" in asked and "--help" not in asked else nullcontext():
            app()
    except ElbowroomError as error:
        from .output import complain

        if speaks():
            complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(STOPPED_BY_CTRL_C)
    except BrokenPipeError:  # the reader went away (| head): nothing left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _listen() -> None:
    """What the library has to say goes to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("elbowroom")
    log.setLevel(logging.INFO if speaks() else logging.ERROR)
    log.handlers = [handler]  # once, also where a test calls main many times
    warnings.formatwarning = _in_a_line


def _in_a_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,  # noqa: ARG001  # of code
) -> str:
    """What we warn of is for people: no file, no line of code."""
    if category is UserWarning:
        return f"warning: {message}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"
