"""``elbowroom sample``: draw samples from a run."""

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
    help_group,
    is_first_rank,
    print_json,
    with_ema,
)


@help_group("Start here", 3)
def sample(
    run: Run,
    overrides: Overrides = None,
    count: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of samples. Default: 64, or 4 per given example."
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--class", metavar="CLASS", help="A class, by name or number. May be repeated."
        ),
    ] = None,
    given: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Examples to complete: an image, .npz, .txt or .csv file, or train, validation "
            "or test.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="The given positions: left, right, top, bottom, prefix, suffix or random, each "
            "with a share as in left:0.25; columns of a table; or a mask image, white is kept.",
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Text to continue. Each _ in a run of three or more is filled in."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the samples.")] = 0,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="Samples per batch; does not change them.")
    ] = 64,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder, or FILE.npz for ADM's format. Default: RUN/samples."
        ),
    ] = None,
    checkpoint: Checkpoint = "best",
    ema: Ema = None,
    device: Device = None,
    precision: Precision = "float32",
    trust: Trust = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing samples.")
    ] = False,
    json: JSON = False,
) -> None:
    """Draw samples from a run: a PNG grid, an .npz and a GIF.

    Under torchrun the ranks share the samples, which are those of one process.

    ``--given test --keep left`` completes the left halves of test images; ``--prompt "Once upon"``
    continues a text.

    Example: elbowroom sample runs/digits sampler.steps=32 --class 3
    """
    from .write import sample_run

    report = sample_run(
        run,
        with_ema(overrides, ema),
        count=count,
        labels=label or None,
        given=given,
        keep=keep,
        prompt=prompt,
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
    if "given" in used:
        show.print(f"completed  by {used['given']}", markup=False)
    for path, digest in used.get("made_from", {}).items():
        show.print(f"made from  {path} (sha256 {digest[:16]})", markup=False)
    for name, path in report.paths.items():
        show.print(f"{name:<10} {path}", markup=False)
    show.print(
        f"{report.count} samples in {report.seconds:.1f} s; network calls per sample: "
        f"{report.calls_mean:.1f} on average, at most {report.calls_most}"
    )
