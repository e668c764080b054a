"""A model at work outside training: on which device, and in which precision its network runs.

``bfloat16`` means what it means in training: the network, and only the network, under autocast.
Noise, levels and what a process computes stay in float32 or better.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from elbowroom import ConfigError, Diffusion
from elbowroom.runs import resolve_device, use_device
from torch import nn

from .host_memory import retain_memory

Precision = Literal["float32", "bfloat16"]
_PRECISIONS = ("float32", "bfloat16")


def check_precision(precision: str) -> None:
    """It must be one of those a network is run in."""
    if precision not in _PRECISIONS:
        raise ConfigError(f"precision {precision!r}: choose {' or '.join(_PRECISIONS)}")


def use_bfloat16(network: nn.Module, device: torch.device) -> None:
    """Run a network, and nothing around it, in bfloat16 where that is safe."""
    network.forward = torch.autocast(device.type, torch.bfloat16)(network.forward)


@contextmanager
def model_on(
    model: Diffusion, device: torch.device | str | None = None, precision: str = "float32"
) -> Iterator[torch.device]:
    """The model on a device, its network in a precision; both as they were afterwards.

    Without a ``device`` the model stays on the accelerator it is on, or else goes to what there is.
    """
    check_precision(precision)
    before = next((p.device for p in model.parameters()), torch.device("cpu"))
    there = before if device is None and before.type != "cpu" else resolve_device(device)
    own: Any = vars(model.denoiser).get("forward")  # None: that of its class
    model.to(there)
    if precision == "bfloat16":
        use_bfloat16(model.denoiser, there)
    try:
        with use_device(there), retain_memory(there):
            yield there
    finally:
        if own is not None:
            model.denoiser.forward = own
        else:
            vars(model.denoiser).pop("forward", None)
        model.to(before)
