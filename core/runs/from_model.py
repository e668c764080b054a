"""Making a run out of a model that was not trained by elbowroom: a loop of one's own, another tool.

The run has the model's weights as its only checkpoint, and the config it was assembled from. It is
read back before it gets its name, so what is there can be loaded.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import attrs

from ..config.assembly import Parts
from ..config.sections import to_plain
from ..errors import ElbowroomError
from ..files.atomic import atomic_folder
from ..objective.diffusion import Diffusion
from .checkpoint import named_tensors, write_checkpoint
from .folder import RunFolder
from .load import load_run
from .provenance import check_importable, provenance
from .run_error import readable_disk_errors
from .state import State


def save_run(model: Diffusion, parts: Parts, out: str | PathLike[str], step: int = 0) -> Path:
    """Write ``model`` as a run in the new folder ``out``; ``step``: how many updates it has seen.

    Weights and averaged weights are the same, and an optimiser's state there is none: whoever goes
    on with the run begins with a new one.
    """
    folder, config = Path(out), parts.config
    check_importable(config)
    RunFolder(folder).check_free()
    tensors = {name: t.detach().cpu() for name, t in named_tensors(model).items()}
    spec = None if parts.spec is None else attrs.asdict(parts.spec)
    state = State(config=to_plain(config), provenance=provenance(config), data=spec, step=step)
    with readable_disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder) as aside:
            run = RunFolder.create(aside, config)
            write_checkpoint(run.checkpoints, {"model": tensors, "ema": tensors}, state)
            run.record_first_checkpoint(step)
            _read_back(aside)
    return folder


def _read_back(run: Path) -> None:
    """Refuse what could not be loaded: other options give a network with other weights."""
    try:
        load_run(run, device="cpu", trust=True)  # it was written here
    except ElbowroomError as error:
        raise ElbowroomError(
            f"this model cannot be saved, for it could not be loaded again: {error}"
        ) from error
