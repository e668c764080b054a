"""Training: one loop for every process, exact to resume, from a laptop to many GPUs.

Update n (from 0) of a run is a pure function of the state before it and of (seed, n): which
examples, which levels and noise, which labels and units are dropped. A run that is killed and
resumed from any of its checkpoints therefore goes on as if nothing had happened: bit by bit on one
CPU process, and on several ranks up to the order of their sums.

:meth:`Training.step` is the inner loop, :func:`fit` the outer one; :func:`train` and :func:`resume`
go from a config or a run folder to a finished run.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import attrs
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from .assembly import Parts, build_model, build_parts
from .checkpoint import (
    Checkpoint,
    check_room,
    checkpoints,
    gathered,
    named_tensors,
    optimiser_tensors,
    prune,
    read_tensors,
    restore,
    write_checkpoint,
)
from .checkpoint import (
    best as best_of,
)
from .config import Config, Train, load_config, to_plain
from .dataset import Dataset
from .diffusion import Diffusion
from .distributed import Ranks, ranks, spread, whole
from .ema import EMA
from .errors import ConfigError, ElbowroomError, IncompatibleError
from .fault import Guard, NonFiniteError, dump, not_finite, numbers
from .feed import Feed, with_labels_dropped
from .interrupt import Interrupt
from .learning_rate import learning_rate
from .objective import Losses
from .observer import Observers, RunEvent
from .run_folder import RunError, RunFolder, check_unchanged, provenance
from .validation import pictures, validate
from .window import Window

INTERRUPTED = 75
"""Exit code of a run that was asked to stop and saved itself ("try again later")."""

NON_FINITE = 3
"""Exit code of a run that met a loss or gradient that is not finite."""

_VALIDATION = "validation/bits_per_dim"


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

    @property
    def exit_code(self) -> int:
        """0, or what tells a job scheduler to resume."""
        return 0 if self.reason == "finished" else INTERRUPTED


# -- one update


class Training:
    """A model in training on this rank."""

    def __init__(
        self,
        model: Diffusion,
        data: Dataset,
        options: Train,
        *,
        seed: int,
        on: Ranks,
        start: int = 0,
    ) -> None:
        self.options, self.seed, self.on = options, seed, on
        self.classes = data.spec.classes
        _check_label_dropout(model, options, self.classes)
        self.model = model.to(on.device).train()
        _set_up(model.denoiser, options, on.device)
        self.spread = spread(model, model.denoiser, options.parallel, on)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(
            # a kernel takes sharded tensors or plain ones, not both
            [{"params": group} for group in _by_kind(self.parameters)],
            lr=options.learning_rate,
            betas=options.betas,
            weight_decay=options.weight_decay,
            fused=True,
        )
        self.ema = EMA(model, options.ema, options.ema_warmup)
        self.feed = Feed(data.split("train"), seed, options.batch_size, on)
        self.window = Window(model.schedule, data.spec.dims, on)
        self.guard = Guard(start, on)

    def step(self, n: int) -> None:
        """Update ``n``: all of it, and nothing that makes the device wait."""
        losses = self.forward(n)
        losses.loss.backward()
        norm = gradient_norm(self.parameters)
        # torch.amp's way to tell a fused optimiser to leave everything as it is
        self.optimiser.found_inf = self.guard.look(losses.loss, norm)  # type: ignore[attr-defined]
        if self.options.clip_norm is not None:
            clip(self.parameters, norm, self.options.clip_norm)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate(n)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.ema.update(n)
        self.window.add(losses, norm)

    def forward(self, n: int) -> Losses:
        """The losses of update ``n``: the same whenever they are asked for."""
        batch, noise = self.feed(n), self.feed.noise(n)
        cond = with_labels_dropped(batch.y, self.options.label_dropout, self.classes, noise)
        torch.manual_seed(dropout_seed(self.seed, n, self.on.rank))
        losses: Losses = self.spread(batch.x, cond, noise, self.on.mean)
        return losses

    def rate(self, n: int) -> float:
        """The learning rate of update ``n``."""
        return learning_rate(n, self.options.learning_rate, self.options.warmup, self.options.steps)

    # -- what a checkpoint holds of it

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Everything that changes, whole and on the first rank's CPU; every rank must ask."""
        model = gathered(named_tensors(self.model), self.on)
        ema = gathered(self.ema.average, self.on)
        return {
            "model": model,
            "ema": {name: ema.get(name, tensor) for name, tensor in model.items()},
            "optimiser": gathered(optimiser_tensors(self.optimiser, self._names()), self.on),
            "window": {name: t.cpu() for name, t in self.window.tensors().items()},
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint, made on any number of ranks."""
        restore(named_tensors(self.model), checkpoint.read("model"), f"{checkpoint.path}/model")
        averages = {
            name: t for name, t in checkpoint.read("ema").items() if name in self.ema.average
        }
        restore(self.ema.average, averages, f"{checkpoint.path}/ema")
        saved, names = checkpoint.read("optimiser"), self._names()
        for p in self.parameters:  # what AdamW makes at its first step
            if f"step.{names[id(p)]}" not in saved:
                continue  # it never had a gradient
            self.optimiser.state[p] = {
                "step": torch.zeros((), dtype=torch.float32, device=p.device),
                "exp_avg": torch.zeros_like(p, memory_format=torch.preserve_format),
                "exp_avg_sq": torch.zeros_like(p, memory_format=torch.preserve_format),
            }
        restore(optimiser_tensors(self.optimiser, names), saved, f"{checkpoint.path}/optimiser")
        self.window.restore(checkpoint.read("window"))

    def size(self) -> int:
        """How many bytes a checkpoint takes, nearly."""
        held = sum(t.numel() * t.element_size() for t in named_tensors(self.model).values())
        return 4 * held + 2**16  # the model, its average and two moments

    def _names(self) -> dict[int, str]:
        return {id(p): name for name, p in self.model.named_parameters()}


def dropout_seed(seed: int, n: int, rank: int) -> int:
    """The seed of torch's own generator (dropout) for one update on one rank."""
    digest = hashlib.blake2b(f"dropout/{seed}/{n}/{rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def gradient_norm(parameters: list[nn.Parameter]) -> Tensor:
    """The length of all gradients together, the same on every rank."""
    norms = []
    for group in _by_kind(parameters):
        gradients = [p.grad for p in group if p.grad is not None]
        if gradients:
            norms.append(whole(nn.utils.get_total_norm(gradients, foreach=True)))
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))


def clip(parameters: list[nn.Parameter], norm: Tensor, largest: float) -> None:
    """Shorten the gradients to length ``largest`` if they are longer."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    parts = [g.to_local() if isinstance(g, DTensor) else g for g in gradients]
    torch._foreach_mul_(parts, (largest / (norm + 1e-6)).clamp(max=1.0))


def _by_kind(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Sharded parameters and plain ones."""
    groups: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
    for p in parameters:
        groups[isinstance(p, DTensor)].append(p)
    return [group for group in groups if group]


def _set_up(network: nn.Module, options: Train, device: torch.device) -> None:
    """How the network is run: options of the run, no forks of the network."""
    if options.checkpoint_activations:
        if not hasattr(network, "checkpoint_activations"):
            raise IncompatibleError(
                f"train.checkpoint_activations: denoiser {type(network).__name__} has no such "
                "switch (an attribute 'checkpoint_activations' that its forward pass reads)"
            )
        setattr(network, "checkpoint_activations", True)  # noqa: B010  # not every network has it
    if options.precision == "bfloat16":
        # around the network alone: process arithmetic stays in float32 or better
        network.forward = torch.autocast(device.type, torch.bfloat16)(network.forward)
    if options.compile:
        network.compile()


def _check_label_dropout(model: Diffusion, options: Train, classes: int | None) -> None:
    if not options.label_dropout:
        return
    if classes is None:
        raise IncompatibleError(
            "train.label_dropout: the data have no labels that could be dropped"
        )
    if getattr(model.denoiser, "null_class", True) is False:
        raise IncompatibleError(
            "train.label_dropout: the denoiser has no class for 'no label'; "
            "set denoiser.null_class to true"
        )


# -- a run


def fit(
    model: Diffusion,
    data: Dataset,
    folder: RunFolder,
    options: Train | None = None,
    *,
    seed: int = 0,
    on: Ranks | None = None,
    record: Mapping[str, Any] | None = None,
    observers: Observers | None = None,
) -> RunResult:
    """Train ``model`` in a folder, from its last checkpoint if it has one.

    ``record`` is what checkpoints say about the run: its config and provenance.
    """
    options, observers, record = options or Train(), observers or Observers(), record or {}
    on = on or Ranks(next(model.parameters()).device)
    found = on.first(lambda: _prepared(folder))
    start = None if found is None else folder.latest()
    first = 0 if start is None else start.step
    with torch.random.fork_rng(), Interrupt() as interrupt:
        training = Training(model, data, options, seed=seed, on=on, start=first)
        if start is not None:
            training.restore(start)
        on.first(lambda: check_room(folder.checkpoints, training.size()))
        told = observers if on.is_first else Observers()
        run = _Run(training, data, folder, record=record, observers=told, start=start)
        run.tell("run_started", first)
        try:
            result = run.go(first, interrupt)
        except BaseException as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            run.tell("run_ended", run.done, reason=f"failed: {why}")
            raise
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
        record: Mapping[str, Any],
        observers: Observers,
        start: Checkpoint | None,
    ) -> None:
        self.training, self.data, self.folder = training, data, folder
        self.options, self.on = training.options, training.on
        self.record, self.observers = record, observers
        self.done = 0 if start is None else start.step
        self.scalars: dict[str, float] = {}
        self.lowest = float("inf")
        if champion := best_of(checkpoints(folder.checkpoints)):
            self.lowest = champion.validation or self.lowest
        self.seconds = 0.0 if start is None else float(start.state.get("seconds", 0.0))
        self.clock, self.since = time.perf_counter(), self.done

    def go(self, first: int, interrupt: Interrupt) -> RunResult:
        """Updates until the end, or until someone asks to stop."""
        options, reason = self.options, "finished"
        at_once = self.on.device.type == "cpu"  # reading a flag there costs nothing
        for n in range(first, options.steps):
            self.training.step(n)
            self.done = n + 1
            last = self.done == options.steps
            logs = last or not self.done % options.log_every
            evaluates = options.evaluate_every and (last or not self.done % options.evaluate_every)
            if at_once or logs or evaluates:
                self.check()
            if logs:
                self.log(n)
            figures = self.evaluate() if evaluates else {}
            better = self.improved(figures)
            if self.on.any(interrupt.asked is not None) and not last:
                reason = "interrupted"
            stops = last or reason == "interrupted"
            if stops or better or not self.done % options.save_every:
                self.save(figures)
            if stops:
                break
        return self.result(reason)

    def check(self) -> None:
        """Stop if some step was not finite; nothing has changed since."""
        step = self.training.guard.first_bad()
        if step is not None:
            raise self.fault(step)

    def log(self, n: int) -> None:
        """Say what happened since the last time."""
        scalars, curves = self.training.window.figures()
        self.training.window.clear()
        now = time.perf_counter()
        passed, self.clock = now - self.clock, now
        self.seconds += passed
        speed = (self.done - self.since) * self.options.batch_size / max(passed, 1e-9)
        self.since = self.done
        scalars |= {"learning_rate": self.training.rate(n), "images_per_second": speed}
        self.scalars |= scalars
        self.write(scalars, {name: [_short(x), _short(y)] for name, (x, y) in curves.items()})
        self.tell("step_logged", self.done, scalars, curves=curves)

    def evaluate(self) -> dict[str, float]:
        """The averaged model on the validation split."""
        began = time.perf_counter()
        model, on = self.training.model, self.on
        split = self.data.split("validation")
        figures: dict[str, float] = {}
        images: dict[str, Tensor] = {}
        model.eval()
        with self.training.ema.applied():
            if len(split):
                figures = validate(model, split, on, self.options.batch_size)
            images = pictures(model, on)
        model.train()
        self.scalars |= figures
        self.write(figures)
        self.tell("evaluated", self.done, figures, images=images)
        self.clock += time.perf_counter() - began  # not training time
        return figures

    def improved(self, figures: Mapping[str, float]) -> bool:
        """Is this the best model so far?"""
        value = figures.get(_VALIDATION, float("inf"))
        better = value < self.lowest
        self.lowest = min(value, self.lowest)
        return better

    def save(self, figures: Mapping[str, float]) -> None:
        """A checkpoint of this moment; older ones go."""
        self.check()
        began = time.perf_counter()
        parts = self.training.tensors()
        state = {
            **self.record,
            "validation": dict(figures),
            "seconds": self.seconds + began - self.clock,
        }

        def write() -> str:
            path = write_checkpoint(self.folder.checkpoints, self.done, parts, state)
            prune(self.folder.checkpoints, self.options.keep)
            return str(path)

        path = Path(self.on.first(write))
        self.tell("checkpoint_saved", self.done, figures, path=path)
        self.clock += time.perf_counter() - began

    def fault(self, step: int) -> NonFiniteError:
        """Run the bad step again to see where it breaks, and write that down."""
        training, on = self.training, self.on
        training.optimiser.zero_grad()
        losses = training.forward(step)
        with contextlib.suppress(RuntimeError):  # anomaly detection of the user's may raise here
            losses.loss.backward()
        named = training.model.named_parameters()
        gradients = not_finite([(name, whole(p.grad)) for name, p in named if p.grad is not None])
        weights = gathered(named_tensors(training.model), on)
        log_snr = losses.log_snr if losses.log_snr.ndim == 1 else losses.log_snr.flatten(1).mean(1)
        examples, lam, each = map(
            self.of_all, (training.feed.rows(step), log_snr, losses.per_example)
        )
        times = training.model.schedule.time(lam)
        bad = (~torch.isfinite(each)).nonzero().flatten().tolist()
        figures = {
            "step": step,
            "seed": training.seed,
            "ranks": on.world,
            "loss": numbers(on.mean(losses.loss))[0],
            "examples": examples.long().tolist(),
            "t": numbers(times),
            "log_snr": numbers(lam),
            "losses": numbers(each),
            "bad_positions": bad,
            "bad_gradients": gradients,
            "reproduced": bool(bad or gradients),
            **self.record,
        }
        place = None
        if on.is_first:
            place = dump(self.folder.path / "fault", step, weights, figures)
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
        together = torch.zeros(self.options.batch_size, dtype=torch.float64, device=self.on.device)
        together[self.training.feed.positions] = values.detach().to(together)
        return self.on.sum(together).cpu()

    def result(self, reason: str) -> RunResult:
        """How it ended."""
        found = checkpoints(self.folder.checkpoints) if self.on.is_first else []
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
        )

    def write(self, scalars: Mapping[str, float], curves: Mapping[str, Any] | None = None) -> None:
        """A line of the log, from the first rank."""
        if self.on.is_first and scalars:
            row = {"step": self.done, "seconds": round(self.seconds, 3), **scalars}
            self.folder.append(row | ({"curves": curves} if curves else {}))

    def tell(
        self, happened: str, step: int, scalars: Mapping[str, float] | None = None, **more: Any
    ) -> None:
        """Tell the observers."""
        config = self.record.get("config", {})
        event = RunEvent(
            self.folder.path, step, self.options.steps, config, dict(scalars or {}), **more
        )
        self.observers.tell(happened, event)


def _short(values: Tensor) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _prepared(folder: RunFolder) -> int | None:
    """The step a run goes on from; what was half-written or logged later is removed."""
    latest = folder.latest()
    folder.rewind(0 if latest is None else latest.step)
    return None if latest is None else latest.step


# -- from a config, from a folder


def train(
    config: Config,
    out: str | PathLike[str],
    *,
    device: str | None = None,
    without: Collection[str] = (),
) -> RunResult:
    """Run a config in the new folder ``out``; ``without`` names observers that are not told.

    Under ``torchrun`` every rank calls this.
    """
    to_plain(config)  # what cannot be written down cannot be resumed
    with ranks(device) as on:
        parts = build_parts(config)
        model = build_model(parts)  # before anything is written: it may not fit together
        on.positions(config.train.batch_size)
        on.first(lambda: str(RunFolder.create(out, config).path))
        return _run(parts, model, RunFolder(Path(out)), on, without)


def resume(
    folder: str | PathLike[str],
    overrides: Any = (),
    *,
    config: Config | None = None,
    device: str | None = None,
    without: Collection[str] = (),
) -> RunResult:
    """Go on with a run, on any number of ranks.

    ``overrides`` may lengthen the run or change what is logged and kept; anything else, also in a
    ``config`` that is given to be sure it is the same, is refused with the keys that differ.
    """
    opened = RunFolder.open(folder)
    then = opened.config()
    now = then if config is None else config
    if overrides:
        now = load_config(now, overrides)
    check_unchanged(now, to_plain(then), str(opened.path))
    latest = opened.latest()
    if latest is not None:
        check_unchanged(now, latest.state.get("config", {}), str(latest.path))
        if now.train.steps < latest.step:
            raise RunError(
                f"{opened.path} is at step {latest.step} already: train.steps={now.train.steps} "
                "lies behind it"
            )
    with ranks(device) as on:
        parts = build_parts(now)
        model = build_model(parts)
        if now != then:
            on.first(lambda: opened.rewrite(now))
        return _run(parts, model, opened, on, without)


def _run(
    parts: Parts, model: Diffusion, folder: RunFolder, on: Ranks, without: Collection[str]
) -> RunResult:
    from .registry import registry

    config, data = parts.config, parts.data
    if data is None:
        raise ConfigError("data: a run needs a data set, and this config names none")
    with contextlib.ExitStack() as stack:
        if on.is_first:
            stack.enter_context(folder.locked())
        return fit(
            model,
            data,
            folder,
            config.train,
            seed=config.seed,
            on=on,
            record={"config": to_plain(config), "provenance": provenance(config)},
            observers=Observers(registry().hook, without),
        )


def reproduce(fault: str | PathLike[str], device: str | None = None) -> Losses:
    """The losses of a step that was not finite, from the folder a run left of it."""
    path = Path(fault)
    folder = RunFolder.open(path.parent.parent)
    config = folder.config()
    with ranks(device) as on, torch.random.fork_rng():
        parts = build_parts(config)
        if parts.data is None:
            raise ElbowroomError(f"{folder.path} has no data set")
        training = Training(build_model(parts), parts.data, config.train, seed=config.seed, on=on)
        weights = read_tensors(path / "model.safetensors")
        restore(named_tensors(training.model), weights, str(path))
        losses = training.forward(int(path.name.removeprefix("step-")))
        losses.loss.backward()
        training.feed.close()
        return losses
