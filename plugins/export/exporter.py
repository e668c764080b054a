"""Exporters: write a run in the format of another library.

An exporter writes into an empty temporary folder, which is renamed when it is complete.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from elbowroom import ElbowroomError

if TYPE_CHECKING:
    from elbowroom import Config
    from elbowroom.runs import Loaded


class Exporter(ABC):
    """Writes a run's model for another library."""

    @abstractmethod
    def write(self, run: Loaded, config: Config, folder: Path) -> None:
        """Write the model of ``run``, whose config is ``config``, into the empty ``folder``."""

    def push(self, folder: Path, repo: str) -> str:
        """Upload the folder as ``repo``; return the name it is loaded by."""
        raise ElbowroomError(f"--push: {type(self).__name__} cannot upload")
