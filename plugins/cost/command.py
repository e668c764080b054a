"""``elbowroom cost``: what a config costs before it is run."""

from __future__ import annotations

from typing import Annotated

import typer
from elbowroom import python_form
from elbowroom.cli import JSON, Changes, Config, echo, help_group, print_json
from elbowroom.plugins.evaluation.options import Samples


@python_form("elbowroom.plugins.cost.cost:cost")
@help_group("Models", 3)
def cost(
    config: Config,
    overrides: Changes = None,
    tflops: Annotated[
        float | None,
        typer.Option(metavar="N", help="Peak speed of a device in TFLOP/s, to estimate hours."),
    ] = None,
    utilisation: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the peak that is reached.")
    ] = 0.4,
    devices: Annotated[int, typer.Option(metavar="N", min=1, help="Number of devices.")] = 1,
    samples: Samples = 1000,
    json: JSON = False,
) -> None:
    """Estimate the operations, memory and hours of a config.

    Example: elbowroom cost digits --tflops 300 --devices 8 --samples 50000
    """
    from elbowroom import load_config

    from .cost import cost as count

    report = count(
        load_config(config, tuple(overrides or ())),
        tflops=tflops,
        utilisation=utilisation,
        devices=devices,
        samples=samples,
    )
    if json:
        print_json(report.record())
        return
    for line in report.lines():
        echo(line)
