"""The table of measurements: columns, decimals, the best model, reference rows and notes.

Terminal, report, LaTeX and Markdown show the same columns. Decimals of a column are

    1 - floor(log10 s),      s the median standard error: two of its digits are shown

or, without standard errors, three digits of the median value, floors included.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from elbowroom import Display

from .differences import leads
from .errors import EVALUATION
from .results import Results, Summary

_MOST = 6  # decimals


@attrs.frozen(kw_only=True)
class Column:
    """A measurement of all models."""

    name: str
    title: str
    decimals: int
    arrow: str = ""  # direction of better values
    best: int | None = None  # the model that is best, beyond noise
    protocol: str = ""
    floor: str = ""  # value of real data
    baseline: str = ""  # value of the uniform distribution

    def value(self, one: Summary | None) -> str | None:
        """The mean; None where there is none."""
        return None if one is None or one.mean is None else self.plain(one.mean)

    def error(self, one: Summary) -> str | None:
        """The standard error; None where it is not known."""
        return None if one.standard_error is None else self.plain(one.standard_error)

    def plain(self, value: float) -> str:
        """A number with the column's decimals."""
        return f"{value:.{self.decimals}f}"

    def signed(self, value: float) -> str:
        """A difference with the column's decimals."""
        return f"{value:+.{self.decimals}f}"


def decimals(values: Iterable[float | None], errors: Iterable[float | None]) -> int:
    """Decimals of a column with these values and standard errors."""
    known = [error for error in errors if error]
    if known:
        return _clipped(1 - math.floor(math.log10(statistics.median(known))))
    sizes = [abs(value) for value in values if value]
    return _clipped(2 - math.floor(math.log10(statistics.median(sizes)))) if sizes else 0


def _clipped(count: int) -> int:
    return min(max(count, 0), _MOST)


def columns(results: Results, *, narrow: bool = False, every: bool = False) -> list[Column]:
    """The columns of the table; fewer for a narrow one, or every measurement."""
    shown = shown_measurements(results, narrow=narrow)
    best = {name: k for name, k in best_of(results).items() if leads(results.models, name, k)}
    names = dict.fromkeys(n for model in results.models for n in model.measurements)
    return [_column(results, name, best.get(name)) for name in names if every or name in shown]


def _column(results: Results, name: str, best: int | None) -> Column:
    summaries = _of(results, name)
    there = [one for one in summaries if one.mean is not None]
    places = decimals(
        [value for one in there for value in (one.mean, one.floor)],
        [one.standard_error for one in there],
    )
    floor = next((one.floor for one in summaries if one.floor is not None), None)
    uniform = baseline_of(results, name)
    better = summaries[0].better
    return Column(
        name=name,
        title=heading_of(results, name),
        decimals=places,
        arrow="" if better is None else {"lower": " ↓", "higher": " ↑"}[better],
        best=best,
        protocol=_protocol(summaries),
        floor="" if floor is None else f"{floor:.{places}f}",
        baseline="" if uniform is None else f"{uniform:.{places}f}",
    )


def difference_columns(results: Results) -> list[Column]:
    """The columns of differences to the first model; none without seeds to compare."""
    if results.differences is None:
        return []
    found = []
    for name in shown_measurements(results):
        of = [model[name] for model in results.differences.models if name in model]
        if of:
            places = decimals([one.mean for one in of], [one.standard_error for one in of])
            found.append(Column(name=name, title=heading_of(results, name), decimals=places))
    return found


def reference_rows(results: Results, shown: Sequence[Column]) -> list[tuple[str, list[str]]]:
    """Rows below the models: real data, and the uniform baseline."""
    baselines = dict.fromkeys(
        one.of["uniform_baseline"]
        for model in results.models
        for one in model.measurements.values()
        if "uniform_baseline" in one.of
    )
    title = ": ".join(["uniform baseline", *([", ".join(baselines)] if baselines else [])])
    rows = [
        ("real data", [column.floor for column in shown]),
        (title, [column.baseline for column in shown]),
    ]
    return [(title, cells) for title, cells in rows if any(cells)]


# -- measurements


def shown_measurements(results: Results, *, narrow: bool = False) -> dict[str, str]:
    """The measurements that make columns, with their titles; fewer for a narrow table."""
    wanted = ("always",) if narrow else ("always", "report")
    names = dict.fromkeys(name for model in results.models for name in model.measurements)
    shown = {name: _display(results, name) for name in names}
    return {name: one.title for name, one in shown.items() if one.shown in wanted}


def heading_of(results: Results, name: str) -> str:
    """Title with features and number of samples, where these are the same for all models."""
    headings = {one.heading for one in _of(results, name)}
    return (headings.pop() if len(headings) == 1 else "") or _display(results, name).title


def is_ranked(results: Results, name: str) -> bool:
    """Are models compared by this measurement?"""
    directions = {one.better for one in _of(results, name)}
    return len(directions) == 1 and None not in directions and _display(results, name).ranked


def best_of(results: Results) -> dict[str, int]:
    """Measurement -> the best model; vacuous measurements are not ranked."""
    best = {}
    for name in shown_measurements(results):
        means = {
            k: one.mean
            for k, model in enumerate(results.models)
            if (one := model.measurements.get(name)) and one.mean is not None and not one.vacuous
        }
        if len(means) > 1 and is_ranked(results, name):
            choose = min if _of(results, name)[0].better == "lower" else max
            best[name] = choose(means, key=lambda k: means[k])  # used at once
    return best


def baseline_of(results: Results, name: str) -> float | None:
    """The uniform baseline of a measurement; None where models differ in it."""
    found = {one.uniform_baseline for one in _of(results, name)} - {None}
    return found.pop() if len(found) == 1 else None


def _of(results: Results, name: str) -> list[Summary]:
    return [model.measurements[name] for model in results.models if name in model.measurements]


def _display(results: Results, name: str) -> Display:
    return results.display.get(name) or Display(name)


def _protocol(summaries: Sequence[Summary]) -> str:
    of = next((one.of for one in reversed(summaries) if one.of), {})
    return ", ".join(
        f"{key.replace('_', ' ')}: {number(v) if isinstance(v, float) else v}"
        for key, v in of.items()
        if v is not None
    )


# -- notes


def legend(results: Results) -> str:
    """The notes of a table: the meaning of ± and †, and the protocol of all measurements."""
    condition = condition_of(results)
    error = f"±: {error_words(results)}" + (f"; {condition}" if condition else "")
    marked = any(one.vacuous for model in results.models for one in model.measurements.values())
    vacuous = "; †: vacuous, worse than the uniform baseline" if marked else ""
    return (
        f"{error}{vacuous}; {samples_words(results)}, EMA weights of the "
        f"{results.protocol['checkpoint']} checkpoint; real data: test split in place of samples"
    )


def condition_of(results: Results) -> str:
    """What measurements are conditioned on: ``bits/dim are given the label``; else empty."""
    words = []
    for name, title in shown_measurements(results).items():
        if given := {one.of["given"] for one in _of(results, name) if one.of.get("given")}:
            words.append(f"{title} are given {' or '.join(sorted(given))}")
    return ", ".join(words)


def samples_words(results: Results) -> str:
    """``1000 samples, seed 0``, or ``3 × 1000 samples, seeds 0 to 2``."""
    protocol = results.protocol
    count, first, seeds = protocol["samples"], protocol["seed"], protocol.get("sample_seeds", 1)
    if seeds == 1:
        return f"{count} samples, seed {first}"
    return f"{seeds} × {count} samples, seeds {first} to {first + seeds - 1}"


def error_words(results: Results) -> str:
    """The sources of noise in ±."""
    seeds, samples = len(results.seeds), results.protocol.get("sample_seeds", 1)
    drawn = f"{samples} sample seeds" if samples > 1 else "other samples"
    noise = f"({drawn} with the same reference, for bits/dim other examples and noise)"
    if seeds > 1:
        words = f"standard error over {seeds} training seeds and of the evaluation {noise}"
    else:
        words = f"standard error of the evaluation {noise}; not of other training seeds"
    without = [
        title
        for name, title in shown_measurements(results).items()
        if any(
            one.standard_error is not None and EVALUATION not in one.error_includes
            for one in _of(results, name)
        )
    ]
    return words + (f"; without the error of the evaluation: {', '.join(without)}" * bool(without))


def amount(value: Any) -> str:
    """A budget as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """A number with four significant digits."""
    return "0" if value == 0 else f"{value:.{2 if abs(value) < 1e-3 else 4}g}"
