"""What else is known: what failed, budgets, the paper's figures, every figure, every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..results import column_of, floor_of, paper_columns, title_of
from .markup import Markup, tag
from .parts import number, section, value_cell


def unfinished_section(results: Mapping[str, Any]) -> Markup | None:
    """What did not finish, and why."""
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
    rows += [
        tag("li", tag("b", f"{point['label']} · seed {point['seed']}"), f" {name} failed: {why}")
        for point in results["points"]
        for name, why in point.get("failed", {}).items()
    ]
    if not rows:
        return None
    return section("Not finished", "failed", tag("ul", rows, class_="failed"))


def budgets_section(results: Mapping[str, Any]) -> Markup:
    """What was equal for all, and what was not."""
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
    return section("Budgets", "budgets", tag("p", words), table, lead=f"Same for all: {equal}.")


def _plain(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)


def paper_section(results: Mapping[str, Any]) -> Markup | None:
    """The paper's figures beside ours, if they were asked for."""
    paper = results["paper"]
    if not paper:
        return None
    columns = paper_columns(results)
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
            ours = [value_cell(column, one[n], is_best=False) for n, column in columns.items()]
            rows.append(tag("tr", quoted, tag("td", one["label"], class_="word"), ours))
    head = [tag("th", title, scope="col") for title in titles]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows))
    return section(
        "Beside the paper",
        "paper",
        tag("div", table, class_="scroll"),
        lead=f"Left, quoted from the paper ({paper['setting']}); right, measured here on other "
        "data with other features: orders compare, values do not.",
    )


def details_section(results: Mapping[str, Any]) -> Markup | None:
    """Every figure of every group, those without a column too."""
    names = list(dict.fromkeys(n for group in results["groups"] for n in group["figures"]))
    if not names:
        return None
    head = [tag("th", "figure", scope="col")]
    head += [tag("th", group["label"], scope="col") for group in results["groups"]]
    head.append(tag("th", "real data", scope="col"))
    rows = []
    for name in names:
        column, floor = column_of(results, name), floor_of(results, name)
        cells = [
            value_cell(column, group["figures"].get(name), is_best=False)
            for group in results["groups"]
        ]
        cells.append(tag("td", "" if floor is None else column.plain(floor)))
        rows.append(tag("tr", tag("th", title_of(results, name), scope="row"), cells))
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows))
    skipped = {
        name: reason for point in results["points"] for name, reason in point["skipped"].items()
    }
    left_out = [tag("li", tag("b", name), " left out: ", why) for name, why in skipped.items()]
    return section(
        "Every figure",
        "details",
        tag("div", table, class_="scroll"),
        tag("ul", left_out) if left_out else None,
    )


def runs_section(results: Mapping[str, Any]) -> Markup:
    """The commands of every run."""
    rows = [
        tag(
            "details",
            tag("summary", f"{point['label']} · seed {point['seed']} — {point['status']}"),
            tag("p", point["folder"], class_="path"),
            tag("pre", " && \\\n  ".join(point["commands"])),
        )
        for point in results["points"]
    ]
    return section("Each run, by hand", "points", rows)
