"""The page: templates, filled from the results.

All text is escaped unless it is a template's own.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import metadata, resources
from pathlib import Path

from elbowroom.files import write_atomically
from jinja2 import Environment, FunctionLoader, StrictUndefined

from ..results import Results
from ..tables import (
    amount,
    columns,
    condition_of,
    difference_columns,
    error_words,
    reference_rows,
    samples_words,
)
from .curves import curves
from .samples import frontier_images, samples, texts
from .weightings import weightings


def write_report(results: Results) -> Path:
    """Write ``report.html`` to the comparison's folder."""
    path = results.out / "report.html"
    write_atomically(path, page(results).encode())
    return path


def page(results: Results) -> str:
    """The whole page; images are read from the run folders."""
    script = _text("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # nothing is fetched, and no script runs but ours
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    shown = columns(results)
    return (
        templates()
        .get_template("page.html")
        .render(
            results=results,
            version=metadata.version("elbowroom"),
            policy=policy,
            style=_text("style.css"),
            script=script,
            title=_title(results),
            summary=_summary(results),
            columns=shown,
            references=reference_rows(results, shown),
            condition=condition_of(results),
            error_words=error_words(results),
            samples_words=samples_words(results),
            difference_columns=difference_columns(results),
            unfinished=unfinished(results),
            samples=samples(results),
            texts=texts(results),
            curves=curves(results),
            frontiers=frontier_images(results),
            weightings=weightings(results),
            equal=", ".join(f"{k} {amount(v)}" for k, v in results.budgets.same.items()),
            every=columns(results, every=True),
            skipped={
                name: why
                for point in results.points
                if point.evaluated
                for name, why in point.evaluated.skipped.items()
            },
        )
    )


def templates() -> Environment:
    """The templates in this folder; an undefined name in them is an error."""
    made = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["amount"] = amount
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return made


def _text(name: str) -> str:
    return resources.files("elbowroom.plugins.compare.report").joinpath(name).read_text("utf-8")


def _title(results: Results) -> str:
    varied = [key.replace("_", " ") for key in results.vary]
    if not varied:
        return results.source
    return f"{' × '.join(varied).capitalize()}, on {results.source}"


def _summary(results: Results) -> list[str]:
    seeds = len(results.seeds)
    done = sum(point.status == "finished" for point in results.points)
    return [
        *map(str, results.data),
        f"{len(results.models)} models",
        f"{seeds} seed{'s' if seeds > 1 else ''} each",
        f"{done} of {len(results.points)} runs finished",
        f"{samples_words(results)} of each run",
    ]


def unfinished(results: Results) -> list[tuple[str, str]]:
    """(run, problem) of points that did not finish, and of metrics that failed."""
    ended, failed = [], []
    for point in results.points:
        if point.status != "finished":
            why = f": {point.reason}" if point.reason else ""
            ended.append((point.title, f"{point.status}{why}"))
        metrics = point.evaluated.failed if point.evaluated else {}
        failed += [(point.title, f"{name} failed: {why}") for name, why in metrics.items()]
    return ended + failed
