"""Pictures: the paper's figures from our own functions, and one for any weighting.

Drawn on Figure objects directly: no global plotting state, no display.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from elbowroom import ElbowroomError, Level, Process, Schedule, Weighting
from elbowroom.errors import require_package
from elbowroom.files import write_atomically
from elbowroom.registry import Registry
from torch import Tensor

from .certificate import END, Certificate
from .survey import levels_at
from .theory import Check

LABELS = {
    "elbo": "ELBO",
    "edm": "EDM",
    "iddpm": "IDDPM",
    "sigmoid": "Sigmoid (k = 0)",
    "fm": "Flow matching",
    "simple": "Simple",
}
COLOURS = {
    "elbo": "#7f7f7f",
    "edm": "#d62728",
    "iddpm": "#9467bd",
    "sigmoid": "#1f77b4",
    "fm": "#2ca02c",
    "simple": "#ff7f0e",
}
STYLES = {"elbo": "-", "edm": "-", "iddpm": "-", "sigmoid": "-", "fm": "-", "simple": "--"}
"""Simple and flow matching nearly coincide in places: dashes let both be seen."""

_TABLE_1 = {"edm": "edm", "iddpm": "vp-cosine", "sigmoid": "vp-cosine", "fm": "flow"}
"""The Gaussian weightings of the paper's first table, each with its own schedule."""


def paper_figures(registry: Registry, folder: Path) -> list[Path]:
    """The weighting figure and the total-weight figure, as PNG files in ``folder``."""
    make_folder(folder)
    return [_weighting_figure(registry, folder), _total_weight_figure(registry, folder)]


def _weighting_figure(registry: Registry, folder: Path) -> Path:
    figure, (left, right) = _axes(2, (10, 3.8))
    gaussian = registry.find("process", "gaussian").load()()
    for name, schedule_name in _TABLE_1.items():
        schedule = registry.find("schedule", schedule_name).load()(eps=0.0)
        _draw_normalised(left, name, _weighting(registry, name), schedule, gaussian)
    masked, cosine = _masked_cosine(registry)
    for name in LABELS:
        _draw_normalised(right, name, _weighting(registry, name), cosine, masked)
    left.set_title("Gaussian diffusion, each on its own λ(t)")
    right.set_title("Masked diffusion, cosine schedule")
    left.set_ylabel("w̃(t) / max over [0, 0.999]")
    for axes in (left, right):
        axes.set_xlabel("t")
    _legend_below(figure, right)
    return save(figure, folder / "weightings.png")


def _total_weight_figure(registry: Registry, folder: Path) -> Path:
    figure, (axes,) = _axes(1, (6, 4))
    masked, cosine = _masked_cosine(registry)
    t = _times()
    for name, label in LABELS.items():
        weight = _weighting(registry, name).plain_weight(Level.of(t, cosine, masked))
        axes.plot(t, weight, STYLES[name], label=label, color=COLOURS[name])
    axes.set_ylim(0, 6)
    axes.set_xlim(0, 1)
    axes.set_title("Total weight on the cross-entropy, cosine schedule")
    axes.set_xlabel("t")
    axes.set_ylabel("w̃(t) · −α′/(1 − α)")
    axes.legend(frameon=False)
    return save(figure, folder / "total-weight.png")


def weighting_figure(
    path: Path,
    name: str,
    weighting: Weighting,
    schedule: Schedule,
    process: Process,
    certificate: Certificate,
    repaired: Weighting | None,
    steps: int | None = None,
) -> Path:
    """w over t, over lambda, and the total weight on the plain loss; the repair beside it."""
    figure, panels = _axes(3, (12, 3.8))
    level = levels_at(_times(), schedule, process, steps)
    lines = {name: (weighting, "-", "#1f77b4")}
    if repaired is not None:
        lines["its repair"] = (repaired, "--", "#ff7f0e")
    for label, (made, style, colour) in lines.items():
        ready = made.prepare(schedule, process, steps)
        w, plain = ready(level), ready.plain_weight(level)
        for axes, x, y in zip(
            panels, (level.t, level.log_snr, level.t), (w, w, plain), strict=True
        ):
            axes.plot(x, y, style, label=label, color=colour)
    for axes, x_name, y_name in zip(
        panels,
        ("t", "λ (log signal-to-noise ratio)", "t"),
        ("w̃(t)", "w̃ at t(λ)", "total weight on the plain loss"),
        strict=True,
    ):
        axes.set_xlabel(x_name)
        axes.set_ylabel(y_name)
        axes.legend(frameon=False)
    top = torch.quantile(weighting.prepare(schedule, process, steps).plain_weight(level), 0.98)
    panels[2].set_ylim(0, max(float(top) * 1.3, 1e-12))
    figure.suptitle(f"{name}: {certificate.verdict}", fontsize=10)
    return save(figure, path)


def theory_figure(path: Path, checks: tuple[Check, ...]) -> Path:
    """The cascade of bounds, and each increment beside its transition KL."""
    figure, panels = _axes(2 * len(checks), (5 * len(checks), 7), rows=2)
    for column, check in enumerate(checks):
        bounds, kl = panels[column], panels[len(checks) + column]
        steps = range(1, len(check.cascade.expected_bounds) + 1)
        bounds.plot(steps, check.cascade.expected_bounds, "o-", color="#1f77b4")
        bounds.set_title(f"{check.name}: bounds with i − 1 optimal steps")
        bounds.set_ylabel("E L^(i), nats")
        kl.plot(steps[:-1], check.cascade.increments, "o", ms=9, mfc="none", label="increment")
        kl.plot(steps[:-1], check.cascade.transition_kl, "x", label="transition KL")
        kl.set_yscale("log")
        kl.set_ylabel("nats")
        kl.set_xlabel("i")
        kl.legend(frameon=False)
    return save(figure, path)


def save(figure: Any, path: Path) -> Path:
    """Write a picture whole or not at all; the ending of the name says the format."""
    formats = figure.canvas.get_supported_filetypes()
    ending = path.suffix.lstrip(".").lower()
    if ending not in formats:
        raise ElbowroomError(
            f"cannot draw {path}: the name must end in one of .{', .'.join(sorted(formats))}"
        )
    picture = io.BytesIO()
    figure.savefig(picture, format=ending, dpi=150)
    write_atomically(path, picture.getvalue())
    return path


def make_folder(folder: Path) -> None:
    """The folder, made if need be, or a clear error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElbowroomError(f"cannot make the folder {folder}: {error.strerror}") from error


def _axes(count: int, size: tuple[float, float], rows: int = 1) -> tuple[Any, list[Any]]:
    require_package("matplotlib", "drawing figures", "plots")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(rows, count // rows, squeeze=False).flatten())
    for axes in panels:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _times() -> Tensor:
    return torch.linspace(1e-3, END, 999, dtype=torch.float64)


def _weighting(registry: Registry, name: str) -> Weighting:
    made: Weighting = registry.find("weighting", name).load()()
    return made


def _masked_cosine(registry: Registry) -> tuple[Process, Schedule]:
    process: Process = registry.find("process", "masked").load()()
    schedule: Schedule = registry.find("schedule", "cosine").load()(eps=0.0)
    return process, schedule


def _draw_normalised(
    axes: Any, name: str, weighting: Weighting, schedule: Schedule, process: Process
) -> None:
    t = _times()
    w = weighting(Level.of(t, schedule, process))
    axes.plot(t, w / w.max(), STYLES[name], label=LABELS[name], color=COLOURS[name])


def _legend_below(figure: Any, axes: Any) -> None:
    """One legend for all panels, outside them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
