"""Details of metrics, each kept in a file of its own.

    EVALUATION/details/curve.json     what the metric ``curve`` found beside its measurements

An evaluation replaces the details of its own metrics alone, so what was made from those of another
goes on working. A file says what it is of: the step, the protocol and the config.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

from elbowroom.files import finite, replace_file

_LONGEST = 200  # characters of a name: file systems take 255


def details_file(folder: str | PathLike[str], metric: str) -> Path:
    """Where an evaluation's folder has the details of a metric, if it was ever measured there."""
    return Path(folder) / "details" / f"{quote(metric, safe=' ')[:_LONGEST]}.json"


def write_details(folder: Path, of: Mapping[str, Any], details: Mapping[str, Any]) -> None:
    """Write the details of each metric with what they are of; others' files stay."""
    for metric, found in details.items():
        path = details_file(folder, metric)
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {**of, "details": {metric: found}}  # as in figures.json, so one reader serves both
        replace_file(path, json.dumps(finite(record), indent=1).encode())
