"""The page itself: sections from top to bottom."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from elbowroom import write_atomically

from .curves import curves_section
from .differences import differences_section
from .facts import budgets_section, details_section, paper_section, runs_section, unfinished_section
from .figures import figures_section
from .markup import Markup, joined, tag
from .samples import samples_section
from .weightings import weightings_section


def write_report(results: Mapping[str, Any], out: Path) -> Path:
    """Write ``report.html`` beside the results."""
    path = out / "report.html"
    write_atomically(path, page(results, out).encode())
    return path


def page(results: Mapping[str, Any], out: Path) -> str:
    """The whole page; pictures are looked for in the run folders under ``out``."""
    style = (
        resources.files("elbowroom.plugins.compare.report").joinpath("style.css").read_text("utf-8")
    )
    script = (
        resources.files("elbowroom.plugins.compare.report").joinpath("script.js").read_text("utf-8")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # nothing may be fetched, and no script runs but ours, whatever a config's values say
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    curves, data = curves_section(results)
    body = joined(
        _header(results),
        tag(
            "main",
            figures_section(results),
            differences_section(results),
            unfinished_section(results),
            samples_section(results, out),
            curves,
            weightings_section(results),
            budgets_section(results),
            paper_section(results),
            details_section(results),
            runs_section(results),
        ),
        tag("footer", tag("p", f"elbowroom {results['elbowroom']}")),
        tag("div", id="tip", hidden=True, role="status"),
    )
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", results["title"]),
        tag("style", Markup(style)),
    )
    values = Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))
    scripts = joined(
        tag("script", values, type="application/json", id="curves"), tag("script", Markup(script))
    )
    return "<!doctype html>\n" + tag(
        "html", tag("head", head), tag("body", body, scripts), lang="en"
    )


def _header(results: Mapping[str, Any]) -> Markup:
    points = results["points"]
    done = sum(point["status"] == "finished" for point in points)
    seeds = len(results["seeds"])
    asked = results["protocol"]
    data = (results["budgets"]["same"].get("data") or "").split(",")[0]
    words = [
        *([f"data: {data}"] if data else []),
        f"{len(results['groups'])} models",
        f"{seeds} seed{'s' if seeds > 1 else ''} each",
        f"{done} of {len(points)} runs finished",
        f"{asked['samples']} samples a run",
    ]
    return tag(
        "header",
        tag("p", "elbowroom · comparison", class_="eyebrow"),
        tag("h1", _title(results)),
        tag("p", " · ".join(words), class_="summary"),
    )


def _title(results: Mapping[str, Any]) -> str:
    varied = [key.replace("_", " ") for key in results["vary"]]
    if not varied:
        return f"{results['source']}"
    return f"{' × '.join(varied).capitalize()}, on {results['source']}"
