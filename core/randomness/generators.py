"""torch's random generators, used for the initial weights of a network and for dropout.

Everything else is keyed noise (:mod:`elbowroom.randomness.noise`). There is one generator for the
CPU and one for each accelerator; a run uses those of the CPU and of its device only, since seeding
another device would initialise it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_CPU = torch.device("cpu")


def seed_generators(seed: int, device: torch.device = _CPU) -> None:
    """Seed the generators of the CPU and of ``device``.

    ``torch.manual_seed`` also records the caller for every unused device: 0.1 ms and a small leak.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cpu":
        return
    module = torch.get_device_module(device)
    if device == torch.device(device.type):  # the current one
        module.manual_seed(seed)
        return
    with module.device(device):  # seeds go to the current one
        module.manual_seed(seed)


@contextmanager
def preserve_generators(device: torch.device = _CPU) -> Iterator[None]:
    """Restore the generators of the CPU and of ``device`` afterwards."""
    if device.type == "cpu":
        with torch.random.fork_rng(devices=[]):
            yield
        return
    current = device == torch.device(device.type)
    index = torch.get_device_module(device).current_device() if current else device.index
    with torch.random.fork_rng(devices=[index], device_type=device.type):
        yield
