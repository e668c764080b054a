"""The files of a comparison: ``results.json``, and its tables as CSV, LaTeX and Markdown."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from elbowroom import ElbowroomError
from elbowroom.files import write_atomically

from .results import Results
from .typeset import FORMS


def write_results(results: Results) -> dict[str, Path]:
    """Write results.json, results.csv, results.tex and results.md; paths by ending."""
    try:
        results.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElbowroomError(f"cannot write to {results.out}: {error.strerror}") from error
    texts = {
        "results.json": json.dumps(results.record(), indent=1, allow_nan=False),
        "results.csv": as_csv(results),
        **{name: form(results) for name, form in FORMS.items()},
    }
    paths = {}
    for name, text in texts.items():
        path = paths[Path(name).suffix[1:]] = results.out / name
        write_atomically(path, text.encode())
    return paths


_COLUMNS = {
    "": "value",
    "_se": "standard_error",
    "_floor": "floor",
    "_uniform_baseline": "uniform_baseline",
    "_vacuous": "vacuous",
    "_heading": "heading",
}
"""Ending of a column's name -> key in the measurement's record."""


def as_csv(results: Results) -> str:
    """One line per point, or per milestone."""
    records = [point.record(results.out) for point in results.points]
    varied = list(results.vary)
    measurements = list(dict.fromkeys(name for record in records for name in record["figures"]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = [*varied, "seed", "status", "reason", "folder", "parameters", "calls", "step"]
    tail = [f"{name}{part}" for name in measurements for part in _COLUMNS]
    writer.writerow(map(_not_a_formula, [*head, *tail]))
    for record in records:
        shared = [record["values"][key] for key in varied]
        shared += [record[key] for key in head[len(varied) : -1]]
        for at in record["milestones"] or [record]:
            row = [*shared, at["step"]]
            for name in measurements:
                measurement = at["figures"].get(name, {})
                row += [measurement.get(key) for key in _COLUMNS.values()]
            writer.writerow(["" if value is None else _not_a_formula(value) for value in row])
    return text.getvalue()


def _not_a_formula(value: Any) -> Any:
    """Prefix text that a spreadsheet would read as a formula with an apostrophe."""
    if not isinstance(value, str) or value[:1] not in tuple("=+-@\t\r"):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
