"""The page itself: templates, filled with what the results say.

Every text is escaped unless it is a template's own: names and values may be a stranger's.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from elbowroom.files import write_atomically
from jinja2 import Environment, FunctionLoader, StrictUndefined

from ..presentation import error_words, paper_columns, samples_words
from ..real_data import data_words
from .curves import curves
from .samples import frontier_cards, samples, texts
from .tables import amount, details, differences, measurements
from .weightings import weightings


def write_report(results: Mapping[str, Any], out: Path) -> Path:
    """Write ``report.html`` beside the results."""
    path = out / "report.html"
    write_atomically(path, page(results, out).encode())
    return path


def page(results: Mapping[str, Any], out: Path) -> str:
    """The whole page; pictures are looked for in the run folders under ``out``."""
    script = _text("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # nothing may be fetched, and no script runs but ours, whatever a config's values say
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    template = templates().get_template("page.html")
    return template.render(
        results=results,
        policy=policy,
        style=_text("style.css"),
        script=script,
        title=_title(results),
        summary=_summary(results),
        measurements=measurements(results),
        error_words=error_words(results),
        samples_words=samples_words(results["protocol"]),
        differences=differences(results),
        unfinished=unfinished(results),
        samples=samples(results, out),
        texts=texts(results),
        curves=curves(results),
        frontiers=frontier_cards(results, out),
        weightings=weightings(results),
        equal=", ".join(f"{k} {amount(v)}" for k, v in results["budgets"]["same"].items()),
        paper_columns=paper_columns(results),
        details=details(results),
        skipped={n: why for p in results["points"] for n, why in p["skipped"].items()},
    )


def templates() -> Environment:
    """The templates in this folder; a name that is not there is an error in them."""
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


def _title(results: Mapping[str, Any]) -> str:
    varied = [key.replace("_", " ") for key in results["vary"]]
    if not varied:
        return f"{results['source']}"
    return f"{' × '.join(varied).capitalize()}, on {results['source']}"


def _summary(results: Mapping[str, Any]) -> list[str]:
    points, seeds = results["points"], len(results["seeds"])
    done = sum(point["status"] == "finished" for point in points)
    return [
        *data_words(results.get("data", ())),
        f"{len(results['groups'])} models",
        f"{seeds} seed{'s' if seeds > 1 else ''} each",
        f"{done} of {len(points)} runs finished",
        f"{samples_words(results['protocol'])} of each run",
    ]


def unfinished(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(run, what is the matter with it) of what did not finish, and of metrics that failed."""
    ended, failed = [], []
    for point in results["points"]:
        run = f"{point['label']} · seed {point['seed']}"
        if point["status"] != "finished":
            why = f": {point['reason']}" if point["reason"] else ""
            ended.append((run, f"{point['status']}{why}"))
        failed += [(run, f"{n} failed: {why}") for n, why in point.get("failed", {}).items()]
    return ended + failed
