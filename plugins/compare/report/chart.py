"""Line charts in pixels; a template makes them SVG, the page's style colours them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 48, 20, 26, 34
_WIDE_RANGE = 12  # beyond this ratio an axis may be logarithmic
_DECADES = 4  # that such an axis shows, from the top


@attrs.frozen
class Series:
    """A line."""

    label: str
    colour: int  # which of the page's colours
    x: Sequence[float]
    y: Sequence[float | None]
    dots: bool = False  # few values: show each
    band: Sequence[float] | None = None  # half its width at each value


@attrs.frozen
class Axis:
    """A range of values and how it maps onto pixels."""

    low: float
    high: float
    logarithmic: bool
    start: float  # pixel of ``low``
    end: float

    @classmethod
    def over(
        cls, values: Sequence[float], start: float, end: float, *, may_bend: bool = False
    ) -> Axis:
        """The axis that shows all values; with ``may_bend`` logarithmic for a wide range."""
        low, high = min(values), max(values)
        bent = may_bend and low > 0 and high / low > _WIDE_RANGE
        if low == high:
            low, high = low - 0.5, high + 0.5
        elif bent:
            low = max(low, high * 10.0**-_DECADES)
        return cls(low, high, bent, start, end)

    def with_room(self) -> Axis:
        """The same with a margin, from zero where that is near."""
        if self.logarithmic:
            return self
        margin = 0.05 * (self.high - self.low)
        near_zero = 0 <= self.low < 0.3 * self.high
        return attrs.evolve(
            self, low=0.0 if near_zero else self.low - margin, high=self.high + margin
        )

    def place(self, value: float) -> float:
        """The pixel of a value."""
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def clipped(self, value: float) -> float:
        """The pixel of a value, clipped to the axis."""
        return self.place(min(max(value, self.low), self.high))

    def holds(self, value: float | None) -> bool:
        """Can the value be drawn?"""
        if value is None or not math.isfinite(value):
            return False
        return not self.logarithmic or value >= self.low

    def ticks(self) -> list[float]:
        """Round values along the axis."""
        return _log_ticks(self.low, self.high) if self.logarithmic else _ticks(self.low, self.high)


def _ticks(low: float, high: float, count: int = 5) -> list[float]:
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    found = [m * 10.0**k for k in decades for m in steps]
    return [value for value in found if low * 0.999 <= value <= high * 1.001]


def short(value: float) -> str:
    """A number on an axis."""
    if value == 0:
        return "0"
    if abs(value) >= 10_000:
        return f"{value / 1000:.4g}k"
    if abs(value) < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.4g}"


@attrs.frozen
class Line:
    """A series in pixels: polylines between gaps, dots where values are few, and its band."""

    colour: int
    polylines: Sequence[str]
    dots: Sequence[tuple[str, str]]
    band: str = ""

    @classmethod
    def of(cls, one: Series, x_axis: Axis, y_axis: Axis) -> Line:
        """The series on these axes."""
        runs: list[list[tuple[str, str]]] = [[]]
        for x, y in zip(one.x, one.y, strict=True):
            if y is not None and y_axis.holds(y):
                runs[-1].append((f"{x_axis.place(x):.1f}", f"{y_axis.place(y):.1f}"))
            elif runs[-1]:
                runs.append([])
        lines = [" ".join(",".join(place) for place in run) for run in runs if run]
        dots = [place for run in runs for place in run if one.dots or len(run) == 1]
        return cls(one.colour, lines, dots, _band(one, x_axis, y_axis))


def _band(one: Series, x_axis: Axis, y_axis: Axis) -> str:
    """The polygon around a line: its upper edge, then its lower edge backwards."""
    wide = [
        (f"{x_axis.place(x):.1f}", y - half, y + half)
        for x, y, half in zip(one.x, one.y, one.band or (), strict=one.band is not None)
        if y is not None and y_axis.holds(y)
    ]
    upper = [f"{x},{y_axis.clipped(top):.1f}" for x, _, top in wide]
    lower = [f"{x},{y_axis.clipped(low):.1f}" for x, low, _ in reversed(wide)]
    return " ".join(upper + lower)


@attrs.frozen
class Chart:
    """Lines between two axes."""

    title: str
    x_title: str
    y_title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def x_ticks(self) -> list[tuple[str, str]]:
        """(pixel, text)."""
        return [(f"{self.x.place(value):.1f}", short(value)) for value in self.x.ticks()]

    @property
    def y_ticks(self) -> list[tuple[str, str]]:
        """(pixel, text)."""
        return [(f"{self.y.place(value):.1f}", short(value)) for value in self.y.ticks()]


def chart(
    title: str, x_title: str, y_title: str, series: Sequence[Series], *, may_bend: bool = True
) -> Chart | None:
    """A chart of lines; None where there is nothing to draw.

    With ``may_bend`` the vertical axis is logarithmic for a wide range of values.
    """
    drawn = [one for one in series if any(value is not None for value in one.y)]
    xs = [x for one in drawn for x in one.x]
    ys = [y for one in drawn for y in one.y if y is not None and math.isfinite(y)]
    positive = [y for y in ys if y > 0]
    if not xs or not ys:
        return None
    # empty bins are zero, which does not prevent a logarithmic axis
    usable = positive if len(positive) > 0.5 * len(ys) and min(ys) >= 0 else ys
    x_axis = Axis.over(xs, LEFT, WIDTH - RIGHT)
    y_axis = Axis.over(usable, HEIGHT - BOTTOM, TOP, may_bend=may_bend).with_room()
    bent = " (log)" if y_axis.logarithmic else ""
    lines = [Line.of(one, x_axis, y_axis) for one in drawn]
    return Chart(title, x_title, y_title + bent, x_axis, y_axis, lines)
