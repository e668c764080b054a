"""Updates until the end: the outer loop, and what it writes down.

It logs, evaluates the averaged model on the validation split, saves checkpoints, tells observers,
and stops when asked to or when a number is not finite.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
import torch
from elbowroom import Dataset, DataSpec, Diffusion, ElbowroomError, RunError, RunEvent
from elbowroom.contracts import check_submodules
from elbowroom.plugins.conformance.component_checks import check_training
from elbowroom.randomness import preserve_generators
from elbowroom.runs import (
    VALIDATION,
    Checkpoint,
    LogDigest,
    RunFolder,
    State,
    best as best_of,
    find_checkpoints,
    named_tensors,
    prune,
    write_checkpoint,
)
from torch import Tensor

from .disk_space import check_free_space
from .host_memory import retain_memory
from .micro_batches import check_linear
from .non_finite import NonFiniteError, dump, not_finite, numbers
from .observers import Observers
from .ranks import Ranks, full_tensor, gather_tensors, lost_rank
from .section import Train
from .signals import Interrupt
from .step import Training, check_label_dropout, check_sharding
from .validation import shown, validate

INTERRUPTED = 75
"""Exit code of a run that was asked to stop and saved itself ("try again later")."""

_BEAT = 1.0  # seconds between two words of progress


@attrs.frozen
class RunResult:
    """How a run ended, and where everything is."""

    folder: Path
    step: int
    steps: int
    reason: Literal["finished", "interrupted"]
    latest: Path | None  # checkpoint
    best: Path | None  # the checkpoint with the lowest EMA bits/dim on validation
    scalars: Mapping[str, float]  # the last ones logged
    seconds: float  # of training, over all sittings
    failed: Mapping[str, str] = attrs.Factory(dict)  # observers that did: where and how
    remarks: Sequence[str] = ()  # of observers, for the user
    signal: str | None = None  # the one that interrupted this process, like "SIGTERM"

    @property
    def exit_code(self) -> int:
        """0, or what tells a job scheduler to resume."""
        return 0 if self.reason == "finished" else INTERRUPTED


class InterruptedRun(ElbowroomError):
    """A run that a signal stopped; its last checkpoint is of the step it was stopped at."""

    exit_code: ClassVar[int] = INTERRUPTED

    def __init__(self, result: RunResult) -> None:
        by = f" by {result.signal}" if result.signal else ""
        super().__init__(
            f"the run was interrupted{by} at step {result.step} of {result.steps} and saved; "
            f"continue with elbowroom.resume({str(result.folder)!r})"
        )
        self.result = result


@attrs.frozen
class Start:
    """Where a run goes on: from a checkpoint, or from its beginning."""

    checkpoint: Checkpoint | None = None

    @classmethod
    def of(cls, folder: RunFolder, ranks: Ranks) -> Start:
        """The last good checkpoint; the first rank alone compares its bytes, each rank asks."""

        def chosen() -> int | None:
            found = folder.start()
            return None if found is None else found.step

        step = ranks.first(chosen)
        return cls(None if step is None else folder.at(step))

    @property
    def step(self) -> int:
        """How many updates are made already."""
        return 0 if self.checkpoint is None else self.checkpoint.step

    @property
    def seconds(self) -> float:
        """Of training before it."""
        return self._state.seconds or 0.0

    @property
    def log(self) -> Mapping[str, Any] | None:
        """What the run's log was at this step, if that was written down."""
        return self._state.log

    def check_data(self, now: DataSpec) -> None:
        """Refuse data whose numbers mean something else than they did."""
        then = self._state.data
        if then is not None and not now.fits(DataSpec.recorded(then)):
            raise RunError(
                "the data are not those it was trained on: their shape, levels or tokens have "
                "changed; bring the old ones back, or begin a new run"
            )

    @property
    def _state(self) -> State:
        return State() if self.checkpoint is None else self.checkpoint.state


def fit(
    model: Diffusion,
    data: Dataset,
    folder: RunFolder,
    options: Train | None = None,
    *,
    seed: int = 0,
    ranks: Ranks | None = None,
    record: State | None = None,
    observers: Observers | None = None,
) -> RunResult:
    """Train ``model`` in a folder, from its last good checkpoint if it has one.

    ``record`` is what checkpoints say about the run: its config and provenance.
    """
    options = options or Train()
    ranks = ranks or Ranks(next(model.parameters()).device)
    check_run(model, data, options, ranks)
    return fit_checked(
        model, data, folder, options, seed=seed, ranks=ranks, record=record, observers=observers
    )


def check_run(model: Diffusion, data: Dataset, options: Train, ranks: Ranks) -> None:
    """Refuse what can be known to fail, or to train in silence for nothing, before it begins."""
    check_label_dropout(model, options, data.spec.classes)
    check_submodules(model.objective.weighting)
    check_sharding(options, ranks)
    if options.micro_batch is not None:
        check_linear(model)
    check_training(model, data, ranks.device)


def fit_checked(
    model: Diffusion,
    data: Dataset,
    folder: RunFolder,
    options: Train,
    *,
    seed: int,
    ranks: Ranks,
    record: State | None = None,
    observers: Observers | None = None,
    start: Start | None = None,
) -> RunResult:
    """:func:`fit` after :func:`check_run`, which a caller asks before anything is written.

    ``start`` is where the run goes on, if that is known already.
    """
    observers = observers or Observers()
    record = attrs.evolve(record or State(), data=attrs.asdict(data.spec))
    begins = start or Start.of(folder, ranks)
    begins.check_data(data.spec)
    ranks.first(lambda: folder.rewind(begins.step, begins.log))
    first = begins.step
    device = ranks.device
    with retain_memory(device), preserve_generators(device), Interrupt() as interrupt:
        training = Training(model, data, options, seed=seed, ranks=ranks, start=first)
        if begins.checkpoint is not None:
            training.restore(begins.checkpoint)
        ranks.first(lambda: check_free_space(folder.checkpoints, training.size()))
        told = observers if ranks.is_first else Observers()
        run = _Run(training, data, folder, record=record, observers=told, start=begins)
        run.tell("run_started", first)
        try:
            result = run.go(first, interrupt)
        except BaseException as error:
            lost = lost_rank(error, folder.path)
            why = (str(lost or error).splitlines() or [type(error).__name__])[0]
            run.tell("run_ended", run.done, reason=f"failed: {why}")
            if lost is None:
                raise
            raise lost from error
        finally:
            training.feed.close()
        run.tell("run_ended", result.step, result.scalars, reason=result.reason)
        return result


class _Run:
    """The outer loop, and what it writes down."""

    def __init__(
        self,
        training: Training,
        data: Dataset,
        folder: RunFolder,
        *,
        record: State,
        observers: Observers,
        start: Start,
    ) -> None:
        self.training, self.data, self.folder = training, data, folder
        self.options, self.ranks = training.options, training.ranks
        self.record, self.observers = record, observers
        self.done = start.step
        self.scalars: dict[str, float] = {}
        self.lowest = float("inf")
        if champion := best_of(find_checkpoints(folder.checkpoints)[0]):
            self.lowest = champion.validation or self.lowest
        self.seconds = start.seconds
        self.log_so_far = LogDigest.of(folder.log) if self.ranks.is_first else LogDigest()
        self.clock, self.since = time.perf_counter(), self.done
        self.next_beat = 0.0

    def go(self, first: int, interrupt: Interrupt) -> RunResult:
        """Updates until the end, or until someone asks to stop."""
        options, reason = self.options, "finished"
        at_once = self.ranks.device.type == "cpu"  # reading a flag there costs nothing
        for n in range(first, options.steps):
            self.training.step(n)
            self.done = n + 1
            self.beat()
            last = self.done == options.steps
            logs = last or not self.done % options.log_every
            evaluates = options.evaluate_every and (last or not self.done % options.evaluate_every)
            if at_once or logs or evaluates:
                self.check()
            if logs:
                self.log(n)
            measurements = self.evaluate() if evaluates else {}
            better = self.improved(measurements)
            if self.ranks.any(interrupt.asked is not None) and not last:
                reason = "interrupted"
            stops = last or reason == "interrupted"
            due = not self.done % options.save_every or self.done in options.milestones
            if stops or better or due:
                self.save(measurements)
            if stops:
                break
        return self.result(reason, interrupt.asked)

    def beat(self, doing: str = "training") -> None:
        """Say where the run is, once a second and when that changes; no device is asked."""
        now = time.monotonic()
        if now >= self.next_beat or doing != "training":
            self.next_beat = now + _BEAT
            self.tell("progressed", self.done, doing=doing)

    def check(self) -> None:
        """Stop if some step was not finite; nothing has changed since."""
        step = self.training.guard.first_bad()
        if step is not None:
            raise self.fault(step)

    def log(self, n: int) -> None:
        """Say what happened since the last time."""
        scalars, curves = self.training.window.measurements()
        for part in self.training.model.adaptive:
            curves |= part.curves()
        self.training.window.clear()
        now = time.perf_counter()
        passed, self.clock = now - self.clock, now
        self.seconds += passed
        speed = (self.done - self.since) * self.options.batch_size / max(passed, 1e-9)
        self.since = self.done
        scalars |= {"learning_rate": self.training.rate(n), "images_per_second": speed}
        scalars |= self.observers.scalars(
            self.event(self.done, scalars, curves=curves), self.training.model
        )
        self.scalars |= scalars
        self.write(scalars, {name: [_short(x), _short(y)] for name, (x, y) in curves.items()})
        self.tell("step_logged", self.done, scalars, curves=curves)

    def evaluate(self) -> dict[str, float]:
        """The averaged model on the validation split."""
        began = time.perf_counter()
        self.beat("validating")
        model, ranks = self.training.model, self.ranks
        split = self.data.split("validation")
        measurements: dict[str, float] = {}
        model.eval()
        with self.training.ema.applied():
            if len(split) and model.process.has_likelihood:
                measurements = validate(model, split, ranks, _batch_of_rank(self.options, ranks))
            samples = shown(model)
        model.train()
        self.scalars |= measurements
        self.write(measurements)
        self.tell("evaluated", self.done, measurements, **samples)
        self.clock += time.perf_counter() - began  # not training time
        return measurements

    def improved(self, measurements: Mapping[str, float]) -> bool:
        """Is this the best model so far?"""
        value = measurements.get(VALIDATION, float("inf"))
        better = value < self.lowest
        self.lowest = min(value, self.lowest)
        return better

    def save(self, measurements: Mapping[str, float]) -> None:
        """A checkpoint of this moment; older ones go."""
        self.check()
        began = time.perf_counter()
        parts = self.training.tensors()
        state = attrs.evolve(
            self.record,
            step=self.done,
            validation=measurements,
            seconds=self.seconds + began - self.clock,
            log=self.log_so_far.record(),
        )

        def write() -> str:
            path = write_checkpoint(self.folder.checkpoints, parts, state)
            self.folder.record_first_checkpoint(self.done)
            prune(self.folder.checkpoints, self.options.keep, self.options.milestones)
            return str(path)

        path = Path(self.ranks.first(write))
        self.tell("checkpoint_saved", self.done, measurements, path=path)
        self.clock += time.perf_counter() - began

    def fault(self, step: int) -> NonFiniteError:
        """Run the bad step again to see where it breaks, and write that down."""
        training, ranks = self.training, self.ranks
        training.updates.zero_grad()
        with torch.autograd.set_detect_anomaly(False):  # the user's would raise here
            losses = training.gradients(step)
        named = training.model.named_parameters()
        gradients = not_finite(
            [(name, full_tensor(p.grad)) for name, p in named if p.grad is not None]
        )
        weights = gather_tensors(named_tensors(training.model), ranks)
        log_snr = losses.log_snr if losses.log_snr.ndim == 1 else losses.log_snr.flatten(1).mean(1)
        examples, lam, each = map(
            self.of_all, (training.feed.rows(step), log_snr, losses.per_example)
        )
        times = training.model.schedule.time(lam)
        bad = (~torch.isfinite(each)).nonzero().flatten().tolist()
        measurements = {
            "step": step,
            "seed": training.seed,
            "ranks": ranks.world,
            "loss": numbers(ranks.mean(losses.loss))[0],
            "examples": examples.long().tolist(),
            "t": numbers(times),
            "log_snr": numbers(lam),
            "losses": numbers(each),
            "bad_positions": bad,
            "bad_gradients": gradients,
            "reproduced": bool(bad or gradients),
            "data": self.record.data,
            "config": self.record.config,
            "provenance": self.record.provenance,
        }
        place = None
        if ranks.is_first:
            place = dump(self.folder.path / "fault", step, weights, measurements)
        at = f"at t = {float(times[bad[0]]):.4g}" if bad else f"in {len(gradients)} gradients"
        kept = f"; what reproduces it is in {place}" if place else ""
        return NonFiniteError(
            f"step {step}: loss or gradient is not finite ({at}); the run stopped before it could "
            f"harm the weights, and what was saved before is good{kept}",
            step,
            place,
        )

    def of_all(self, values: Tensor) -> Tensor:
        """[total] on the CPU: what the ranks say of their parts of a batch, put together."""
        together = torch.zeros(
            self.options.batch_size, dtype=torch.float64, device=self.ranks.device
        )
        together[self.training.feed.positions] = values.detach().to(together)
        return self.ranks.sum(together).cpu()

    def result(self, reason: str, signal: str | None) -> RunResult:
        """How it ended."""
        found = find_checkpoints(self.folder.checkpoints)[0] if self.ranks.is_first else []
        champion = best_of(found)
        return RunResult(
            self.folder.path,
            self.done,
            self.options.steps,
            "finished" if reason == "finished" else "interrupted",
            found[-1].path if found else None,
            champion.path if champion else None,
            self.scalars,
            self.seconds,
            self.observers.failed,
            self.observers.remarks,
            signal,
        )

    def write(self, scalars: Mapping[str, float], curves: Mapping[str, Any] | None = None) -> None:
        """A line of the log, from the first rank."""
        if self.ranks.is_first and scalars:
            row = {"step": self.done, "seconds": round(self.seconds, 3), **scalars}
            line = self.folder.append(row | ({"curves": curves} if curves else {}))
            self.log_so_far.add(line)

    def tell(
        self, happened: str, step: int, scalars: Mapping[str, float] | None = None, **more: Any
    ) -> None:
        """Notify the observers."""
        self.observers.tell(happened, self.event(step, scalars, **more))

    def event(self, step: int, scalars: Mapping[str, float] | None = None, **more: Any) -> RunEvent:
        """An event of this run."""
        config = self.record.config or {}
        return RunEvent(
            self.folder.path,
            step,
            self.options.steps,
            config,
            dict(scalars or {}),
            device=self.ranks.device.type,
            **more,
        )


def _short(values: Tensor) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _batch_of_rank(options: Train, ranks: Ranks) -> int:
    """Number of examples that a rank computes together."""
    mine = options.batch_size // ranks.world
    return mine if options.micro_batch is None else min(mine, options.micro_batch)
