"""Details of metrics, one file each.

    EVALUATION/details/curve.json     further results of the metric ``curve``

An evaluation replaces only the details of its own metrics. A file contains the step, the protocol
and the config.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

from elbowroom.files import finite, replace_file

_LONGEST = 200  # characters; file systems allow 255


def details_file(folder: str | PathLike[str], metric: str) -> Path:
    """Return the path of a metric's details in an evaluation folder."""
    return Path(folder) / "details" / f"{quote(metric, safe=' ')[:_LONGEST]}.json"


def write_details(folder: Path, of: Mapping[str, Any], details: Mapping[str, Any]) -> None:
    """Write the details of each metric; files of other metrics are kept."""
    for metric, found in details.items():
        path = details_file(folder, metric)
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {**of, "details": {metric: found}}  # the format of figures.json
        replace_file(path, json.dumps(finite(record), indent=1).encode())
