"""Plots of frontiers as SVG, drawn on Figure objects: no global plotting state, no display."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elbowroom.files import write_atomically

if TYPE_CHECKING:
    from .frontiers import Frontier, Line, Panel, Spot
    from .results import Results

_COLOURS = ("#1f6fb2", "#d1661a", "#2f8f5b", "#9a4fb0", "#b8960b", "#c43d5c", "#17889a", "#6b6459")
_INK = "#1f1e1b"
_MARKERS = "osD^vPX*"
_WIDE_RANGE = 12  # beyond this ratio an axis is logarithmic
_IN_A_ROW = 3  # panels
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "elbowroom", "font.size": 9.0}
"""Text stays text, and the same results give the same file."""


def write_frontiers(results: Results) -> dict[str, Path]:
    """Write ``frontier-COST.svg`` for each compared cost; none without matplotlib."""
    paths: dict[str, Path] = {}
    if find_spec("matplotlib") is None:
        return paths
    for one in results.frontiers:
        path = results.out / f"frontier-{one.cost}.svg"
        write_atomically(path, draw(one))
        paths[path.name] = path
    return paths


def draw(frontier: Frontier) -> bytes:
    """The plot as SVG: a panel for each measurement."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels = frontier.panels
    columns = min(len(panels), _IN_A_ROW)
    rows = -(-len(panels) // columns)
    with rc_context(_STYLE):
        figure = Figure(figsize=(0.4 + 3.4 * columns, 0.6 + 2.7 * rows), layout="constrained")
        places = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, panel in zip(places, panels, strict=False):
            _panel(axes, panel, frontier.title)
        for axes in places[len(panels) :]:
            axes.remove()
        _legend(figure, places[0])
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None})
        return content.getvalue()


def _panel(axes: Any, panel: Panel, cost: str) -> None:
    for k, line in enumerate(panel.lines):
        _line(axes, line, _COLOURS[k % 8], _MARKERS[k // 8 % 8])
    spots = [spot for line in panel.lines for spot in line.points]
    _staircase(axes, panel.frontier, max(spot.cost for spot in spots))
    _scale(axes.xaxis, axes.set_xscale, [spot.cost for spot in spots])
    _scale(axes.yaxis, axes.set_yscale, [spot.value for spot in spots])
    axes.set_xlabel(cost)
    axes.set_ylabel(f"{panel.title} ({panel.better} is better)").set_parse_math(False)
    axes.grid(color="#e4e0d7", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _staircase(axes: Any, front: Sequence[Spot], end: float) -> None:
    """Draw the frontier, constant between measured costs."""
    if not front:
        return
    x, y = [spot.cost for spot in front], [spot.value for spot in front]
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
    """Use a logarithmic axis for a wide range, with ticks like 20, 50, 100, 2k."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    if min(values) > 0 and max(values) / min(values) > _WIDE_RANGE:
        set_scale("log")
        decades = math.log10(max(values) / min(values))
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 3 else (1,)))
        axis.set_minor_formatter(NullFormatter())
    if min(values) > 0 and max(values) >= 1:
        axis.set_major_formatter(EngFormatter(sep=""))


def _line(axes: Any, line: Line, colour: str, marker: str) -> None:
    """Draw the points of a line with error bars; vacuous ones unfilled."""
    x, y = [spot.cost for spot in line.points], [spot.value for spot in line.points]
    errors = [spot.standard_error or 0.0 for spot in line.points]
    bars = errors if any(errors) else None
    axes.errorbar(x, y, bars, color=colour, lw=1.4, elinewidth=0.8, capsize=2, zorder=2)
    for vacuous in (False, True):
        some = [k for k, spot in enumerate(line.points) if spot.vacuous == vacuous]
        fill = "white" if vacuous else colour
        at = ([x[k] for k in some], [y[k] for k in some])
        axes.plot(*at, marker, color=colour, mfc=fill, ms=5, zorder=3)
    axes.plot([], [], f"{marker}-", color=colour, ms=5, label=f" {line.label}")


def _legend(figure: Any, axes: Any) -> None:
    """Draw the legend below all panels; labels are plain text."""
    made = figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    for text in made.get_texts():
        text.set_parse_math(False)
