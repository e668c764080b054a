"""One optimisation step: the inner loop of training.

Update n (from 0) of a run is a function of the state before it and of (seed, n), which determine
examples, levels, noise, dropped labels and dropout. A run that is killed and resumed from any of
its checkpoints therefore gives the same weights: bit for bit on one CPU process, on several ranks
up to the order of summation.
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
from .ema import EMA
from .log_window import LogWindow, boundary
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
        self.model = model.to(ranks.device).train()
        _set_up(model.denoiser, options, ranks.device)
        self.distributed = distribute(model, model.denoiser, options.parallel, ranks)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.updates = _updates(model, self.parameters, options)
        self.ema = EMA(model, options.ema, options.ema_warmup)
        self.averages = {"ema": self.ema} | {  # by part of the checkpoint
            ema_part(decay): EMA(model, decay, options.ema_warmup) for decay in options.ema_also
        }
        self.batches = BatchLoader(data.split("train"), seed, options.batch_size, ranks)
        has_bound = model.process.has_likelihood
        terms = boundary(model, self.batches.split, ranks.device) if has_bound else None
        self.window = LogWindow(model.schedule, data.spec.dims, ranks, terms)
        self.guard = NonFiniteGuard(start, ranks)

    def step(self, n: int) -> None:
        """Run optimisation step ``n``. Never synchronises with the device."""
        losses = self.gradients(n)
        norm = gradient_norm(self.parameters)
        bad = self.guard.flag(losses.loss, norm)
        if self.options.clip_norm is not None:
            clip(self.parameters, norm, self.options.clip_norm)
        self.updates.step(n, skip=bad)
        for average in self.averages.values():
            average.update(n)
        self.window.add(losses, norm)
        self.adapt(losses, bad)

    def gradients(self, n: int) -> Losses:
        """Return the losses of update ``n`` and leave their gradients in the parameters.

        A function of the weights and ``n``: repeating it gives the same values.
        """
        batch, size = self.batch(n), self.options.micro_batch
        seed_generators(dropout_seed(self.seed, n, self.ranks.rank), self.ranks.device)
        return accumulate(self.model, self.distributed, batch, size, self.ranks)

    def batch(self, n: int) -> tuple[Tensor, Tensor | None, Noise]:
        """Return this rank's part of the batch of update ``n``: integers, labels and noise."""
        batch, noise = self.batches(n), self.batches.noise(n)
        cond = with_labels_dropped(batch.y, self.options.label_dropout, self.classes, noise)
        return batch.x, cond, noise

    @torch.no_grad()
    def adapt(self, losses: Losses, bad: Tensor) -> None:
        """Update adaptive components from the global batch, unless the step is not finite."""
        for part in self.model.adaptive:
            buffers = list(cast("nn.Module", part).buffers())
            before = [buffer.clone() for buffer in buffers]
            part.adapt(self.ranks.ordered_sum(part.statistics(losses)))
            for buffer, old in zip(buffers, before, strict=True):
                buffer.copy_(torch.where(bad != 0, old, buffer))

    def rate(self, n: int) -> float:
        """The learning rate of update ``n``."""
        return self.updates.rate(self.options.learning_rate, n)

    # -- checkpoints

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return the training state, unsharded, on the first rank's CPU. A collective call."""
        model = gather_tensors(named_tensors(self.model), self.ranks)
        averages = {p: gather_tensors(e.average, self.ranks) for p, e in self.averages.items()}
        return {
            "model": model,
            **{part: {**model, **average} for part, average in averages.items()},
            "optimiser": gather_tensors(self.updates.tensors(self._names()), self.ranks),
            "window": {name: t.cpu() for name, t in self.window.tensors().items()},
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint written on any number of ranks."""
        restore(named_tensors(self.model), checkpoint.read("model"), f"{checkpoint.path}/model")
        for part, ema in self.averages.items():
            kept = part if checkpoint.has(part) else "ema"  # er.save writes one average
            saved = {n: t for n, t in checkpoint.read(kept).items() if n in ema.average}
            restore(ema.average, saved, f"{checkpoint.path}/{kept}")
        if not checkpoint.has("optimiser"):  # weights only, from er.save
            return
        saved, names = checkpoint.read("optimiser"), self._names()
        self.updates.prepare(saved, names)
        restore(self.updates.tensors(names), saved, f"{checkpoint.path}/optimiser")
        self.window.restore(checkpoint.read("window"), f"{checkpoint.path}/window")

    def size(self) -> int:
        """Approximate size of a checkpoint in bytes."""
        weights = sum(t.numel() * t.element_size() for t in named_tensors(self.model).values())
        return (3 + len(self.averages)) * weights + 2**16  # with two moments and the averages

    def _names(self) -> dict[int, str]:
        return {id(p): name for name, p in self.model.named_parameters()}


def dropout_seed(seed: int, n: int, rank: int) -> int:
    """Seed of torch's generators (dropout) for one update on one rank."""
    digest = hashlib.blake2b(f"dropout/{seed}/{n}/{rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def gradient_norm(parameters: list[nn.Parameter]) -> Tensor:
    """Norm of all gradients, the same on every rank."""
    norms = []
    for group in layouts(parameters):
        gradients = [p.grad for p in group if p.grad is not None]
        if gradients:
            norms.append(full_tensor(nn.utils.get_total_norm(gradients, foreach=True)))
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))


def clip(parameters: list[nn.Parameter], norm: Tensor, largest: float) -> None:
    """Scale the gradients in place to the norm ``largest`` if theirs is larger."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    parts = [g.to_local() if isinstance(g, DTensor) else g for g in gradients]
    torch._foreach_mul_(parts, (largest / (norm + 1e-6)).clamp(max=1.0))


def _updates(model: Diffusion, parameters: list[nn.Parameter], options: Train) -> Updates:
    """Build the optimisers and the rate schedule of a run."""
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
    """Apply options that change how the network is run."""
    if options.checkpoint_activations:
        if getattr(network, "checkpoint_activations", None) is None:
            raise IncompatibleError(
                f"train.checkpoint_activations: denoiser {type(network).__name__} does not "
                "support it (no attribute 'checkpoint_activations')"
            )
        setattr(network, "checkpoint_activations", True)  # noqa: B010  # not every network has it
    if options.precision == "bfloat16":
        use_bfloat16(network, device)
    if options.compile:
        network.compile()


def check_sharding(options: Train, ranks: Ranks) -> None:
    """Raise if FSDP would shard matrices that the optimiser needs unsharded."""
    optimiser = options.optimiser
    if ranks.world > 1 and options.parallel == "fsdp" and not optimiser.cls.sharded:
        raise IncompatibleError(
            f"train.parallel: fsdp shards matrices, which optimiser {optimiser.name} cannot "
            "update. Use ddp or another optimiser."
        )


def check_label_dropout(model: Diffusion, options: Train, classes: int | None) -> None:
    """Raise if labels cannot be dropped: no labels, or a network without a null label."""
    if not options.label_dropout:
        return
    if classes is None:
        raise IncompatibleError("train.label_dropout: the data has no labels")
    if getattr(model.denoiser, "null_class", True) is False:
        raise IncompatibleError(
            "train.label_dropout: the denoiser has no null label. Set denoiser.null_class to true."
        )
