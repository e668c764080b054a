"""The ``elbowroom`` command: run the application, and end in one sentence where it fails."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

from .app import app
from .output import is_first_rank, json_alone, set_up_logging

STOPPED_BY_CTRL_C = 130


def main() -> None:
    """Run the ``elbowroom`` command; an ElbowroomError is one message and exit code 2."""
    from ..errors import ElbowroomError

    set_up_logging()
    asked = sys.argv[1:]
    try:
        with json_alone() if "--json" in asked and "--help" not in asked else nullcontext():
            app()
    except ElbowroomError as error:
        from .output import print_error

        if is_first_rank():
            print_error(str(error))
        sys.exit(error.exit_code)
    except (RuntimeError, MemoryError, OverflowError, TypeError, ValueError) as error:
        from ..errors import is_allocation_failure
        from .output import print_error

        if not is_allocation_failure(error):
            raise
        words = str(error).partition("\n")[0] or type(error).__name__
        print_error(
            f"not enough memory: use a smaller network, batch, or number of steps ({words})"
        )
        sys.exit(ElbowroomError.exit_code)
    except KeyboardInterrupt:
        sys.exit(STOPPED_BY_CTRL_C)
    except BrokenPipeError:  # the reader ended (| head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
