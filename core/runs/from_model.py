"""Write a model that was not trained by elbowroom as a run.

The run has the model's weights as its only checkpoint, and its config. It is loaded once before it
gets its name.
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
    """Write ``model`` as a run in the new folder ``out``, at ``step`` updates.

    Weights and averaged weights are the same. There is no optimiser state: resumed training starts
    with a new one.
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
    """Raise unless the run can be loaded, e.g. because its options give another network."""
    try:
        load_run(run, device="cpu", trust=True)  # it was written here
    except ElbowroomError as error:
        raise ElbowroomError(
            f"this model cannot be saved, for it could not be loaded again: {error}"
        ) from error
