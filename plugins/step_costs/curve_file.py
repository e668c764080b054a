"""Where a curve is kept, and reading it.

    RUN/evaluation/details/curve.json     the last that was measured; other evaluations leave it
    RUN/evaluation/figures.json           has it too, until an evaluation without the metric

A path to figures.json means the curve of that evaluation or, where this has none, the one that was
kept beside it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import attrs
from elbowroom import ElbowroomError
from elbowroom.files import JSONFileError, read_json
from elbowroom.plugins.evaluation.details import details_file
from elbowroom.plugins.evaluation.run import evaluation_folder

from .costs import StepCosts

HOW = (
    "make one by elbowroom evaluate RUN --metric curve, which writes "
    "RUN/evaluation/details/curve.json"
)
_METRIC, _FIGURES = "curve", "figures.json"


@attrs.frozen(eq=False)
class CurveFile:
    """A curve that was read."""

    path: Path
    costs: StepCosts
    sha256: str  # of the whole file, as ``sha256sum`` says it


def read_curve(given: str, asked_by: str = "sampler.grid.curve") -> CurveFile:
    """The curve that an evaluation has written; what cannot be one is refused."""
    path = Path(given)
    try:
        return _read(path, asked_by)
    except ElbowroomError as error:
        kept = details_file(path.parent, _METRIC)
        if path.name == _FIGURES and kept.exists():
            return _read(kept, asked_by)
        raise error from None


def own_curve(run: Path) -> Path:
    """The file that has the curve of a run's own model."""
    return details_file(evaluation_folder(run), _METRIC)


def _read(path: Path, asked_by: str) -> CurveFile:
    try:
        record = read_json(path)
        found = record.get("details") if isinstance(record, dict) else None
        curve = found.get(_METRIC) if isinstance(found, dict) else None
        costs = StepCosts.of_record(curve)
        return CurveFile(path, costs, hashlib.sha256(path.read_bytes()).hexdigest())
    except OSError as error:
        raise ElbowroomError(f"{asked_by}: {path}: {error.strerror}; {HOW}") from error
    except ElbowroomError as error:
        named = "" if isinstance(error, JSONFileError) else f"{path}: "  # it names the file itself
        raise ElbowroomError(f"{asked_by}: {named}{error}; {HOW}") from error
