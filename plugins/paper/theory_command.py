"""``elbowroom theory``: the two theorems, checked exactly."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from elbowroom.cli import JSON, console, help_group, number, print_json, table

if TYPE_CHECKING:
    from .theory import Check


class Denoiser(str, enum.Enum):
    """The denoisers of the tractable settings."""

    optimal = "optimal"
    uniform = "uniform"
    tempered = "tempered"


@help_group("Theory", 2)
def theory(
    denoiser: Annotated[
        Denoiser,
        typer.Option(
            help="The denoiser. With gaussian, uniform and tempered mean the best linear one."
        ),
    ] = Denoiser.optimal,
    steps: Annotated[
        int, typer.Option(metavar="T", min=2, max=512, help="Number of noise levels.")
    ] = 8,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a plot.")] = None,
    json: JSON = False,
) -> None:
    """Check both theorems of the paper exactly, on small enumerable cases.

    Example: elbowroom theory --denoiser tempered --steps 16
    """
    from elbowroom import installed
    from rich.text import Text

    from .theory import check_theorems

    checks = check_theorems(installed(), denoiser.value, steps)
    if plot is not None:
        from .figures import theory_figure

        theory_figure(plot, checks)
    if json:
        verdict = "; ".join(check.verdict for check in checks)
        print_json({**{check.name: check.record() for check in checks}, "verdict": verdict})
    else:
        out = console()
        for check in checks:
            out.print(_bounds(check))
            out.print(_sides(check))
            style = "green" if check.holds else "bold red"
            out.print(Text(check.verdict, style=style))
            out.print()
        if plot is not None:
            out.print(f"drawn in {plot}", markup=False)
    if not all(check.holds for check in checks):
        raise typer.Exit(1)


def _bounds(check: Check) -> object:
    listing = table(
        f"Theorem 1 · {check.name} (nats)", ">i", ">E L^(i)", ">increment", ">transition KL"
    )
    bounds = check.cascade.expected_bounds.tolist()
    increments, kl = check.cascade.increments.tolist(), check.cascade.transition_kl.tolist()
    for i, bound in enumerate(bounds):
        last = i == len(bounds) - 1
        rest = ("", "") if last else (number(increments[i]), number(kl[i]))
        listing.add_row(str(i + 1), number(bound), *rest)
    return listing


def _sides(check: Check) -> object:
    listing = table(
        f"Theorem 2 · {check.name} (nats)", "weighting", ">sum of bounds", ">weighted loss + const"
    )
    for name, sides in check.theorem2.items():
        listing.add_row(name, *(number(value) for value in check.expected(sides)))
    return listing
