"""``elbowroom cost``: what a config costs before it is run."""

from __future__ import annotations

import typer
from elbowroom import python_form
from elbowroom.cli import (
    JSON,
    Changes,
    Config,
    Device,
    Devices,
    Measure,
    Samples,
    Tflops,
    Utilisation,
    print_json,
)


@python_form("elbowroom.plugins.cost.cost:cost")
def cost(
    config: Config,
    overrides: Changes = None,
    tflops: Tflops = None,
    utilisation: Utilisation = 0.4,
    devices: Devices = 1,
    samples: Samples = 1000,
    measure: Measure = False,
    device: Device = None,
    json: JSON = False,
) -> None:
    """Operations, memory and hours of a config; also as ``explain --cost``.

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
        measured=measure,
        device=device,
    )
    if json:
        print_json(report.record())
        return
    for line in report.lines():
        typer.echo(line)
