"""What every model does better or worse than the first, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..decimals import Column
from ..results import shown_figures
from .markup import Markup, joined, tag
from .parts import section, swatch


def differences_section(results: Mapping[str, Any]) -> Markup | None:
    """The table of differences, if there are seeds to compare."""
    found = results["differences"]
    if found is None:
        return None
    names = {
        name: title
        for name, title in shown_figures(results).items()
        if any(name in group for group in found["groups"])
    }
    columns = {name: Column.of(group.get(name) for group in found["groups"]) for name in names}
    rows = [
        tag(
            "tr",
            tag("th", joined(swatch(k), tag("span", group["label"], class_="label")), scope="row"),
            [_cell(column, differing.get(name)) for name, column in columns.items()],
        )
        for k, (group, differing) in enumerate(zip(results["groups"], found["groups"], strict=True))
        if differing
    ]
    head = [tag("th", title, scope="col") for title in ("model", *names.values())]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows))
    return section(
        f"Difference to {found['to']}, seed by seed",
        "differences",
        tag("div", table, class_="scroll"),
        lead="As far as their configs agree, runs of one seed see the same examples in the same "
        "order and draw their samples from the same noise: what the seed does to both drops out "
        "of their difference. ± is its standard deviation over seeds. Bold: all seeds agree on the "
        "sign; coloured: and it is for the better. Neither where one of the two is vacuous.",
    )


def _cell(column: Column, figure: Mapping[str, Any] | None) -> Markup:
    if figure is None:
        return tag("td", "–", class_="none")
    sure = figure["all_agree"] and not figure.get("vacuous")
    return tag(
        "td",
        tag("b" if sure else "span", column.signed(figure["mean"])),
        tag("small", f"± {column.plain(figure['sd'])}"),
        class_="best" if sure and figure["for_the_better"] else None,
    )
