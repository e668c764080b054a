"""Sizes: what a config asks of memory at the very least, beside what there is.

    network    its parameters, counted on torch's meta device, which has shapes but no memory
    training   five times that: weights, gradients, AdamW's two moments and the average; further
               averages are further times
    batch      examples, z and losses, 16 bytes a dimension, and 4 for each logit, of the examples
               that a rank works on at once
    path       the five numbers of a level, for each step of a sampler
    samples    8 bytes a dimension

These are lower bounds, and all memory of the machine counts as free: what is refused here could not
have run, while what passes may still be too large.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from ..errors import ConfigError
from .messages import bytes_in_words

if TYPE_CHECKING:
    import torch

    from ..contracts.dataset import DataSpec
    from ..contracts.process import Signature
    from ..objective.diffusion import Diffusion
    from ..runs.ranks import Ranks
    from .sections import Train
    from .spec import ComponentSpec

_LARGE = 2048  # options beyond this are first tried at two small values
_SMALL = (48, 96)  # with many divisors
_WORTH = 512  # networks with no option this large are small enough to be built at once
_MODULE = 1024  # bytes that a module takes besides its tensors, at the least
_STATES = 5  # what training keeps for each parameter


def check_example(spec: DataSpec) -> None:
    """One example, its z and its losses."""
    _refuse(f"data: one example of shape {list(spec.shape)}", 16 * spec.dims)


def check_path(steps: int) -> None:
    """The levels of a sampler's path."""
    _refuse(f"sampler.steps={steps}: a path of so many levels", 40 * steps)


def check_samples(count: int, spec: DataSpec) -> None:
    """All samples of a call together."""
    _refuse(f"{count} samples of shape {list(spec.shape)}", 8 * count * spec.dims)


def check_labels(count: int) -> None:
    """The label of each sample of a call."""
    _refuse(f"{count} samples: their labels alone", 8 * count)


def check_batch(options: Train, signature: Signature, ranks: Ranks) -> None:
    """The examples that a rank works on at once."""
    each = math.prod(signature.shape) * (16 + 4 * (signature.out_states or 0))
    what = f"train.batch_size={options.batch_size}: a batch without train.micro_batch"
    if options.micro_batch is not None:
        what = f"train.micro_batch={options.micro_batch}: a micro batch"
    _refuse(what, at_once(options, ranks) * each, ranks.device)


def at_once(options: Train, ranks: Ranks) -> int:
    """How many examples a rank works on at once."""
    mine = options.batch_size // ranks.world
    return mine if options.micro_batch is None else min(mine, options.micro_batch)


def check_room_to_train(model: Diffusion, options: Train, ranks: Ranks) -> None:
    """What is kept of every parameter while it is trained."""
    held = sum(p.numel() * p.element_size() for p in model.parameters())
    shares = ranks.world if options.parallel == "fsdp" else 1
    what = f"training a network whose weights take {bytes_in_words(held)}"
    _refuse(what, (_STATES + len(options.ema_also)) * held // shares, ranks.device)


def check_network(spec: ComponentSpec, signature: Signature) -> None:
    """The parameters of a network that is not built yet."""
    said = {k: v for k, v in spec.options.items() if type(v) is int and v >= _WORTH}
    if spec.instance is not None or not said:
        return
    what = f"denoiser '{spec.name}' with {', '.join(f'{k}={v}' for k, v in said.items())}"
    large = {name: value for name, value in said.items() if value > _LARGE}
    small = _changed(spec, **dict.fromkeys(large, _SMALL[0]))
    for name, value in large.items():
        # depth grows a network evenly, width faster: a straight line is a bound
        first, second = (_bytes(_changed(small, **{name: n}), signature) for n in _SMALL)
        slope = (second - first) / (_SMALL[1] - _SMALL[0])
        _refuse(what, first + slope * (value - _SMALL[0]))
    _refuse(what, _bytes(spec, signature))


def _changed(spec: ComponentSpec, **options: int) -> ComponentSpec:
    return attrs.evolve(spec, options={**spec.options, **options})


def network_without_memory(spec: ComponentSpec, signature: Signature) -> torch.nn.Module:
    """The network on torch's meta device."""
    import torch

    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network: torch.nn.Module = spec.build(signature)
    return network


def _bytes(spec: ComponentSpec, signature: Signature) -> float:
    """What a network takes; NaN where that cannot be known without building it."""
    try:
        network = network_without_memory(spec, signature)
        tensors = sum(t.numel() * t.element_size() for t in network.parameters())
        return tensors + _MODULE * sum(1 for _ in network.modules())
    except Exception as error:  # whatever it is, building it for good will say so better
        return math.inf if "overflow" in str(error).lower() else math.nan


def _refuse(what: str, least: float, device: torch.device | str = "cpu") -> None:
    has = memory(device)
    if least > has:  # never so for NaN
        where = "this machine" if str(device).startswith("cpu") else f"device {device}"
        takes = "more than 2^63 numbers" if least == math.inf else bytes_in_words(least)
        raise ConfigError(
            f"{what} takes {takes} at the least, and {where} has {bytes_in_words(has)} of memory "
            "in all"
        )


def memory(device: torch.device | str = "cpu") -> float:
    """All memory of a device in bytes, used or not; infinite where it cannot be known."""
    if str(device).startswith("cuda"):
        import torch

        return float(torch.cuda.get_device_properties(device).total_memory)
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # no such question on this system
        return math.inf
    container = _number_in("/sys/fs/cgroup/memory.max", r"(\d+)", otherwise=math.inf)
    swap = _number_in("/proc/meminfo", r"SwapTotal:\s*(\d+) kB", otherwise=0.0)
    return min(physical, container) + 1024 * swap


def _number_in(file: str, pattern: str, otherwise: float) -> float:
    """A number the system writes into a file."""
    try:
        found = re.search(pattern, Path(file).read_text("ascii"))
    except (OSError, ValueError):
        return otherwise
    return float(found[1]) if found else otherwise
