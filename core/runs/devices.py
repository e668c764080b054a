"""The device to compute on."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from ..errors import ConfigError


def resolve_device(
    device: torch.device | str | None = None, default_index: int = 0
) -> torch.device:
    """An available device: ``device``, or a GPU if available, else the CPU.

    An accelerator type without an index gets ``default_index``.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    wanted = _named(device)
    if wanted.type == "cpu":
        return torch.device("cpu")
    if wanted.type == "mps":
        raise ConfigError("device 'mps': it has no float64, which levels and noise are computed in")
    count = _count(wanted.type)
    if not count:
        what = "GPU" if wanted.type == "cuda" else wanted.type
        raise ConfigError(f"device '{wanted}': this machine has no {what} that torch can use")
    index = default_index if wanted.index is None else wanted.index
    if index >= count:
        raise ConfigError(
            f"device '{wanted.type}:{index}': this machine has {count}, counted from 0"
        )
    return torch.device(wanted.type, index)


def check_device(device: str | None) -> None:
    """Raise unless torch has devices of this name; it may be missing on this machine."""
    if device is not None:
        _named(device)


def _named(device: torch.device | str) -> torch.device:
    try:
        return torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        raise ConfigError(
            f"device {device!r} is not a torch device. Use cpu, cuda or cuda:N."
        ) from None


def use_device(device: torch.device) -> AbstractContextManager[None]:
    """Make a device the current one."""
    return torch.accelerator.device_index(None if device.type == "cpu" else device.index)


def _count(kind: str) -> int:
    """How many devices of a kind torch can use here."""
    try:
        module = torch.get_device_module(kind)
    except RuntimeError:
        return 0
    return int(module.device_count()) if module.is_available() else 0
