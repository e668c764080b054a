"""A cost in words: counts with their prefix, bytes, hours or days."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cost import CostReport

_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")


def count(value: float, unit: str = "FLOP") -> str:
    """``1.23 PFLOP``."""
    power = 0
    while abs(value) >= 1000 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.3g} {_PREFIXES[power]}{unit}"


def size(value: float) -> str:
    """``1.5 GiB``."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while value >= 1024 and power < len(units) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.3g} {units[power]}"


def duration(hours: float) -> str:
    """In the unit that suits: seconds to years."""
    for unit, length in (("years", 8766.0), ("days", 48.0), ("hours", 1.0), ("minutes", 1 / 60)):
        if hours >= length:
            each = {"years": 8766.0, "days": 24.0, "hours": 1.0, "minutes": 1 / 60}[unit]
            return f"{hours / each:.3g} {unit}"
    return f"{hours * 3600:.2g} s"


def lines(report: CostReport) -> list[str]:
    """What a config costs, for people."""
    return [*_operations(report), *_memory(report), *_remarks(report)]


def _operations(report: CostReport) -> list[str]:
    machine, train = report.machine, report.config.train
    rows = [("training step", f"batch {train.batch_size}", report.step_flops)]
    rows.append(("training", f"{train.steps:,} steps", report.training_flops))
    if report.looks:
        looks = f"{report.looks:.4g} looks of the network"
        rows.append(("one sample", looks, report.sample_flops))
        rows.append(("evaluation", f"{report.samples:,} samples", report.evaluation_flops))
    heading = "cost"
    if machine.tflops is not None:
        heading += (
            f" on {machine.devices} × {machine.tflops:g} TFLOP/s, of which "
            f"{machine.utilisation:.0%} are reached"
        )
    told = [heading]
    for name, of, flops in rows:
        hours = machine.hours(flops)
        when = "" if hours is None else f"   {duration(hours)}"
        told.append(f"  {name:<14} {of:<28} {count(flops):>12}{when}")
    if machine.tflops is None:
        told.append("  hours: give a device's peak with --tflops")
    return told


def _memory(report: CostReport) -> list[str]:
    train = report.config.train
    ways = [f"{report.at_once} examples at once", train.precision]
    if train.checkpoint_activations:
        ways.append("activations computed again")
    if report.machine.devices > 1:
        ways.append(f"{train.parallel} over {report.machine.devices}")
    told = [f"memory of a device ({', '.join(ways)})"]
    return told + [f"  {name:<14} {size(held):>10}" for name, held in report.memory.items()]


def _remarks(report: CostReport) -> list[str]:
    told = [f"note: {report.one.remark}"] if report.one.remark else []
    if report.config.train.compile:
        told.append("note: train.compile fuses operations, and keeps fewer activations than this")
    return told
