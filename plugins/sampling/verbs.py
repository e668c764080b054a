"""``elbowroom.sample``: samples as tensors."""

from __future__ import annotations

from os import PathLike
from typing import Any

import torch
from elbowroom import Diffusion, ElbowroomError, Samples, load
from elbowroom.api import with_sampler
from elbowroom.plugins.training.precision import model_on
from elbowroom.registry import trusting

from .drawing import Labels, draw, join
from .given import GivenExamples


def sample(
    model: Diffusion | str | PathLike[str],
    count: int | None = None,
    *,
    given: Any = None,
    keep: Any = None,
    labels: Labels = None,
    seed: int = 0,
    batch_size: int = 64,
    device: torch.device | str | None = None,
    precision: str = "float32",
    trust: bool = False,
    **options: Any,
) -> Samples:
    """Draw samples from a model or a run.

    Sample number i depends neither on ``count`` nor on ``batch_size``.

    Args:
        model: A model, or a run folder, of which the best averaged weights are loaded.
        count: The number of samples. Default: 64, or one for each given example.
        given: Examples to complete [N, *shape], or one; repeated if ``count`` is larger.
        keep: Booleans [*shape] or [N, *shape], True where values of ``given`` are kept, or a name
            like ``left``, ``prefix:0.25`` or ``random``.
        labels: A class or several, as numbers or names; several are repeated. Default: all classes
            in order, if the data has classes.
        seed: Seed of the noise.
        batch_size: The number of samples computed together.
        device: cpu, cuda, ... Default: the model's device if it is an accelerator, else the
            available device. A model is moved back afterwards.
        precision: float32 or bfloat16, of the network.
        trust: Execute code that the run's config refers to (``./my.py:Net``).
        **options: ``sampler``, the name of another sampler, and options of the sampler, like
            ``steps`` and ``guidance``.

    Returns:
        The samples on the CPU: ``x`` [count, *shape] integers, ``labels`` [count] or None, and
        ``calls`` [count], the network calls of each sample.

    Raises:
        ElbowroomError: The model has no sampler, or an argument is invalid.
        ConfigError: An option of the sampler is invalid.

    Example:
        >>> samples = er.sample("runs/digits", 16, labels=3, steps=50)
        >>> samples.x.shape
        torch.Size([16, 8, 8, 1])
    """
    with trusting(trust):  # also for the run of a guidance network
        model = model if isinstance(model, Diffusion) else load(model, device=device)
        if options:
            model = with_sampler(model, options)
        if (given is None) != (keep is None):
            raise ElbowroomError("given and keep: pass both, or neither")
        known = None
        if given is not None:
            known = GivenExamples.of(model.process.data, given, keep, seed=seed)
        if count is None:
            count = 64 if known is None else len(known.x)
        with model_on(model, device, precision):
            return join(list(draw(model, count, labels, seed, batch_size, given=known)))
