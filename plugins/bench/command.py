"""``elbowroom bench``: speed of the train step and of samplers."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from elbowroom.cli import JSON, Changes, Config, console, help_group, print_json, table


@help_group("Models", 4)
def bench(
    config: Config = "digits",
    overrides: Changes = None,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Measurements of each case.")] = 7,
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="Samples per measurement.")] = 16,
    sampler: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Samplers to measure. Default: every one that fits."),
    ] = None,
    no_samplers: Annotated[
        bool, typer.Option("--no-samplers", help="Training alone; for large networks.")
    ] = False,
    json: JSON = False,
) -> None:
    """Measure the speed of training and sampling on this machine.

    Example: elbowroom bench digits process=gaussian --rounds 11
    """
    from elbowroom import installed, load_config

    from .bench import bench as measure

    chosen = load_config(config, tuple(overrides or ()))
    with console(stderr=True).status("measuring") as status:
        report = measure(
            chosen,
            installed(),
            rounds=rounds,
            samples=samples,
            only=() if no_samplers else sampler,
            watch=lambda n, name: status.update(f"round {n + 1} of {rounds}: {name}"),
        )
    if json:
        print_json(report.record())
        return
    _print(report.record(), rounds)


def _print(record: dict[str, Any], rounds: int) -> None:
    listing = table(f"Medians of {rounds} rounds", "what", ">ms", ">95 % interval", ">calls")
    for name, row in record["timings"].items():
        low, high = (f"{1000 * value:.2f}" for value in row["interval"])
        calls = "" if row["calls"] is None else f"{row['calls']:.1f}"
        listing.add_row(name, f"{1000 * row['seconds']:.2f}", f"{low} to {high}", calls)
    out = console()
    out.print(listing)
    out.print(
        f"{record['images_per_second']:.0f} images/s in training on {record['threads']} threads; "
        f"{record['parameters']:,} parameters; {_overhead(record)}"
    )


def _overhead(record: dict[str, Any]) -> str:
    ratio, rest = record["overhead"], record["overhead_without_network"]
    if ratio is None:
        return "there is no bare loop for this process"
    return (
        f"overhead over a bare loop {ratio['ratio'] - 1:+.1%} "
        f"(95 %: {ratio['low'] - 1:+.1%} to {ratio['high'] - 1:+.1%}); measured without the "
        f"network {rest['ratio']:+.2%} of a step ({rest['low']:+.2%} to {rest['high']:+.2%})"
    )
