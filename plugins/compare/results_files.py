"""The files of a comparison: ``results.json``, and its tables as CSV, LaTeX and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elbowroom import ElbowroomError
from elbowroom.files import write_atomically

from .typeset import FORMS


def write_results(results: Mapping[str, Any], out: Path) -> dict[str, Path]:
    """results.json and results.csv, and the table of measurements as LaTeX and Markdown."""
    paths = {"json": out / "results.json", "csv": out / "results.csv"}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElbowroomError(f"cannot write to {out}: {error.strerror}") from error
    write_atomically(paths["json"], json.dumps(results, indent=1, allow_nan=False).encode())
    write_atomically(paths["csv"], as_csv(results).encode())
    for name, form in FORMS.items():
        paths[Path(name).suffix[1:]] = out / name
        write_atomically(out / name, form(results).encode())
    return paths


_COLUMNS_OF = {
    "": "value",
    "_se": "standard_error",
    "_floor": "floor",
    "_knows_nothing": "knows_nothing",
    "_vacuous": "vacuous",
    "_heading": "heading",
}


"""The columns of a measurement, what is added to its name, and where they are in its record."""


def as_csv(results: Mapping[str, Any]) -> str:
    """One line a point, or one for each of its milestones."""
    points = results["points"]
    varied = list(results["vary"])
    measurements = list(dict.fromkeys(name for point in points for name in point["figures"]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = [*varied, "seed", "status", "reason", "folder", "parameters", "calls", "step"]
    tail = [f"{name}{part}" for name in measurements for part in _COLUMNS_OF]
    writer.writerow(map(_not_a_formula, [*head, *tail]))
    for point in points:
        shared = [point["values"][key] for key in varied]
        shared += [point[key] for key in head[len(varied) : -1]]
        for judged in point.get("milestones") or [point]:
            row = [*shared, judged["step"]]
            for name in measurements:
                measurement = judged["figures"].get(name, {})
                row += [measurement.get(key) for key in _COLUMNS_OF.values()]
            writer.writerow(["" if value is None else _not_a_formula(value) for value in row])
    return text.getvalue()


def _not_a_formula(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula, with the apostrophe that prevents it."""
    if not isinstance(value, str) or value[:1] not in tuple("=+-@\t\r"):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
