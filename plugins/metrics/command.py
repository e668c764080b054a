"""``elbowroom reference``: what FID needs to know of a data set, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from elbowroom.cli import JSON, Device, console, help_group, print_json
from elbowroom.plugins.console.display import progress_display
from elbowroom.plugins.evaluation.options import Features


@help_group("Models", 1)
def reference(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A data set: digits, '{name: imagenet64, path: DIR}'."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The .npz file to write.")],
    features: Features = None,
    split: Annotated[
        str, typer.Option(metavar="SPLIT", help="train, validation or test.")
    ] = "train",
    batch_size: Annotated[int, typer.Option(metavar="N", min=1, help="Examples per batch.")] = 250,
    device: Device = None,
    json: JSON = False,
) -> None:
    """Save the mean and covariance of a data set's features, for evaluate --reference.

    Example: elbowroom reference digits --split test --out digits.npz
    """
    from .make_reference import make_reference

    with progress_display() as progress:
        report = make_reference(
            data,
            out,
            features=features or "classifier",
            split=split,
            batch_size=batch_size,
            device=device,
            progress=progress,
        )
    if json:
        print_json(report.record())
        return
    about = report.features
    console().print(
        f"{report.path}: {report.width} features of {report.count} examples of {report.data}, by "
        f"{about['features']} (sha256 {about['features_sha256']})",
        markup=False,
    )
