"""How a comparison's results are shown: titles, columns, decimals, which is best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elbowroom import Display

from .decimals import Column
from .errors import EVALUATION
from .paper_table import ours


def title_of(results: Mapping[str, Any], name: str) -> str:
    """A measurement's name for people."""
    return _display(results, name).title


def heading_of(results: Mapping[str, Any], name: str) -> str:
    """The same with its features and number of samples, where these are the same for all."""
    said = {group["figures"][name].get("heading") for group in _having(results, name)}
    return (said.pop() if len(said) == 1 else None) or title_of(results, name)


def _having(results: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [group for group in results["groups"] if name in group["figures"]]


def _display(results: Mapping[str, Any], name: str) -> Display:
    return Display(**results.get("display", {}).get(name, {"title": name}))


def shown_measurements(results: Mapping[str, Any], *, narrow: bool = False) -> dict[str, str]:
    """The measurements that make columns, with their titles; fewer where there is little room."""
    found = dict.fromkeys(name for group in results["groups"] for name in group["figures"])
    shown = {name: _display(results, name) for name in found}
    wanted = ("always",) if narrow else ("always", "report")
    return {name: one.title for name, one in shown.items() if one.shown in wanted}


def condition_of(results: Mapping[str, Any]) -> str:
    """What measurements are given, in words: ``bits/dim are given the label``; else empty."""
    words = []
    for name, title in shown_measurements(results).items():
        of = [group["figures"].get(name, {}).get("of", {}) for group in results["groups"]]
        if given := {one["given"] for one in of if one.get("given")}:
            words.append(f"{title} are given {' or '.join(sorted(given))}")
    return ", ".join(words)


def is_ranked(results: Mapping[str, Any], name: str) -> bool:
    """Is more or less of it better, and is that what models are compared by?"""
    ways = {g["figures"][name]["better"] for g in results["groups"] if name in g["figures"]}
    return len(ways) == 1 and None not in ways and _display(results, name).ranked


def best_of(results: Mapping[str, Any]) -> dict[str, int]:
    """Measurement -> the group that does best in it; none where they cannot be ranked.

    A vacuous measurement has no rank, and to be better than one is no merit.
    """
    best = {}
    for name in shown_measurements(results):
        said = {
            k: (group["figures"][name]["mean"], group["figures"][name]["better"])
            for k, group in enumerate(results["groups"])
            if name in group["figures"]
            and group["figures"][name]["mean"] is not None
            and not group["figures"][name].get("vacuous")
        }
        if len(said) > 1 and is_ranked(results, name):
            choose = min if {better for _, better in said.values()} == {"lower"} else max
            best[name] = choose(said, key=lambda k: said[k][0])
    return best


def column_of(results: Mapping[str, Any], name: str) -> Column:
    """How this measurement is written, the same for every group."""
    return Column.of(group["figures"].get(name) for group in results["groups"])


def paper_columns(results: Mapping[str, Any]) -> dict[str, Column]:
    """How our measurements beside the paper's are written."""
    return {key: column_of(results, name) for key, name in ours(results["groups"]).items()}


def floor_of(results: Mapping[str, Any], name: str) -> float | None:
    """What real data gets in a measurement."""
    for group in results["groups"]:
        floor: float | None = group["figures"].get(name, {}).get("floor")
        if floor is not None:
            return floor
    return None


def knows_nothing_of(results: Mapping[str, Any], name: str) -> float | None:
    """What a model that knows nothing gets in a measurement; None where that differs by group."""
    said = {group["figures"].get(name, {}).get("knows_nothing") for group in results["groups"]}
    said.discard(None)
    return said.pop() if len(said) == 1 else None


def knows_nothing_words(results: Mapping[str, Any]) -> str:
    """The name of that row, with what it is: ``knows nothing: log₂ 17``."""
    words = dict.fromkeys(
        measurement["of"]["knows_nothing"]
        for group in results["groups"]
        for measurement in group["figures"].values()
        if "knows_nothing" in measurement["of"]
    )
    return ": ".join(["knows nothing", *([", ".join(words)] if words else [])])


def legend(results: Mapping[str, Any]) -> str:
    """The notes of a table: what ± and † mean, and the protocol of all measurements."""
    asked, condition = results["protocol"], condition_of(results)
    error = f"±: {error_words(results)}" + (f"; {condition}" if condition else "")
    marked = any(f.get("vacuous") for g in results["groups"] for f in g["figures"].values())
    vacuous = "; †: vacuous, worse than knowing nothing" if marked else ""
    return (
        f"{error}{vacuous}; {samples_words(asked)}, EMA weights of the {asked['checkpoint']} "
        "checkpoint; real data: the test split in the samples' place"
    )


def samples_words(protocol: Mapping[str, Any]) -> str:
    """``1000 samples, seed 0``, or ``3 × 1000 samples, seeds 0 to 2``."""
    count, first, seeds = protocol["samples"], protocol["seed"], protocol.get("sample_seeds", 1)
    if seeds == 1:
        return f"{count} samples, seed {first}"
    return f"{seeds} × {count} samples, seeds {first} to {first + seeds - 1}"


def error_words(results: Mapping[str, Any]) -> str:
    """What ± of a table includes."""
    seeds, samples = len(results["seeds"]), results["protocol"].get("sample_seeds", 1)
    drawn = f"{samples} sample seeds" if samples > 1 else "other samples"
    noise = f"({drawn} with the same reference, for bits/dim other examples and noise)"
    if seeds > 1:
        words = f"standard error over {seeds} training seeds and of the evaluation {noise}"
    else:
        words = f"standard error of the evaluation {noise}; not of other training seeds"
    if without := _without_evaluation(results):
        words += f"; without the error of the evaluation: {', '.join(without)}"
    return words


def _without_evaluation(results: Mapping[str, Any]) -> list[str]:
    """The titles of columns whose ± does not include the error of the evaluation."""
    return [
        title
        for name, title in shown_measurements(results).items()
        if any(
            figure["standard_error"] is not None and EVALUATION not in figure["error_includes"]
            for figure in (group["figures"][name] for group in _having(results, name))
        )
    ]
