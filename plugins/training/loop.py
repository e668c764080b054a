"""The outer loop of training.

It logs, evaluates the averaged model on the validation split, saves checkpoints, notifies
observers, and stops on a signal or a non-finite loss or gradient.
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
from .validation import preview, validate

INTERRUPTED = 75
"""Exit code of a run that was interrupted and saved (EX_TEMPFAIL: try again later)."""

_PROGRESS_INTERVAL = 1.0  # seconds


@attrs.frozen
class RunResult:
    """Result of a run and the paths of its files."""

    folder: Path
    step: int
    steps: int
    reason: Literal["finished", "interrupted"]
    latest: Path | None  # last checkpoint
    best: Path | None  # checkpoint with the lowest validation bits/dim
    scalars: Mapping[str, float]  # the last ones logged
    seconds: float  # of training, over all sessions
    failed: Mapping[str, str] = attrs.Factory(dict)  # observer -> where and how it failed
    remarks: Sequence[str] = ()  # lines of observers for the user
    signal: str | None = None  # that interrupted the run, like "SIGTERM"

    @property
    def exit_code(self) -> int:
        """0 if the run finished, else INTERRUPTED, for job schedulers."""
        return 0 if self.reason == "finished" else INTERRUPTED


class InterruptedRun(ElbowroomError):
    """A signal stopped the run; its last checkpoint is from the step at which it stopped."""

    exit_code: ClassVar[int] = INTERRUPTED

    def __init__(self, result: RunResult) -> None:
        by = f" by {result.signal}" if result.signal else ""
        super().__init__(
            f"the run was interrupted{by} at step {result.step} of {result.steps} and saved; "
            f"continue with elbowroom.resume({str(result.folder)!r})"
        )
        self.result = result


def check_run(model: Diffusion, data: Dataset, options: Train, ranks: Ranks) -> None:
    """Check model, data and options before anything is written."""
    check_label_dropout(model, options, data.spec.classes)
    check_submodules(model.objective.weighting)
    check_sharding(options, ranks)
    if options.micro_batch is not None:
        check_linear(model)
    check_training(model, data, ranks.device)


def last_checkpoint(folder: RunFolder, ranks: Ranks) -> Checkpoint | None:
    """Return the last intact checkpoint, verified by the first rank. A collective call."""

    def step() -> int | None:
        found = folder.start()
        return None if found is None else found.step

    chosen = ranks.first(step)
    return None if chosen is None else folder.at(chosen)


def fit(
    model: Diffusion,
    data: Dataset,
    folder: RunFolder,
    options: Train,
    *,
    seed: int = 0,
    ranks: Ranks | None = None,
    record: State | None = None,
    observers: Observers | None = None,
    checkpoint: Checkpoint | None = None,
) -> RunResult:
    """Train ``model`` in a folder, from ``checkpoint`` or the start; it ends with averaged weights.

    ``record`` is written into checkpoints: the config and provenance of the run.
    """
    ranks = ranks or Ranks(next(model.parameters()).device)
    before = State() if checkpoint is None else checkpoint.state
    if before.data is not None and not data.spec.fits(DataSpec.recorded(before.data)):
        raise RunError(
            "the data differ from those the run was trained on in shape, levels or tokens. "
            "Restore the old data, or start a new run."
        )
    first, device = 0 if checkpoint is None else checkpoint.step, ranks.device
    ranks.first(lambda: folder.rewind(first, before.log))
    with retain_memory(device), preserve_generators(device), Interrupt() as interrupt:
        training = Training(model, data, options, seed=seed, ranks=ranks, start=first)
        if checkpoint is not None:
            training.restore(checkpoint)
        ranks.first(lambda: check_free_space(folder.checkpoints, training.size()))
        run = _Run(
            training,
            data,
            folder,
            record=attrs.evolve(record or State(), data=attrs.asdict(data.spec)),
            observers=observers if observers is not None and ranks.is_first else Observers(),
            step=first,
            seconds=before.seconds or 0.0,
        )
        run.notify("run_started", first)
        try:
            result = run.run(interrupt)
        except BaseException as error:
            lost = lost_rank(error, folder.path)
            why = (str(lost or error).splitlines() or [type(error).__name__])[0]
            run.notify("run_ended", run.done, reason=f"failed: {why}")
            if lost is None:
                raise
            raise lost from error
        finally:
            training.batches.close()
        run.notify("run_ended", result.step, result.scalars, reason=result.reason)
        training.ema.swap()
        return result


class _Run:
    """The loop over steps."""

    def __init__(
        self,
        training: Training,
        data: Dataset,
        folder: RunFolder,
        *,
        record: State,
        observers: Observers,
        step: int,
        seconds: float,
    ) -> None:
        self.training, self.data, self.folder = training, data, folder
        self.options, self.ranks = training.options, training.ranks
        self.record, self.observers = record, observers
        self.done = step
        self.scalars: dict[str, float] = {}
        self.best_validation = float("inf")
        if best_checkpoint := best_of(find_checkpoints(folder.checkpoints)[0]):
            self.best_validation = best_checkpoint.validation or self.best_validation
        self.seconds = seconds
        self.log_digest = LogDigest.of(folder.log) if self.ranks.is_first else LogDigest()
        self.clock, self.since = time.perf_counter(), self.done
        self.next_report = 0.0

    def run(self, interrupt: Interrupt) -> RunResult:
        """Train until the last step or a signal."""
        options, reason = self.options, "finished"
        every_step = self.ranks.device.type == "cpu"  # where checking the flag costs nothing
        for n in range(self.done, options.steps):
            self.training.step(n)
            self.done = n + 1
            self.report_progress()
            last = self.done == options.steps
            logs = last or not self.done % options.log_every
            evaluates = options.evaluate_every and (last or not self.done % options.evaluate_every)
            if every_step or logs or evaluates:
                self.check()
            if logs:
                self.log(n)
            measurements = self.evaluate() if evaluates else {}
            better = self.improved(measurements)
            if self.ranks.any(interrupt.signal is not None) and not last:
                reason = "interrupted"
            stops = last or reason == "interrupted"
            due = not self.done % options.save_every or self.done in options.milestones
            if stops or better or due:
                self.save(measurements)
            if stops:
                break
        return self.result(reason, interrupt.signal)

    def report_progress(self, doing: str = "training") -> None:
        """Notify observers of the progress, at most once a second while training."""
        now = time.monotonic()
        if now >= self.next_report or doing != "training":
            self.next_report = now + _PROGRESS_INTERVAL
            self.notify("progressed", self.done, doing=doing)

    def check(self) -> None:
        """Raise if a step was not finite. No weight has changed since that step."""
        step = self.training.guard.first_bad()
        if step is not None:
            raise self.diagnose_non_finite_step(step)

    def log(self, n: int) -> None:
        """Log the measurements since the last call."""
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
        self.write(scalars, {name: [_rounded(x), _rounded(y)] for name, (x, y) in curves.items()})
        self.notify("step_logged", self.done, scalars, curves=curves)

    def evaluate(self) -> dict[str, float]:
        """Evaluate the averaged model on the validation split and draw preview samples."""
        began = time.perf_counter()
        self.report_progress("validating")
        model, ranks = self.training.model, self.ranks
        split = self.data.split("validation")
        measurements: dict[str, float] = {}
        model.eval()
        with self.training.ema.applied():
            if len(split) and model.process.has_likelihood:
                measurements = validate(model, split, ranks, _batch_of_rank(self.options, ranks))
            samples = preview(model)
        model.train()
        self.scalars |= measurements
        self.write(measurements)
        self.notify("evaluated", self.done, measurements, **samples)
        self.clock += time.perf_counter() - began  # not training time
        return measurements

    def improved(self, measurements: Mapping[str, float]) -> bool:
        """Update the best validation so far; return whether this is it."""
        value = measurements.get(VALIDATION, float("inf"))
        better = value < self.best_validation
        self.best_validation = min(value, self.best_validation)
        return better

    def save(self, measurements: Mapping[str, float]) -> None:
        """Write a checkpoint and remove old ones."""
        self.check()
        began = time.perf_counter()
        parts = self.training.tensors()
        state = attrs.evolve(
            self.record,
            step=self.done,
            validation=measurements,
            seconds=self.seconds + began - self.clock,
            log=self.log_digest.record(),
        )

        def write() -> str:
            path = write_checkpoint(self.folder.checkpoints, parts, state)
            self.folder.record_first_checkpoint(self.done)
            prune(self.folder.checkpoints, self.options.keep, self.options.milestones)
            return str(path)

        path = Path(self.ranks.first(write))
        self.notify("checkpoint_saved", self.done, measurements, path=path)
        self.clock += time.perf_counter() - began

    def diagnose_non_finite_step(self, step: int) -> NonFiniteError:
        """Repeat the bad step, write a report, and return the error to raise."""
        training, ranks = self.training, self.ranks
        training.updates.zero_grad()
        with torch.autograd.set_detect_anomaly(False):  # it would raise here
            losses = training.gradients(step)
        named = training.model.named_parameters()
        gradients = not_finite(
            [(name, full_tensor(p.grad)) for name, p in named if p.grad is not None]
        )
        weights = gather_tensors(named_tensors(training.model), ranks)
        log_snr = losses.log_snr if losses.log_snr.ndim == 1 else losses.log_snr.flatten(1).mean(1)
        examples, lam, each = map(
            self.gather_batch, (training.batches.rows(step), log_snr, losses.per_example)
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
            place = dump(self.folder.path / "non_finite", step, weights, measurements)
        at = f"at t = {float(times[bad[0]]):.4g}" if bad else f"in {len(gradients)} gradients"
        report = f" {place} reproduces it." if place else ""
        return NonFiniteError(
            f"step {step}: loss or gradient is not finite ({at}). The run stopped before the "
            f"update: weights and checkpoints are good.{report}",
            step,
            place,
        )

    def gather_batch(self, values: Tensor) -> Tensor:
        """[batch_size] on the CPU: values of the whole batch from those of each rank."""
        together = torch.zeros(
            self.options.batch_size, dtype=torch.float64, device=self.ranks.device
        )
        together[self.training.batches.positions] = values.detach().to(together)
        return self.ranks.sum(together).cpu()

    def result(self, reason: str, signal: str | None) -> RunResult:
        """Return the result of the run."""
        found = find_checkpoints(self.folder.checkpoints)[0] if self.ranks.is_first else []
        best_checkpoint = best_of(found)
        return RunResult(
            self.folder.path,
            self.done,
            self.options.steps,
            "finished" if reason == "finished" else "interrupted",
            found[-1].path if found else None,
            best_checkpoint.path if best_checkpoint else None,
            self.scalars,
            self.seconds,
            self.observers.failed,
            self.observers.remarks,
            signal,
        )

    def write(self, scalars: Mapping[str, float], curves: Mapping[str, Any] | None = None) -> None:
        """Append a line to the log, on the first rank."""
        if self.ranks.is_first and scalars:
            row = {"step": self.done, "seconds": round(self.seconds, 3), **scalars}
            line = self.folder.append(row | ({"curves": curves} if curves else {}))
            self.log_digest.add(line)

    def notify(
        self, hook: str, step: int, scalars: Mapping[str, float] | None = None, **more: Any
    ) -> None:
        """Notify the observers."""
        self.observers.notify(hook, self.event(step, scalars, **more))

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


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _batch_of_rank(options: Train, ranks: Ranks) -> int:
    """Number of examples in one forward pass of a rank."""
    mine = options.batch_size // ranks.world
    return mine if options.micro_batch is None else min(mine, options.micro_batch)
