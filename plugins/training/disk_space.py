"""Free disk space, checked before training starts."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from elbowroom.config import bytes_in_words
from elbowroom.runs import CheckpointError, cannot_write


def check_free_space(folder: Path, size: int) -> None:
    """Can ``folder`` take a checkpoint of ``size`` bytes? Asked before training begins."""
    probe = folder / f".room-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < size:
            raise CheckpointError(
                f"no room in {folder}: a checkpoint takes {bytes_in_words(size)}, "
                f"and {bytes_in_words(free)} are free"
            )
        with probe.open("wb") as file:  # a quota shows itself only when space is really asked for
            with contextlib.suppress(OSError):  # a file without a name goes with the process
                probe.unlink()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
    except OSError as error:
        raise CheckpointError(cannot_write(folder, error, size)) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
