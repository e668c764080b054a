"""The table of figures, each with what it is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..results import (
    best_of,
    column_of,
    condition_of,
    floor_of,
    knows_nothing_of,
    knows_nothing_words,
    shown_figures,
)
from .markup import Markup, joined, tag
from .parts import number, section, swatch, value_cell


def figures_section(results: Mapping[str, Any]) -> Markup:
    """The table."""
    names, best = shown_figures(results), best_of(results)
    head = [tag("th", "model", scope="col")]
    for name, title in names.items():
        way = {"lower": " ↓", "higher": " ↑"}.get(_way(results, name) or "", "")
        head.append(tag("th", title, tag("span", way, class_="way"), scope="col"))
    columns = {name: column_of(results, name) for name in names}
    rows = []
    for k, group in enumerate(results["groups"]):
        cells = [
            value_cell(column, group["figures"].get(name), is_best=best.get(name) == k)
            for name, column in columns.items()
        ]
        rows.append(tag("tr", tag("th", _name(k, group), scope="row"), cells))
    for title, of in (("real data", floor_of), (knows_nothing_words(results), knows_nothing_of)):
        said = {name: of(results, name) for name in names}
        if any(value is not None for value in said.values()):
            cells = [tag("td", "" if v is None else columns[n].plain(v)) for n, v in said.items()]
            rows.append(tag("tr", tag("th", title, scope="row"), cells, class_="floor"))
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), id="results")
    return section("Figures", "figures", tag("div", table, class_="scroll"), _notes(results, names))


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
    return joined(swatch(k), tag("span", group["label"], class_="label"), badge, missing)


def _notes(results: Mapping[str, Any], names: Mapping[str, str]) -> Markup:
    seeds, asked = len(results["seeds"]), results["protocol"]
    spread = f"the standard deviation over {seeds} seeds"
    if seeds == 1:
        spread = "the standard error of the figure itself; there is one seed"
    lines = [
        f"± is {spread}. “Real data” is the same figure with the test split in the samples' place: "
        "the floor of FID and KID, the ceiling of IS. “Knows nothing” is a model to which every "
        "value is equally likely: what is worse is vacuous, and to be better than it no merit. ",
        f"Every run: EMA weights of the {asked['checkpoint']} checkpoint, {asked['samples']} "
        f"samples, seed {asked['seed']}. ",
        f"{condition[0].upper()}{condition[1:]}. " if (condition := condition_of(results)) else "",
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
        f"{key.replace('_', ' ')}: {number(v) if isinstance(v, float) else v}"
        for key, v in of.items()
        if v is not None
    )
