"""torch's own random generators: the first weights of a network come from them, and dropout.

Everything else is keyed noise (:mod:`elbowroom.randomness.noise`). There is one generator for the
CPU and one for each accelerator; a run touches those of the CPU and of its own device, and no
other, which would be woken up by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_CPU = torch.device("cpu")


def seed_generators(seed: int, device: torch.device = _CPU) -> None:
    """Seed the generators of the CPU and of ``device``, whichever device is the current one.

    ``torch.manual_seed`` writes down who called it for every device that is not in use yet, each
    time: 0.1 ms and some memory that never comes back.
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
    """The generators of the CPU and of ``device`` are afterwards as they were."""
    if device.type == "cpu":
        with torch.random.fork_rng(devices=[]):
            yield
        return
    current = device == torch.device(device.type)
    index = torch.get_device_module(device).current_device() if current else device.index
    with torch.random.fork_rng(devices=[index], device_type=device.type):
        yield
