"""Speed of a config, measured in interleaved rounds of one process.

All candidates are timed in every round, so that a busy machine slows all of them. The train step
and the bare loop are neighbours and change places every other round. Reported are medians, and
ratios within a round:

    overhead                   our train step / bare loop
    overhead without network   (our train step - bare loop, both with a network that replays its
                               first output) / our train step: free of the network's own variation
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import attrs
import torch
from elbowroom import Config, ConfigError, Diffusion, ElbowroomError, Noise, Sampler
from elbowroom.config import Parts, build_model, build_parts
from elbowroom.plugins.training.host_memory import retain_memory
from elbowroom.plugins.training.ranks import Ranks
from elbowroom.plugins.training.step import Training
from elbowroom.registry import Registry
from torch import Tensor

from .loops import BareLoop, ReplayNetwork, has_bare_loop

_OURS, _BARE, _REPLAY = "train step", "bare loop", "{}, replayed network"

Candidates = dict[str, Callable[[], object]]


@attrs.frozen
class Timing:
    """Seconds of each round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.seconds)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the median, by order statistics; the range of few rounds."""
        n, values = len(self.seconds), sorted(self.seconds)
        beyond = itertools.accumulate(math.comb(n, k) / 2**n for k in range(n // 2))
        k = sum(chance <= 0.025 for chance in beyond)
        return values[max(k - 1, 0)], values[min(n - k, n - 1)]

    def over(self, other: Timing) -> Timing:
        """Ratio within each round."""
        return Timing(tuple(a / b for a, b in zip(self.seconds, other.seconds, strict=True)))

    def minus(self, other: Timing) -> Timing:
        """Difference within each round."""
        return Timing(tuple(a - b for a, b in zip(self.seconds, other.seconds, strict=True)))


@attrs.frozen(eq=False)
class BenchReport:
    """Timings of one config."""

    timings: Mapping[str, Timing]
    batch_size: int
    calls: Mapping[str, float]  # network calls per sample, of each sampler
    parameters: int

    @property
    def overhead(self) -> Timing | None:
        """Our train step over the bare loop; None without a bare loop."""
        bare = self.timings.get(_BARE)
        return None if bare is None else self.timings[_OURS].over(bare)

    @property
    def overhead_without_network(self) -> Timing | None:
        """The difference to the bare loop outside the network, as a share of our train step."""
        ours, bare = (self.timings.get(_REPLAY.format(name)) for name in (_OURS, _BARE))
        return None if ours is None or bare is None else ours.minus(bare).over(self.timings[_OURS])

    def record(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "timings": {
                name: {
                    "seconds": timing.median,
                    "interval": list(timing.interval),
                    "calls": self.calls.get(name),
                }
                for name, timing in self.timings.items()
            },
            "images_per_second": self.batch_size / self.timings[_OURS].median,
            "overhead": _ratio(self.overhead),
            "overhead_without_network": _ratio(self.overhead_without_network),
            "parameters": self.parameters,
            "threads": torch.get_num_threads(),
        }


def _ratio(ratio: Timing | None) -> dict[str, float] | None:
    if ratio is None:
        return None
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
    """Time the train step and the samplers of a config.

    Args:
        config: The config to measure.
        registry: Where samplers are looked up.
        rounds: How often each candidate is timed.
        samples: Samples drawn per round and sampler.
        only: Names of samplers; None for all that fit the process.
        watch: Called with the round and the candidate's name before each measurement.

    Returns:
        The timings of all candidates.

    Raises:
        ConfigError: The config has no data set, or ``only`` names an unknown sampler.
    """
    parts = build_parts(config)
    if parts.data is None:
        raise ConfigError("data: missing. Name a data set, e.g. data: digits")
    samplers = _chosen(_samplers(parts, registry), only)
    model = build_model(parts)
    training = Training(
        model, parts.data, parts.config.train, seed=0, ranks=Ranks(torch.device("cpu"))
    )
    network = model.denoiser = ReplayNetwork(model.denoiser)
    steps = itertools.count()
    loops: dict[str, tuple[ReplayNetwork, Callable[[], object]]] = {
        _OURS: (network, lambda: training.step(next(steps)))
    }
    if has_bare_loop(parts):
        bare = BareLoop(parts, parts.data)
        loops[_BARE] = (bare.network, bare.step)
    classes, calls = parts.data.spec.classes, dict[str, float]()
    labels = None if classes is None else torch.arange(samples) % classes
    groups: list[Candidates] = [
        {
            name: _sampling(model, one, samples, labels, calls, name)
            for name, one in samplers.items()
        },
        {_REPLAY.format(name): _replayed(*loop) for name, loop in loops.items()},
        {name: step for name, (_, step) in loops.items()},
    ]
    with retain_memory(torch.device("cpu")):  # as in a run
        timings = _timed(groups, rounds, watch)
    training.batches.close()
    count = sum(p.numel() for p in model.parameters())
    return BenchReport(timings, config.train.batch_size, calls, count)


def _timed(
    groups: list[Candidates], rounds: int, watch: Callable[[int, str], None]
) -> dict[str, Timing]:
    """Time every candidate in every round, forwards and backwards within each group."""
    candidates = {name: run for group in groups for name, run in group.items()}
    for _ in range(2):  # warm up allocators and caches, and record the network's output
        for group in reversed(groups[1:]):
            for run in group.values():
                run()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for n in range(rounds):
        step = -1 if n % 2 else 1
        for name in itertools.chain.from_iterable(list(group)[::step] for group in groups):
            watch(n, name)
            began = time.perf_counter()
            candidates[name]()
            seconds[name].append(time.perf_counter() - began)
    return {name: Timing(tuple(seconds[name])) for group in groups[::-1] for name in group}


def _replayed(network: ReplayNetwork, step: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        network.replay = True
        step()
        network.replay = False

    return run


def _samplers(parts: Parts, registry: Registry) -> dict[str, Sampler]:
    """All samplers that fit the process, and ancestral sampling without skipped steps."""
    steps = parts.sampler.steps if parts.sampler is not None else 64
    found: dict[str, Sampler] = {}
    for name, component in registry.components("sampler").items():
        try:
            sampler: Sampler = component.load()(steps=steps)
        except (TypeError, ElbowroomError):  # needs more than a number of steps
            continue
        if sampler.needs <= parts.process.traits:
            found[f"sampler {name}"] = sampler
    ancestral = found.get("sampler ancestral")
    if ancestral is not None and hasattr(ancestral, "skip"):
        # an option of this sampler, not of the contract
        found["sampler ancestral, every step"] = attrs.evolve(ancestral, skip=False)  # type: ignore[call-arg]
    return found


def _chosen(found: dict[str, Sampler], only: Collection[str] | None) -> dict[str, Sampler]:
    if only is None:
        return found
    for name in only:
        if f"sampler {name}" not in found:
            known = ", ".join(one.removeprefix("sampler ") for one in found)
            raise ConfigError(f"--sampler {name}: not a sampler of this process. Known: {known}")
    return {f"sampler {name}": found[f"sampler {name}"] for name in only}


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
