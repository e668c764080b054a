"""Tables and a picture of finished comparisons, as they stand in docs/results.md.

    elbowroom compare digits train.milestones=[250,500] --vary ... --seeds 3 --out DIR
    python docs/benchmarks/quality.py DIR --out docs/images/quality.png

Comparisons made apart are drawn together with a name each: ``masked=DIR gaussian=DIR``.

Prints Markdown tables: the figures at the end (marked where they are vacuous, worse than those of a
model that knows nothing), what they differ by from the first model's with the
same seed, and figures at each milestone. Draws FID against training steps, a panel for each value
of the first of several things that were varied, bars the standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

COLUMNS = {
    "bits_per_dim": ("bits/dim", 3),
    "fid_train": ("FID train", 2),
    "fid_test": ("FID test", 2),
    "kid_test": ("KID test", 3),
    "is": ("IS", 2),
    "neighbours_mean": ("distance to train", 4),
    "neighbours_copied": ("copied", 4),
}


def shown(summary: dict[str, Any] | None, digits: int) -> str:
    if summary is None or summary["mean"] is None:
        return ""
    spread = "" if summary["sd"] is None else f" ± {summary['sd']:.{digits}f}"
    mark = " (vacuous)" if summary.get("vacuous") else ""
    return f"{summary['mean']:.{digits}f}{spread}{mark}"


def plain(label: str) -> str:
    """``{name: gaussian, predict: levels}`` as ``gaussian, predict: levels``."""
    return label.replace("{name: ", "").replace("}", "")


def row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |")


def head(*cells: str) -> None:
    row(*cells)
    row(*["---"] * len(cells))


def figures(groups: list[dict[str, Any]]) -> None:
    head("model", "bound?", *(title for title, _ in COLUMNS.values()))
    for group in groups:
        bound = {True: "yes", False: "no", None: "?"}[(group["weighting"] or {}).get("is_bound")]
        said = [shown(group["figures"].get(name), digits) for name, (_, digits) in COLUMNS.items()]
        row(plain(group["label"]), bound, *said)
    first = groups[0]["figures"] if groups else {}
    row("*real data*", "", *(beside(first, name, "floor") for name in COLUMNS))
    row("*knows nothing*", "", *(beside(first, name, "knows_nothing") for name in COLUMNS))


def beside(figures: dict[str, Any], name: str, which: str) -> str:
    """What stands beside a figure: what real data gets, or a model that knows nothing."""
    value = figures.get(name, {}).get(which)
    return "" if value is None else f"{value:.{COLUMNS[name][1]}f}"


def differences(results: dict[str, Any]) -> None:
    """Each group less the first, seed by seed."""
    found = results["differences"]
    if found is None:
        return
    print(f"\nless {plain(found['to'])}, same seed")
    head("model", *(title for title, _ in COLUMNS.values()))
    for group, differing in zip(results["groups"], found["groups"], strict=True):
        if differing:
            said = [shown(differing.get(name), digits) for name, (_, digits) in COLUMNS.items()]
            row(plain(group["label"]), *said)


def milestones(groups: list[dict[str, Any]], name: str) -> None:
    steps = list(groups[0]["milestones"].get(name, {}))
    head("model", *(f"{step} steps" for step in steps))
    for group in groups:
        at = group["milestones"].get(name, {})
        row(plain(group["label"]), *(shown(at.get(step), 2) for step in steps))


def panel_of(group: dict[str, Any]) -> str | None:
    """The first thing that was varied has a panel for each value; alone, it has lines in one."""
    values = list(group["values"].values())
    return values[0] if len(values) > 1 else None


def draw(groups: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(panel_of(group) for group in groups))
    colours: dict[str, str] = {}
    figure = Figure(figsize=(4.6 * len(panels), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    for panel, value in zip(axes, panels, strict=True):
        for group in groups:
            at = group["milestones"].get("fid_test")
            if panel_of(group) != value or not at:
                continue
            label = " · ".join(list(group["values"].values())[value is not None :])
            colour = colours.setdefault(label, f"C{len(colours)}")
            panel.errorbar(
                [int(step) for step in at],
                [one["mean"] for one in at.values()],
                [one["sd"] or 0 for one in at.values()],
                fmt="o-",
                markersize=3,
                linewidth=1.3,
                capsize=2,
                color=colour,
                label=label,
            )
        floor = groups[0]["figures"]["fid_test"]["floor"]
        if floor is not None:
            panel.axhline(floor, color="grey", linewidth=0.8, linestyle=":")
        panel.set_title(plain(value or ""), fontsize=10)
        panel.set_xscale("log")
        panel.set_yscale("log")
        steps = [int(step) for step in groups[0]["milestones"]["fid_test"]]
        panel.set_xticks(steps, [f"{step}" for step in steps])
        low, high = panel.get_ylim()
        ticks = [tick for tick in (1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 20, 30) if low < tick < high]
        panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.minorticks_off()
        panel.set_xlabel("training steps")
        panel.set_ylabel("FID against test images")
        panel.grid(alpha=0.25, which="both")
        panel.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def show_samples(groups: list[dict[str, Any]], path: Path) -> None:
    """The first samples of one run of each group, none picked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.image import imread

    shown_groups = [group for group in groups if group["shown"]]
    figure = Figure(figsize=(12, 0.5 + 1.9 * -(-len(shown_groups) // 2)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(-(-len(shown_groups) // 2), 2, squeeze=False).ravel()
    for panel in axes:
        panel.axis("off")
    for panel, group in zip(axes, shown_groups, strict=False):
        picture = imread(group["folder"] / "evaluation" / "samples.png")
        panel.imshow(picture, cmap="gray", interpolation="nearest")
        panel.set_title(plain(group["label"]), fontsize=10)
    figure.savefig(path, dpi=90)


def read(given: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The results in ``DIR`` or ``name=DIR``, and its finished groups under that name."""
    name, _, place = given.rpartition("=")
    folder = Path(place)
    results = json.loads((folder / "results.json").read_text("utf-8"))
    runs = {point["name"]: folder / point["folder"] for point in results["points"]}
    groups = [group for group in results["groups"] if group["finished"]]
    for group in groups:
        group["folder"] = runs.get(group["shown"])
        if name:
            group["label"] = f"{name} · {group['label']}"
            group["values"] = {"": name, **group["values"]}
    return results, groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("comparison", nargs="+", help="the folder of a comparison, or NAME=FOLDER")
    parser.add_argument("--out", type=Path, help="a PNG of FID against training steps")
    parser.add_argument("--samples", type=Path, help="a PNG of samples side by side")
    options = parser.parse_args()
    found = [read(given) for given in options.comparison]
    groups = [group for _, those in found for group in those]
    figures(groups)
    for results, _ in found:
        differences(results)
    if any(group["milestones"] for group in groups):
        for name in ("fid_train", "fid_test", "bits_per_dim"):
            print(f"\n{name}")
            milestones(groups, name)
    if options.out:
        draw(groups, options.out)
    if options.samples:
        show_samples(groups, options.samples)


if __name__ == "__main__":
    main()
