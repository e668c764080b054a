"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import ElbowroomError


def write_atomically(path: Path, content: bytes) -> None:
    """Write aside, make sure it is on disk, then rename."""
    try:
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise ElbowroomError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, path)
    except BaseException as error:
        Path(aside).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ElbowroomError(f"cannot write {path}: {error.strerror}") from error
        raise


def _umask() -> int:
    """The permissions new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
