"""Options that several commands have, ours and those of plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Execute code that the RUN names (./my.py:Net); read it first."),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, ... Default: what there is.")]
Precision = Annotated[
    str, typer.Option(help="Of the network: float32, or bfloat16 as in training.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.")]
Config = Annotated[str, typer.Argument(metavar="CONFIG", help="A YAML file or a preset's name.")]
Changes = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Changes, like process=gaussian train.steps=10."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Changes, like sampler.steps=32."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="SPEC",
        help="A name, or '{name: kid, block: 500}'; several times for several. Default: "
        "the usual ones (bits/dim, FID, KID, IS, distances), as far as they fit the data.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="NETWORK",
        help="classifier (default), inception:FILE, dinov2:FOLDER or ./my.py:Network.",
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="FID against this .npz (mu, sigma or arr_0) alone."),
]
Samples = Annotated[int, typer.Option(metavar="N", min=2, help="How many samples to draw.")]
SampleSeeds = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, help="Sets of samples, each of its own seed: mean ± standard error."
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Of samples and looks.")]
Checkpoint = Annotated[str, typer.Option(metavar="WHICH", help="best, last or a step.")]
Ema = Annotated[
    str | None,
    typer.Option("--ema", metavar="DECAY", help="Which average, of a run with train.ema_also."),
]


def with_ema(overrides: Sequence[str] | None, ema: str | None) -> tuple[str, ...]:
    """Changes that also choose an average of a run."""
    return (*(overrides or ()), *(() if ema is None else (f"train.ema={ema}",)))
