"""Speed, measured side by side in one process.

Rivals are timed in turns, round after round, so that a busy machine is busy for all of them. Our
train step and the bare loop stand side by side and change places every other round, so that each
follows the other as often as it follows the rest. What is told are medians with their spread,
ratios within a round, and shares of the matrix-multiply peak measured in the same rounds.

    overhead     our train step / a bare loop of the same network, loss and optimiser, written out
                 below as one would by hand; for masked processes and Gaussian ones that predict v
    peak share   floating-point operations of matrix products and convolutions / time / the peak
"""

from __future__ import annotations

import itertools
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import attrs
import torch
from torch import Tensor
from torch.nn import functional as F

from .assembly import Parts, build_model, build_parts
from .config import Config
from .dataset import Batch, Dataset
from .diffusion import Diffusion
from .distributed import Ranks
from .errors import ConfigError, ElbowroomError
from .noise import Noise
from .registry import Registry
from .sampler import Sampler
from .update import Training

_SIDE = 1024  # of the matrices whose product is the peak


@attrs.frozen
class Timing:
    """The seconds something took, round by round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the range of the middle half, relative to the median."""
        if len(self.seconds) < 4:
            return (max(self.seconds) - min(self.seconds)) / 2 / self.median
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.median

    @property
    def interval(self) -> tuple[float, float]:
        """Where the median itself lies, 95 times in 100 or more; the range of few rounds.

        Each round is above the true median or below it, as a coin falls: that alone says how many
        rounds from either end it can be, whatever their distribution.
        """
        n, values = len(self.seconds), sorted(self.seconds)
        beyond = itertools.accumulate(math.comb(n, k) / 2**n for k in range(n // 2))
        k = sum(chance <= 0.025 for chance in beyond)
        return values[max(k - 1, 0)], values[min(n - k, n - 1)]

    def over(self, other: Timing) -> Timing:
        """The ratio to a rival, within each round."""
        return Timing(tuple(a / b for a, b in zip(self.seconds, other.seconds, strict=True)))


@attrs.frozen(eq=False)
class BenchReport:
    """What was measured."""

    timings: Mapping[str, Timing]
    flops: Mapping[str, float]  # floating-point operations of one call
    batch_size: int
    sampler_calls: Mapping[str, float]  # network calls a sample
    parameters: int
    peak_bytes: int

    @property
    def peak(self) -> float:
        """Operations a second of a large matrix product."""
        return 2 * _SIDE**3 / self.timings["matmul"].median

    @property
    def overhead(self) -> Timing | None:
        """Our train step over the bare loop, where there is one."""
        bare = self.timings.get("bare loop")
        return None if bare is None else self.timings["train step"].over(bare)

    def record(self) -> dict[str, Any]:
        """Plain numbers."""
        rows = {}
        for name, timing in self.timings.items():
            rows[name] = {"seconds": timing.median, "spread": timing.spread}
            if name in self.flops:
                rows[name]["peak_share"] = self.flops[name] / timing.median / self.peak
            if name in self.sampler_calls:
                rows[name]["calls"] = self.sampler_calls[name]
        return {
            "timings": rows,
            "images_per_second": self.batch_size / self.timings["train step"].median,
            "overhead": None if self.overhead is None else _ratio(self.overhead),
            "matmul_flops": self.peak,
            "parameters": self.parameters,
            "peak_bytes": self.peak_bytes,
            "threads": torch.get_num_threads(),
        }


def _ratio(ratio: Timing) -> dict[str, float]:
    low, high = ratio.interval
    return {"ratio": ratio.median, "low": low, "high": high}


def bench(
    config: Config,
    registry: Registry,
    *,
    rounds: int = 7,
    samples: int = 16,
    only: Collection[str] | None = None,
    watch: Callable[[int, str], None] = lambda *_: None,
) -> BenchReport:
    """Time a config's training and sampling; ``only`` names the samplers, None takes all."""
    parts = build_parts(config)
    if parts.data is None:
        raise ConfigError("data: a benchmark needs a data set, and this config names none")
    samplers = _chosen(_samplers(parts, registry), only)
    ours = _training(parts, parts.data)
    feed = ours.training.feed
    training: dict[str, Callable[[], object]] = {
        "matmul": _matmul(),
        "data": lambda: feed.split.take(feed.rows(0)),
        "train step": ours.turn,
    }
    if _can_be_written_out(parts):
        training["bare loop"] = _BareLoop(parts, parts.data).turn
    labels, calls = _labels(parts.data, samples), dict[str, float]()
    sampling = {
        f"sampler {name}": _sampling(ours.model, sampler, samples, labels, calls, name)
        for name, sampler in samplers.items()
    }
    for _ in range(2):  # allocators, kernels and caches
        for run in training.values():
            run()
    rivals = {**sampling, **training}
    seconds: dict[str, list[float]] = {name: [] for name in [*training, *sampling]}
    for turn in range(rounds):
        for name in _order(list(rivals), turn):
            watch(turn, name)
            began = time.perf_counter()
            rivals[name]()
            seconds[name].append(time.perf_counter() - began)
    flops = {name: _flops(run) for name, run in rivals.items() if name != "data"}
    feed.close()
    model = ours.model
    return BenchReport(
        {name: Timing(tuple(values)) for name, values in seconds.items()},
        flops,
        config.train.batch_size,
        {f"sampler {name}": value for name, value in calls.items()},
        sum(p.numel() for p in model.parameters()),
        peak_memory(),
    )


def _order(names: list[str], turn: int) -> list[str]:
    """The last two change places every other turn: our train step and the bare loop, if any."""
    return [*names[:-2], *names[-2:][:: -1 if turn % 2 else 1]]


def peak_memory() -> int:
    """The most memory this process ever held, in bytes."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else 1024 * held


# -- the rivals


@attrs.define(eq=False)
class _Ours:
    training: Training
    model: Diffusion
    n: int = 0

    def turn(self) -> None:
        self.training.step(self.n)
        self.n += 1


def _can_be_written_out(parts: Parts) -> bool:
    """Does the bare loop below compute the loss of this process?"""
    says = getattr(parts.process, "predict", None)
    return "absorbing" in parts.process.traits or says == "v"


def _training(parts: Parts, data: Dataset) -> _Ours:
    model = build_model(parts)
    on = Ranks(torch.device("cpu"))
    return _Ours(Training(model, data, parts.config.train, seed=0, on=on), model)


class _BareLoop:
    """What one would write by hand for this network: no framework, global randomness."""

    def __init__(self, parts: Parts, data: Dataset) -> None:
        model = build_model(parts)
        self.objective, self.network = model.objective, model.denoiser.train()
        options = parts.config.train
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(),
            lr=options.learning_rate,
            betas=options.betas,
            weight_decay=options.weight_decay,
            fused=True,
        )
        self.average = [p.detach().clone() for p in self.network.parameters()]
        self.decay = options.ema
        self.levels = data.spec.levels
        self.batch: Batch = data.split("train").take(
            torch.arange(options.batch_size) % len(data.split("train"))
        )
        self.loss = self._masked if model.process.signature().in_states else self._gaussian

    def turn(self) -> None:
        t = (torch.rand(()) + torch.arange(len(self.batch.x)) / len(self.batch.x)) % 1
        loss = self.loss(self.batch.x, t, self.objective.plain_weight(t))
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        parameters = [p.detach() for p in self.network.parameters()]
        torch._foreach_lerp_(self.average, parameters, 1 - self.decay)

    def _masked(self, x: Tensor, t: Tensor, weight: Tensor) -> Tensor:
        share = self.objective.schedule.log_snr(t).sigmoid()
        hidden = torch.rand(x.shape) >= share.reshape(-1, *(1,) * (x.ndim - 1))
        logits = self.network(torch.where(hidden, self.levels, x), None, self.batch.y)
        asked = torch.where(hidden, x, -100).flatten()
        each = F.cross_entropy(logits.flatten(0, -2), asked, reduction="none", ignore_index=-100)
        return (each.reshape(len(x), -1).sum(1) * weight).mean()

    def _gaussian(self, x: Tensor, t: Tensor, weight: Tensor) -> Tensor:
        log_snr = self.objective.schedule.log_snr(t)
        real = (2 * x.float() + 1) / self.levels - 1
        spread = (-1, *(1,) * (x.ndim - 1))
        a = log_snr.sigmoid().sqrt().reshape(spread)
        b = (-log_snr).sigmoid().sqrt().reshape(spread)
        eps = torch.randn_like(real)
        z = a * real + b * eps
        said = self.network(z, log_snr, self.batch.y)
        error: Tensor = b * z + a * said - eps
        return ((error**2 / 2).reshape(len(x), -1).sum(1) * weight).mean()


def _matmul() -> Callable[[], object]:
    a, b = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
    return lambda: a @ b


def _samplers(parts: Parts, registry: Registry) -> dict[str, Sampler]:
    """Every registered sampler that serves the process, and ancestral sampling step by step."""
    steps = parts.sampler.steps if parts.sampler is not None else 64
    found: dict[str, Sampler] = {}
    for name, component in registry.components("sampler").items():
        try:
            sampler: Sampler = component.load()(steps=steps)
        except (TypeError, ElbowroomError):  # it needs more than a number of steps
            continue
        if sampler.needs <= parts.process.traits:
            found[name] = sampler
    walking = found.get("ancestral")
    if walking is not None and hasattr(walking, "skip"):
        # a step-by-step walk is an option of this sampler, not of the contract
        found["ancestral, every step"] = attrs.evolve(walking, skip=False)  # type: ignore[call-arg]
    return found


def _chosen(found: dict[str, Sampler], only: Collection[str] | None) -> dict[str, Sampler]:
    if only is None:
        return found
    for name in only:
        if name not in found:
            known = ", ".join(found)
            raise ConfigError(f"--sampler {name}: none of that name serves here; there are {known}")
    return {name: sampler for name, sampler in found.items() if name in only}


def _labels(data: Dataset, count: int) -> Tensor | None:
    return None if data.spec.classes is None else torch.arange(count) % data.spec.classes


def _sampling(
    model: Diffusion,
    sampler: Sampler,
    count: int,
    labels: Tensor | None,
    calls: dict[str, float],
    name: str,
) -> Callable[[], object]:
    def run() -> None:
        model.eval()
        with torch.no_grad():
            drawn = sampler.sample(model, Noise.of(0, count), labels)
        calls[name] = float(drawn.calls.double().mean())
        model.train()

    return run


def _flops(step: Callable[[], object]) -> float:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        step()
    return float(counter.get_total_flops())
