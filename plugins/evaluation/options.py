"""Options of commands that measure samples."""

from __future__ import annotations

from typing import Annotated

import typer

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="SPEC",
        help="A metric: a name or '{name: kid, block: 500}'. May be repeated. Default: "
        "every standard metric that fits the data.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="NETWORK",
        help="Feature network: classifier, inception:FILE, dinov2:FOLDER or ./my.py:Network.",
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Compute only the FID, against this .npz (mu and sigma, or arr_0)."
    ),
]
Samples = Annotated[int, typer.Option(metavar="N", min=2, help="Number of samples.")]
SampleSeeds = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Number of sample seeds; report mean ± standard error."),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of samples and noise.")]
