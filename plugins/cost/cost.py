"""The cost of a config: operations, memory of a device, hours.

    hours = steps * operations of a step / (devices * TFLOP/s * utilisation * 3600e12)

Operations are counted, not estimated; what share of its peak a device reaches (utilisation) is a
guess of the reader's.
"""

from __future__ import annotations

from typing import Any

import attrs
from elbowroom import Config, ConfigError
from elbowroom.config import build_parts

from .counting import (
    Pass,
    Update,
    count_forward,
    count_looks,
    count_pass,
    count_update,
    weight_bytes as count_weights,
)

_KEPT = 4  # bytes of a number in the moving average


@attrs.frozen
class Machine:
    """What computes: how many devices, and what each can do."""

    devices: int = 1
    tflops: float | None = None  # a device's peak at the precision used; None: not known
    utilisation: float = 0.4  # the share of the peak that is reached

    def hours(self, flops: float) -> float | None:
        """Of so many operations, spread evenly; None where the peak is not known."""
        if self.tflops is None:
            return None
        return flops / (self.devices * self.tflops * 1e12 * self.utilisation) / 3600


@attrs.frozen
class CostReport:
    """What a config costs."""

    config: Config
    machine: Machine
    parameters: int
    at_once: int  # examples on a device at once
    one: Pass  # forward and backward of these
    update: Update
    look_flops: int  # one example through the network
    looks: float  # examples shown to the network for a sample; 0: there is no sampler
    samples: int  # of an evaluation
    weight_bytes: int

    @property
    def step_flops(self) -> float:
        """Operations of a training step, all devices together."""
        passes = float(self.config.train.batch_size / self.at_once)
        updates = 1 if self._shares > 1 else self.machine.devices
        return passes * self.one.flops + updates * self.update.flops

    @property
    def training_flops(self) -> float:
        """Of the whole training."""
        return float(self.config.train.steps) * self.step_flops

    @property
    def sample_flops(self) -> float:
        """Of one sample."""
        return self.looks * self.look_flops

    @property
    def evaluation_flops(self) -> float:
        """Of drawing the samples of an evaluation; metrics have networks of their own."""
        return self.samples * self.sample_flops

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of one device."""
        shares = self._shares
        held = {
            "weights": self.weight_bytes // shares,
            "gradients": self.weight_bytes // shares,
            "optimiser": self.update.states // shares,
            "average": self.parameters * _KEPT * (1 + len(self.config.train.ema_also)) // shares,
            "activations": self.one.activations,
        }
        return {**held, "together": sum(held.values())}

    @property
    def _shares(self) -> int:
        """Over how many devices each weight is split."""
        return self.machine.devices if self.config.train.parallel == "fsdp" else 1

    def record(self) -> dict[str, Any]:
        """Plain data."""
        hours = self.machine.hours
        return {
            "parameters": self.parameters,
            "batch": {"all": self.config.train.batch_size, "at_once": self.at_once},
            "machine": attrs.asdict(self.machine),
            "flops": {
                "step": self.step_flops,
                "training": self.training_flops,
                "look": self.look_flops,
                "sample": self.sample_flops,
                "evaluation": self.evaluation_flops,
            },
            "looks": self.looks,
            "samples": self.samples,
            "memory": self.memory,
            "hours": {
                "training": hours(self.training_flops),
                "sample": hours(self.sample_flops),
                "evaluation": hours(self.evaluation_flops),
            },
            "remark": self.one.remark or None,
        }

    def lines(self) -> list[str]:
        """For people."""
        from .words import lines

        return lines(self)


def cost(
    config: Config,
    *,
    tflops: float | None = None,
    utilisation: float = 0.4,
    devices: int = 1,
    samples: int = 1000,
) -> CostReport:
    """Count what ``config`` costs."""
    machine = Machine(devices, tflops, utilisation)
    _check(machine, config)
    parts = build_parts(config)
    for name, there in (("denoiser", config.denoiser), ("data", parts.spec)):
        if there is None:
            raise ConfigError(f"{name}: what a config costs needs one, and this one names none")
    at_once = _at_once(config, devices)
    count, size = count_weights(config, parts.process.signature())
    return CostReport(
        parts.config,
        machine,
        count,
        at_once,
        count_pass(parts, at_once),
        count_update(parts),
        count_forward(parts),
        count_looks(parts),
        samples,
        size,
    )


def _at_once(config: Config, devices: int) -> int:
    """Examples that a device holds at the same time."""
    each: int = config.train.batch_size // devices
    micro: int | None = config.train.micro_batch
    return each if micro is None else min(each, micro)


def _check(machine: Machine, config: Config) -> None:
    if machine.tflops is not None and not machine.tflops > 0:
        raise ConfigError(f"--tflops {machine.tflops:g}: a device does more than nothing")
    if not 0 < machine.utilisation <= 1:
        raise ConfigError(
            f"--utilisation {machine.utilisation:g}: the share of the peak that is reached lies "
            "between 0 and 1"
        )
    if machine.devices < 1 or config.train.batch_size % machine.devices:
        raise ConfigError(
            f"--devices {machine.devices}: train.batch_size={config.train.batch_size} examples do "
            "not divide evenly among them"
        )
