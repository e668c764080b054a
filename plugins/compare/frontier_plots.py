"""Plots of frontiers, as SVG and PNG: the report shows the SVG, a paper can have either.

Drawn on Figure objects directly: no global plotting state, no display.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from elbowroom.files import write_atomically

_COLOURS = ("#1f6fb2", "#d1661a", "#2f8f5b", "#9a4fb0", "#b8960b", "#c43d5c", "#17889a", "#6b6459")
_INK = "#1f1e1b"
_MARKERS = "osD^vPX*"
_WIDE_RANGE = 12  # beyond this ratio an axis is logarithmic
_IN_A_ROW = 3  # panels
_LIKE: Any = {"svg.fonttype": "none", "svg.hashsalt": "elbowroom", "font.size": 9.0}
"""Text stays text, and the same results give the same file."""


def write_frontiers(results: Mapping[str, Any], out: Path) -> dict[str, Path]:
    """``frontier-COST.svg`` and ``.png`` for each cost; none without matplotlib."""
    paths: dict[str, Path] = {}
    if find_spec("matplotlib") is None:
        return paths
    for one in results.get("frontiers", ()):
        for form, content in drawn(one).items():
            path = out / f"frontier-{one['cost']}.{form}"
            write_atomically(path, content)
            paths[path.name] = path
    return paths


def drawn(frontier: Mapping[str, Any]) -> dict[str, bytes]:
    """The plot in each form: a panel for each measurement."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels = frontier["panels"]
    columns = min(len(panels), _IN_A_ROW)
    rows = -(-len(panels) // columns)
    with rc_context(_LIKE):
        figure = Figure(figsize=(0.4 + 3.4 * columns, 0.6 + 2.7 * rows), layout="constrained")
        places = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, panel in zip(places, panels, strict=False):
            _panel(axes, panel, frontier["title"])
        for axes in places[len(panels) :]:
            axes.remove()
        _legend(figure, places[0])
        return {form: _saved(figure, form) for form in ("svg", "png")}


def _panel(axes: Any, panel: Mapping[str, Any], cost: str) -> None:
    for k, line in enumerate(panel["lines"]):
        _line(axes, line, _COLOURS[k % 8], _MARKERS[k // 8 % 8])
    spots = [spot for line in panel["lines"] for spot in line["points"]]
    _staircase(axes, panel["frontier"], max(spot["cost"] for spot in spots))
    _scale(axes.xaxis, axes.set_xscale, [spot["cost"] for spot in spots])
    _scale(axes.yaxis, axes.set_yscale, [spot["value"] for spot in spots])
    way = {"lower": "lower is better", "higher": "higher is better"}[panel["better"]]
    axes.set_xlabel(cost)
    axes.set_ylabel(f"{panel['title']} ({way})").set_parse_math(False)
    axes.grid(color="#e4e0d7", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _staircase(axes: Any, front: Sequence[Mapping[str, Any]], end: float) -> None:
    """The frontier: what is to be had for a cost is known where it was measured, and beyond."""
    if not front:
        return
    x, y = [spot["cost"] for spot in front], [spot["value"] for spot in front]
    axes.plot(x, y, "o", mfc="none", mec=_INK, mew=0.9, ms=9, zorder=4)
    axes.step(
        [*x, end],
        [*y, y[-1]],
        where="post",
        color=_INK,
        lw=1,
        ls=(0, (4, 3)),
        zorder=1,
        label="frontier",
    )


def _scale(axis: Any, set_scale: Any, values: Sequence[float]) -> None:
    """Logarithmic where values range widely, with numbers that can be read: 20, 50, 100, 2k."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    if min(values) > 0 and max(values) / min(values) > _WIDE_RANGE:
        set_scale("log")
        decades = math.log10(max(values) / min(values))
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 3 else (1,)))
        axis.set_minor_formatter(NullFormatter())
    if min(values) > 0 and max(values) >= 1:
        axis.set_major_formatter(EngFormatter(sep=""))


def _line(axes: Any, line: Mapping[str, Any], colour: str, marker: str) -> None:
    """The points of a line with their spread; hollow where they are vacuous."""
    spots: Sequence[Mapping[str, Any]] = line["points"]
    x, y = [spot["cost"] for spot in spots], [spot["value"] for spot in spots]
    spread = [spot["spread"] or 0.0 for spot in spots]
    bars = spread if any(spread) else None
    axes.errorbar(x, y, bars, color=colour, lw=1.4, elinewidth=0.8, capsize=2, zorder=2)
    for hollow in (False, True):
        some = [k for k, spot in enumerate(spots) if spot["vacuous"] == hollow]
        axes.plot(
            [x[k] for k in some],
            [y[k] for k in some],
            marker,
            color=colour,
            mfc="white" if hollow else colour,
            ms=5,
            zorder=3,
        )
    axes.plot([], [], f"{marker}-", color=colour, ms=5, label=f" {line['label']}")


def _legend(figure: Any, axes: Any) -> None:
    """Below all panels; names are text, whatever they hold."""
    made = figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    for text in made.get_texts():
        text.set_parse_math(False)


def _saved(figure: Any, form: str) -> bytes:
    content = io.BytesIO()
    about = {"Date": None} if form == "svg" else {"Software": None}
    figure.savefig(content, format=form, dpi=200, metadata=about)
    return content.getvalue()
