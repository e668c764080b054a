"""File of a measured curve.

    RUN/evaluation/details/curve.json     the last measured curve; other evaluations keep it
    RUN/evaluation/figures.json           also has it, until an evaluation without the metric

A path to figures.json means the curve of that evaluation or, if it has none, curve.json.
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
    "measure one with elbowroom evaluate RUN --metric curve, which writes "
    "RUN/evaluation/details/curve.json"
)
_METRIC, _FIGURES, _OPTION = "curve", "figures.json", "sampler.grid.curve"


@attrs.frozen(eq=False)
class CurveFile:
    """A curve and the file it was read from."""

    path: Path
    costs: StepCosts
    sha256: str  # of the whole file


def read_curve(given: str) -> CurveFile:
    """Read the curve that an evaluation has written; raise ElbowroomError if it is invalid."""
    path = Path(given)
    try:
        return _read(path)
    except ElbowroomError as error:
        details = details_file(path.parent, _METRIC)
        if path.name == _FIGURES and details.exists():
            return _read(details)
        raise error from None


def own_curve(run: Path) -> Path:
    """Path of the curve of a run's own model."""
    return details_file(evaluation_folder(run), _METRIC)


def _read(path: Path) -> CurveFile:
    try:
        record = read_json(path)
        found = record.get("details") if isinstance(record, dict) else None
        curve = found.get(_METRIC) if isinstance(found, dict) else None
        costs = StepCosts.of_record(curve)
        return CurveFile(path, costs, hashlib.sha256(path.read_bytes()).hexdigest())
    except OSError as error:
        raise ElbowroomError(f"{_OPTION}: {path}: {error.strerror}; {HOW}") from error
    except ElbowroomError as error:
        named = "" if isinstance(error, JSONFileError) else f"{path}: "  # it names the file itself
        raise ElbowroomError(f"{_OPTION}: {named}{error}; {HOW}") from error
