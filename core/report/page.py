"""The page itself: sections from top to bottom."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..atomic import write_atomically
from ..results import COLUMNS, best_of, floor_of, shown_figures
from .chart import Series, chart
from .markup import Markup, joined, tag


def write_report(results: Mapping[str, Any], out: Path) -> Path:
    """Write ``report.html`` beside the results."""
    path = out / "report.html"
    write_atomically(path, page(results, out).encode())
    return path


def page(results: Mapping[str, Any], out: Path) -> str:
    """The whole page; pictures are looked for in the run folders under ``out``."""
    style = resources.files("elbowroom.report").joinpath("style.css").read_text("utf-8")
    script = resources.files("elbowroom.report").joinpath("script.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # nothing may be fetched, and no script runs but ours, whatever a config's values say
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    curves, data = _curves(results)
    body = joined(
        _header(results),
        tag(
            "main",
            _figures(results),
            _not_finished(results),
            _samples(results, out),
            curves,
            _weightings(results),
            _budgets(results),
            _paper(results),
            _details(results),
            _points(results),
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


def _section(title: str, identity: str, *children: Any, lead: Any = None) -> Markup:
    shown = tag("p", lead, class_="lead") if lead is not None else None
    return tag("section", tag("h2", title), shown, *children, id=identity)


# -- the head


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


# -- the table


def _figures(results: Mapping[str, Any]) -> Markup:
    names, best = shown_figures(results), best_of(results)
    head = [tag("th", "model", scope="col")]
    for name, title in names.items():
        way = {"lower": " ↓", "higher": " ↑"}.get(_way(results, name) or "", "")
        head.append(tag("th", title, tag("span", way, class_="way"), scope="col"))
    rows = []
    for k, group in enumerate(results["groups"]):
        cells = [_value(group["figures"].get(n), is_best=best.get(n) == k) for n in names]
        rows.append(tag("tr", tag("th", _name(k, group), scope="row"), cells))
    floors = [floor_of(results, name) for name in names]
    if any(floor is not None for floor in floors):
        cells = [tag("td", "" if f is None else _number(f)) for f in floors]
        rows.append(tag("tr", tag("th", "real data", scope="row"), cells, class_="floor"))
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), id="results")
    return _section(
        "Figures", "figures", tag("div", table, class_="scroll"), _notes(results, names)
    )


def _way(results: Mapping[str, Any], name: str) -> str | None:
    for group in results["groups"]:
        if name in group["figures"]:
            way: str | None = group["figures"][name]["better"]
            return way
    return None


def _name(k: int, group: Mapping[str, Any]) -> Markup:
    weighting = group["weighting"] or {}
    bound = weighting.get("is_bound")
    badge = None
    if bound is not None:
        words = "bound" if bound else "not a bound"
        kind = "badge yes" if bound else "badge no"
        badge = tag("span", words, class_=kind, title=weighting["verdict"])
    lost = len(group["points"]) - group["finished"]
    missing = tag("span", f"{lost} missing", class_="badge no") if lost else None
    return joined(_swatch(k), tag("span", group["label"], class_="label"), badge, missing)


def _swatch(k: int) -> Markup:
    return tag("i", class_=f"swatch c{k % 8} d{k // 8}", aria_hidden="true")


def _value(figure: Mapping[str, Any] | None, *, is_best: bool) -> Markup:
    if figure is None or figure["mean"] is None:
        return tag("td", "–", class_="none")
    spread = figure["sd"] if figure["sd"] is not None else figure["standard_error"]
    tail = tag("small", f"± {_number(spread, 2)}") if spread is not None else None
    shown = tag("b", _number(figure["mean"])) if is_best else tag("span", _number(figure["mean"]))
    return tag("td", shown, tail, class_="best" if is_best else None)


def _number(value: float, digits: int = 4) -> str:
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.{min(digits, 2)}g}"
    return f"{value:.{digits}g}"


def _notes(results: Mapping[str, Any], names: Mapping[str, str]) -> Markup:
    seeds, asked = len(results["seeds"]), results["protocol"]
    spread = f"the standard deviation over {seeds} seeds"
    if seeds == 1:
        spread = "the standard error of the figure itself; there is one seed"
    lines = [
        f"± is {spread}. “Real data” is the same figure with the test split in the samples' place: "
        "the floor of FID and KID, the ceiling of IS. ",
        f"Every run: EMA weights of the {asked['checkpoint']} checkpoint, {asked['samples']} "
        f"samples, seed {asked['seed']}. ",
    ]
    protocols = [
        tag("li", tag("b", title), " — ", _protocol(results, name)) for name, title in names.items()
    ]
    return tag(
        "div",
        tag("p", *lines),
        tag("details", tag("summary", "What each figure is of"), tag("ul", protocols)),
        class_="notes",
    )


def _protocol(results: Mapping[str, Any], name: str) -> str:
    of: Mapping[str, Any] = {}
    for group in results["groups"]:
        of = group["figures"].get(name, {}).get("of") or of
    return ", ".join(
        f"{key.replace('_', ' ')}: {_number(v) if isinstance(v, float) else v}"
        for key, v in of.items()
        if v is not None
    )


def _not_finished(results: Mapping[str, Any]) -> Markup | None:
    rows = [
        tag(
            "li",
            tag("b", f"{point['label']} · seed {point['seed']}"),
            f" {point['status']}",
            f": {point['reason']}" if point["reason"] else None,
        )
        for point in results["points"]
        if point["status"] != "finished"
    ]
    if not rows:
        return None
    return _section("Not finished", "failed", tag("ul", rows, class_="failed"))


# -- samples


def _samples(results: Mapping[str, Any], out: Path) -> Markup | None:
    by_name = {point["name"]: point for point in results["points"]}
    grids, reels, wide = [], [], True
    for k, group in enumerate(results["groups"]):
        point = by_name.get(group["shown"] or "")
        if point is None:
            continue
        folder = out / point["folder"] / "evaluation"
        grid, reel = _picture(folder / "samples.png"), _picture(folder / "reverse.png")
        size = point["reverse"]
        wide = wide and size["width"] > 1.5 * size["height"]
        caption = tag("figcaption", _swatch(k), group["label"])
        if grid:
            shape = f"aspect-ratio:{int(size['width'])}/{int(size['height'])}"
            words = f"samples of {group['label']}, seed {point['seed']}"
            image = tag("img", src=grid, alt=words, class_="grid", style=shape)
            grids.append(tag("figure", image, caption))
        if reel:
            reels.append(tag("figure", _reel(reel, size, group["label"]), caption))
    if not grids:
        return None
    cards = "cards" if wide else "cards square"
    slider = tag(
        "div",
        tag("button", "Play", id="play", type="button"),
        tag("span", "noise", class_="end"),
        tag(
            "input",
            id="time",
            type="range",
            min=0,
            max=1000,
            value=600,
            aria_label="how far from noise to data",
        ),
        tag("span", "data", class_="end"),
        class_="scrub",
    )
    return joined(
        _section(
            "Samples",
            "samples",
            tag("div", grids, class_=cards),
            lead="The first samples of one run of each model; those of all models have the same "
            "labels, and none was picked.",
        ),
        _section(
            "From noise to data",
            "reverse",
            slider,
            tag("div", reels, class_=cards),
            lead="The reverse process of the same samples. Hidden tokens are blue.",
        ),
    )


def _picture(path: Path) -> str | None:
    try:
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return None


def _reel(source: str, size: Mapping[str, Any], label: str) -> Markup:
    frames = int(size["frames"])
    style = (
        f"aspect-ratio:{int(size['width'])}/{int(size['height'])};"
        f"background-size:{frames * 100}% 100%;background-image:url({source})"
    )
    return tag(
        "div",
        class_="reel",
        role="img",
        aria_label=f"reverse process of {label}",
        style=style,
        data_frames=frames,
    )


# -- curves


_CHARTS = (
    (
        "loss",
        "Training loss",
        "step",
        "loss",
        "What each model minimises: weightings differ in scale, so shapes compare, heights do not.",
    ),
    (
        "bits_per_dim",
        "Validation bits/dim",
        "step",
        "bits/dim",
        "The ELBO on the validation split, EMA weights.",
    ),
    (
        "train_bits_per_dim",
        "Training bits/dim",
        "step",
        "bits/dim",
        "The ELBO's diffusion term on training batches.",
    ),
    (
        "elbo_by_level",
        "ELBO by level",
        "log-SNR λ",
        "bits/dim per unit of λ",
        "Where bits are lost: the area under a curve is its bits/dim. Last quarter of training.",
    ),
    (
        "loss_by_level",
        "Loss by level",
        "log-SNR λ",
        "loss, bits/dim per unit of λ",
        "The same with the weighting: where training looks. Last quarter of training.",
    ),
)


def _curves(results: Mapping[str, Any]) -> tuple[Markup | None, dict[str, Any]]:
    cards, data = [], {}
    for name, title, x_title, y_title, words in _CHARTS:
        series = [
            _series(k, group["label"], group["curves"][name])
            for k, group in enumerate(results["groups"])
            if group["curves"].get(name)
        ]
        drawn = chart(title, x_title, y_title, series, may_bend=name != "elbo_by_level")
        if drawn is None:
            continue
        data[name] = [[one.label, one.colour, list(one.x), list(one.y)] for one in series]
        caption = tag("figcaption", tag("b", title), tag("span", words))
        cards.append(tag("figure", caption, drawn, class_="chart", data_chart=name))
    if not cards:
        return None, data
    legend = [
        tag("button", _swatch(k), group["label"], type="button", data_series=k, aria_pressed="true")
        for k, group in enumerate(results["groups"])
        if group["finished"]
    ]
    several = " Means over seeds." if len(results["seeds"]) > 1 else ""
    shown = _section(
        "Curves",
        "curves-section",
        tag("div", legend, class_="legend"),
        tag("div", cards, class_="charts"),
        lead=f"Point at a chart to read it; press a name to hide its line.{several}",
    )
    return shown, data


def _series(k: int, label: str, curve: Sequence[Sequence[float]]) -> Series:
    x, y = curve
    return Series(label, k, x, y, dots=len(x) < 12)


# -- weightings


def _weightings(results: Mapping[str, Any]) -> Markup | None:
    cards, seen = [], []
    for group in results["groups"]:
        one = group["weighting"]
        key = None if one is None else (one["name"], one["process"], one["schedule"])
        if one is None or key in seen:
            continue
        seen.append(key)
        cards.append(_weighting(one))
    if not cards:
        return None
    return _section(
        "Weightings",
        "weightings",
        tag("div", cards, class_="cards small"),
        lead="w̃(t) against time, from data (left) to noise (right), each to its own height (cut at "
        "four times its median where it grows without bound). The objective is a variational bound "
        "exactly where w̃ never falls.",
    )


def _weighting(one: Mapping[str, Any]) -> Markup:
    title = tag(
        "figcaption",
        tag("b", one["name"]),
        tag("span", f"{one['process']}, {one['schedule']} schedule"),
        tag("span", one["options"]) if one["options"] else None,
    )
    if "shape" not in one:
        return tag("figure", title, tag("p", one["problem"], class_="verdict"), class_="weighting")
    badge = tag(
        "span",
        "bound" if one["is_bound"] else "not a bound",
        class_="badge yes" if one["is_bound"] else "badge no",
    )
    return tag(
        "figure",
        _shape(*one["shape"], is_bound=one["is_bound"]),
        title,
        tag("p", badge, " ", one["verdict"].partition(": ")[2], class_="verdict"),
        class_="weighting",
    )


def _shape(t: Sequence[float], w: Sequence[float | None], *, is_bound: bool) -> Markup:
    """A small filled curve without axes."""
    wide, high = 200, 90
    known = [(at, value) for at, value in zip(t, w, strict=True) if value is not None]
    ordered = sorted(value for _, value in known)
    top = min(ordered[-1], 4 * max(ordered[len(ordered) // 2], 1e-12)) or 1.0
    places = [
        (at * wide, high - 4 - min(max(value, 0.0) / top, 1.0) * (high - 10)) for at, value in known
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    area = f"M0,{high} L" + " L".join(f"{x:.1f},{y:.1f}" for x, y in places) + f" L{wide},{high} Z"
    return tag(
        "svg",
        tag("path", d=area, class_="area"),
        tag("polyline", points=line),
        viewBox=f"0 0 {wide} {high}",
        class_="shape yes" if is_bound else "shape no",
        role="img",
        aria_label="w over time",
        preserveAspectRatio="none",
    )


# -- budgets, the paper, details


def _budgets(results: Mapping[str, Any]) -> Markup:
    same, different = results["budgets"]["same"], results["budgets"]["different"]
    equal = ", ".join(f"{key} {_plain(value)}" for key, value in same.items())
    table = None
    if different:
        head = [tag("th", "", scope="col")]
        head += [tag("th", g["label"], scope="col") for g in results["groups"] if g["budget"]]
        rows = [
            tag(
                "tr",
                tag("th", key, scope="row"),
                [tag("td", "–" if value is None else _plain(value)) for value in said.values()],
            )
            for key, said in different.items()
        ]
        table = tag(
            "div", tag("table", tag("thead", tag("tr", head)), tag("tbody", rows)), class_="scroll"
        )
    words = "Budgets differ here:" if different else "All budgets are equal."
    return _section("Budgets", "budgets", tag("p", words), table, lead=f"Same for all: {equal}.")


def _plain(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return _number(value) if isinstance(value, float) else str(value)


def _paper(results: Mapping[str, Any]) -> Markup | None:
    paper = results["paper"]
    if not paper:
        return None
    titles = ("model", "weighting", "FID", "IS", "our model", "our FID, train", "our IS")
    rows = []
    for row in paper["rows"]:
        score = row["inception_score"]
        quoted = [
            tag("th", row["model"], scope="row"),
            tag("td", row["weighting"] or "–", class_="word"),
            tag("td", row["fid"]),
            tag("td", "–" if score is None else score),
        ]
        if not row["ours"]:
            rows.append(tag("tr", quoted, [tag("td", "–", class_="none")] * 3))
        for one in row["ours"]:
            ours = [_value(one["fid"], is_best=False), _value(one["is"], is_best=False)]
            rows.append(tag("tr", quoted, tag("td", one["label"], class_="word"), ours))
    head = [tag("th", title, scope="col") for title in titles]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows))
    return _section(
        "Beside the paper",
        "paper",
        tag("div", table, class_="scroll"),
        lead=f"Left, quoted from the paper ({paper['setting']}); right, measured here on other "
        "data with other features: orders compare, values do not.",
    )


def _details(results: Mapping[str, Any]) -> Markup | None:
    """Every figure of every group, those without a column too."""
    names = list(dict.fromkeys(n for group in results["groups"] for n in group["figures"]))
    if not names:
        return None
    head = [tag("th", "figure", scope="col")]
    head += [tag("th", group["label"], scope="col") for group in results["groups"]]
    head.append(tag("th", "real data", scope="col"))
    rows = []
    for name in names:
        cells = [_value(group["figures"].get(name), is_best=False) for group in results["groups"]]
        floor = floor_of(results, name)
        cells.append(tag("td", "" if floor is None else _number(floor)))
        rows.append(tag("tr", tag("th", COLUMNS.get(name, name), scope="row"), cells))
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows))
    skipped = {
        name: reason for point in results["points"] for name, reason in point["skipped"].items()
    }
    left_out = [tag("li", tag("b", name), " left out: ", why) for name, why in skipped.items()]
    return _section(
        "Every figure",
        "details",
        tag("div", table, class_="scroll"),
        tag("ul", left_out) if left_out else None,
    )


def _points(results: Mapping[str, Any]) -> Markup:
    rows = [
        tag(
            "details",
            tag("summary", f"{point['label']} · seed {point['seed']} — {point['status']}"),
            tag("p", point["folder"], class_="path"),
            tag("pre", " && \\\n  ".join(point["commands"])),
        )
        for point in results["points"]
    ]
    return _section("Each run, by hand", "points", rows)
