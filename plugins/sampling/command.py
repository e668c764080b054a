"""``elbowroom sample``: pictures from a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from elbowroom.cli import (
    JSON,
    Checkpoint,
    Device,
    Ema,
    Overrides,
    Precision,
    Run,
    Trust,
    console,
    is_first_rank,
    print_json,
    with_ema,
)


def sample(
    run: Run,
    overrides: Overrides = None,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="How many.")] = 64,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--class", metavar="CLASS", help="Of this class, by name or number; repeat for several."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The samples' seed.")] = 0,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many at once; changes no sample.")
    ] = 64,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Default: RUN/samples. FILE.npz: ADM's arr_0 alone."),
    ] = None,
    checkpoint: Checkpoint = "best",
    ema: Ema = None,
    device: Device = None,
    precision: Precision = "float32",
    trust: Trust = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace samples that are there.")
    ] = False,
    json: JSON = False,
) -> None:
    """Draw samples: a PNG grid, an .npz, and a GIF of the reverse process.

    Under torchrun the ranks share the samples out; each is what one process draws.

    Example: elbowroom sample runs/digits sampler.steps=32 --class 3
    """
    from .write import sample_run

    report = sample_run(
        run,
        with_ema(overrides, ema),
        count=count,
        labels=label or None,
        seed=seed,
        batch_size=batch_size,
        out=out,
        checkpoint=checkpoint,
        device=device,
        precision=precision,
        trust=trust,
        overwrite=overwrite,
    )
    if not is_first_rank():
        return
    if json:
        print_json(report.record())
        return
    show, used = console(), report.used
    show.print(
        f"used       {used['run']}, step {used['step']}, EMA of {used['ema']}, "
        f"{used['sampler']} in {used['steps']} steps, seed {used['seed']}",
        markup=False,
    )
    for path, digest in used.get("made_from", {}).items():
        show.print(f"grid from  {path} (sha256 {digest[:16]})", markup=False)
    for name, path in report.paths.items():
        show.print(f"{name:<10} {path}", markup=False)
    show.print(
        f"{report.count} samples in {report.seconds:.1f} s, {report.calls_mean:.1f} network calls "
        f"each on average, {report.calls_most} at most"
    )
