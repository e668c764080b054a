"""One update of a model in training: the inner loop.

Update n (from 0) of a run is a pure function of the state before it and of (seed, n): which
examples, which levels and noise, which labels and units are dropped. A run that is killed and
resumed from any of its checkpoints therefore goes on as if nothing had happened: bit by bit on one
CPU process, and on several ranks up to the order of their sums.
"""

from __future__ import annotations

import hashlib
from typing import cast

import torch
from elbowroom import Dataset, Diffusion, IncompatibleError, Losses, Noise
from elbowroom.contracts import hidden_weights
from elbowroom.randomness import seed_generators
from elbowroom.runs import Checkpoint, ema_part, named_tensors, restore
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from .batches import BatchLoader, with_labels_dropped
from .boundary import boundary
from .ema import EMA
from .log_window import LogWindow
from .micro_batches import accumulate
from .non_finite import NonFiniteGuard
from .optimiser import Optimiser, Rates, Weights, layouts
from .precision import use_bfloat16
from .ranks import Ranks, distribute, full_tensor, gather_tensors
from .section import Train
from .updates import Updates


class Training:
    """A model in training on this rank."""

    def __init__(
        self,
        model: Diffusion,
        data: Dataset,
        options: Train,
        *,
        seed: int,
        ranks: Ranks,
        start: int = 0,
    ) -> None:
        self.options, self.seed, self.ranks = options, seed, ranks
        self.classes = data.spec.classes
        check_label_dropout(model, options, self.classes)
        self.model = model.to(ranks.device).train()
        _set_up(model.denoiser, options, ranks.device)
        self.spread = distribute(model, model.denoiser, options.parallel, ranks)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.updates = _updates(model, self.parameters, options)
        self.ema = EMA(model, options.ema, options.ema_warmup)
        self.averages = {"ema": self.ema} | {  # by the part of a checkpoint that keeps them
            ema_part(decay): EMA(model, decay, options.ema_warmup) for decay in options.ema_also
        }
        self.feed = BatchLoader(data.split("train"), seed, options.batch_size, ranks)
        bounded = model.process.has_likelihood
        known = boundary(model, self.feed.split, ranks.device) if bounded else None
        self.window = LogWindow(model.schedule, data.spec.dims, ranks, known)
        self.guard = NonFiniteGuard(start, ranks)

    def step(self, n: int) -> None:
        """Update ``n``: all of it, and nothing that makes the device wait."""
        losses = self.gradients(n)
        norm = gradient_norm(self.parameters)
        unsound = self.guard.flag(losses.loss, norm)
        if self.options.clip_norm is not None:
            clip(self.parameters, norm, self.options.clip_norm)
        self.updates.step(n, skip=unsound)
        for average in self.averages.values():
            average.update(n)
        self.window.add(losses, norm)
        self.adapt(losses, unsound)

    def gradients(self, n: int) -> Losses:
        """The losses of update ``n``, their gradients left at the parameters.

        They are the same whenever they are asked for.
        """
        batch, size = self.batch(n), self.options.micro_batch
        seed_generators(dropout_seed(self.seed, n, self.ranks.rank), self.ranks.device)
        return accumulate(self.model, self.spread, batch, size, self.ranks)

    def batch(self, n: int) -> tuple[Tensor, Tensor | None, Noise]:
        """This rank's part of what update ``n`` looks at: integers, labels and noise."""
        batch, noise = self.feed(n), self.feed.noise(n)
        cond = with_labels_dropped(batch.y, self.options.label_dropout, self.classes, noise)
        return batch.x, cond, noise

    @torch.no_grad()
    def adapt(self, losses: Losses, unsound: Tensor) -> None:
        """Show adaptive parts what the global batch found; a step that is no good changes none."""
        for part in self.model.adaptive:
            held = list(cast("nn.Module", part).buffers())
            before = [buffer.clone() for buffer in held]
            part.adapt(self.ranks.ordered_sum(part.statistics(losses)))
            for buffer, old in zip(held, before, strict=True):
                buffer.copy_(torch.where(unsound != 0, old, buffer))

    def rate(self, n: int) -> float:
        """The learning rate of update ``n``."""
        return self.updates.rate(self.options.learning_rate, n)

    # -- what a checkpoint holds of it

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Everything that changes, whole and on the first rank's CPU; every rank must ask."""
        model = gather_tensors(named_tensors(self.model), self.ranks)
        averages = {p: gather_tensors(e.average, self.ranks) for p, e in self.averages.items()}
        return {
            "model": model,
            **{part: {**model, **average} for part, average in averages.items()},
            "optimiser": gather_tensors(self.updates.tensors(self._names()), self.ranks),
            "window": {name: t.cpu() for name, t in self.window.tensors().items()},
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint, made on any number of ranks."""
        restore(named_tensors(self.model), checkpoint.read("model"), f"{checkpoint.path}/model")
        for part, ema in self.averages.items():
            kept = part if checkpoint.has(part) else "ema"  # a model that was saved has one average
            saved = {n: t for n, t in checkpoint.read(kept).items() if n in ema.average}
            restore(ema.average, saved, f"{checkpoint.path}/{kept}")
        if not checkpoint.has("optimiser"):  # weights alone: a model that was saved, not trained
            return
        saved, names = checkpoint.read("optimiser"), self._names()
        self.updates.prepare(saved, names)
        restore(self.updates.tensors(names), saved, f"{checkpoint.path}/optimiser")
        self.window.restore(checkpoint.read("window"), f"{checkpoint.path}/window")

    def size(self) -> int:
        """How many bytes a checkpoint takes, nearly."""
        held = sum(t.numel() * t.element_size() for t in named_tensors(self.model).values())
        return (3 + len(self.averages)) * held + 2**16  # the model, two moments and averages

    def _names(self) -> dict[int, str]:
        return {id(p): name for name, p in self.model.named_parameters()}


def dropout_seed(seed: int, n: int, rank: int) -> int:
    """The seed of torch's own generators (dropout) for one update on one rank."""
    digest = hashlib.blake2b(f"dropout/{seed}/{n}/{rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def gradient_norm(parameters: list[nn.Parameter]) -> Tensor:
    """The length of all gradients together, the same on every rank."""
    norms = []
    for group in layouts(parameters):
        gradients = [p.grad for p in group if p.grad is not None]
        if gradients:
            norms.append(full_tensor(nn.utils.get_total_norm(gradients, foreach=True)))
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))


def clip(parameters: list[nn.Parameter], norm: Tensor, largest: float) -> None:
    """Shorten the gradients to length ``largest`` if they are longer."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    parts = [g.to_local() if isinstance(g, DTensor) else g for g in gradients]
    torch._foreach_mul_(parts, (largest / (norm + 1e-6)).clamp(max=1.0))


def _updates(model: Diffusion, parameters: list[nn.Parameter], options: Train) -> Updates:
    """The optimisers and rates that a run's options name."""
    optimiser: Optimiser = options.optimiser.build()
    trained = {id(p) for p in parameters}
    hidden = [p for p in hidden_weights(model.denoiser) if id(p) in trained]
    rates = Rates(options.learning_rate, options.betas, options.weight_decay)
    return Updates(
        optimiser.build(Weights(parameters, hidden), rates),
        options.rate.build(),
        options.warmup,
        options.steps,
    )


def _set_up(network: nn.Module, options: Train, device: torch.device) -> None:
    """How the network is run: options of the run, no forks of the network."""
    if options.checkpoint_activations:
        if getattr(network, "checkpoint_activations", None) is None:
            raise IncompatibleError(
                f"train.checkpoint_activations: denoiser {type(network).__name__} has no such "
                "switch (an attribute 'checkpoint_activations' that its forward pass reads)"
            )
        setattr(network, "checkpoint_activations", True)  # noqa: B010  # not every network has it
    if options.precision == "bfloat16":
        use_bfloat16(network, device)
    if options.compile:
        network.compile()


def check_sharding(options: Train, ranks: Ranks) -> None:
    """Some optimisers need whole matrices, which FSDP splits over ranks."""
    optimiser: Optimiser = options.optimiser.build()
    if ranks.world > 1 and options.parallel == "fsdp" and not optimiser.sharded:
        raise IncompatibleError(
            f"train.parallel: fsdp splits matrices that optimiser {options.optimiser.name} needs "
            "whole: use ddp, or another optimiser"
        )


def check_label_dropout(model: Diffusion, options: Train, classes: int | None) -> None:
    """Dropping labels needs labels, and a network that knows a class for none."""
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
