"""``elbowroom bench``: speed, side by side in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from elbowroom.cli import JSON, console, help_group, print_json, table

if TYPE_CHECKING:
    from .bench import BenchReport


@help_group("Models", 4)
def bench(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Changes to the config, e.g. train.batch_size=32."
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(metavar="CONFIG", help="A YAML file or a preset's name.")
    ] = "digits",
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Measurements of each case.")] = 7,
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="Samples per measurement.")] = 16,
    sampler: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Samplers to measure. Default: every one that fits."),
    ] = None,
    no_samplers: Annotated[
        bool, typer.Option("--no-samplers", help="Measure training only.")
    ] = False,
    json: JSON = False,
) -> None:
    """Measure the speed of training and sampling on this machine.

    Example: elbowroom bench process=gaussian --rounds 11
    """
    from elbowroom import installed, load_config

    from .bench import bench as measure

    chosen = load_config(preset, tuple(overrides or ()))
    err = console(stderr=True)
    with err.status("measuring") as status:
        report = measure(
            chosen,
            installed(),
            rounds=rounds,
            samples=samples,
            only=() if no_samplers else sampler,
            watch=lambda turn, name: status.update(f"round {turn + 1} of {rounds}: {name}"),
        )
    if json:
        print_json(report.record())
        return
    _print(report)


def _print(report: BenchReport) -> None:
    record = report.record()
    listing = table(
        f"Medians of {len(report.timings['matmul'].seconds)} rounds",
        *("what", ">ms", ">± spread", ">share of peak", ">network calls", ">GFLOP"),
    )
    rows: dict[str, Any] = record["timings"]
    for name, row in rows.items():
        listing.add_row(
            name,
            f"{1000 * row['seconds']:.2f}",
            f"{row['spread']:.0%}",
            f"{row['peak_share']:.0%}" if "peak_share" in row else "",
            f"{row['calls']:.1f}" if "calls" in row else "",
            f"{row['operations'] / 1e9:.3g}" if "operations" in row else "",
        )
    out = console()
    out.print(listing)
    out.print("GFLOP: operations of a training step, and of one sample; attention counted too")
    out.print(f"{record['images_per_second']:.0f} images/s in training; {_overhead(record)}")
    out.print(
        f"matmul peak {record['matmul_flops'] / 1e9:.0f} GFLOP/s on {record['threads']} threads; "
        f"{record['parameters']:,} parameters; peak memory {record['peak_bytes'] / 2**20:.0f} MiB"
    )


def _overhead(record: dict[str, Any]) -> str:
    ratio, beside = record["overhead"], record["beside_network"]
    if ratio is None:
        return "no bare loop is written out for this process"
    return (
        f"overhead over the bare loop {ratio['ratio'] - 1:+.1%} "
        f"(95 %: {ratio['low'] - 1:+.1%} to {ratio['high'] - 1:+.1%}); measured without the "
        f"network {beside['share']:+.2%} of a step ({beside['low']:+.2%} to {beside['high']:+.2%})"
    )
