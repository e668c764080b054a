"""The section ``train`` of a config."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import attrs
from attrs.validators import and_, deep_iterable, ge, gt, le, lt, optional
from elbowroom import ComponentSpec, Section, named_component

_share: Any = and_(ge(0), le(1))
_decay: Any = and_(ge(0), lt(1))
_count_or_none: Any = optional(ge(1))
_steps: Any = and_(ge(1), lt(2**31 - 1))  # noise is keyed by the step; validation uses the last


@attrs.frozen(kw_only=True)
class Train(Section):
    """Options of training."""

    steps: int = attrs.field(default=1000, validator=_steps)
    batch_size: int = attrs.field(default=128, validator=ge(1))  # over all ranks
    micro_batch: int | None = attrs.field(  # examples per forward pass of a rank; None: all
        default=None, validator=_count_or_none
    )
    optimiser: Annotated[ComponentSpec, "optimiser"] = attrs.field(
        factory=lambda: named_component("optimiser", "adamw"), metadata={"default": "adamw"}
    )
    learning_rate: float = attrs.field(default=1e-3, validator=gt(0))
    rate: Annotated[ComponentSpec, "rate_schedule"] = attrs.field(  # after the warm-up
        factory=lambda: named_component("rate_schedule", "cosine"), metadata={"default": "cosine"}
    )
    warmup: int = attrs.field(default=100, validator=ge(0))
    betas: tuple[float, float] = attrs.field(default=(0.9, 0.99), validator=deep_iterable(_decay))
    weight_decay: float = attrs.field(default=0.03, validator=ge(0))
    clip_norm: float | None = attrs.field(default=None, validator=optional(gt(0)))
    ema: float = attrs.field(default=0.9999, validator=_decay)
    ema_also: tuple[float, ...] = attrs.field(  # decays of further averages
        default=(), validator=deep_iterable(_decay)
    )
    ema_warmup: bool = True  # decay at step n at most (1 + n) / (10 + n), for short runs
    label_dropout: float = attrs.field(default=0.0, validator=_share)  # for guidance
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    checkpoint_activations: bool = False
    parallel: Literal["ddp", "fsdp"] = "ddp"  # with more than one rank
    log_every: int = attrs.field(default=50, validator=ge(1))
    save_every: int = attrs.field(default=500, validator=ge(1))
    keep: int = attrs.field(default=2, validator=ge(1))  # checkpoints, in addition to the best
    milestones: tuple[int, ...] = attrs.field(  # steps whose checkpoints are always kept
        default=(), validator=deep_iterable(ge(1))
    )
    evaluate_every: int | None = attrs.field(default=500, validator=_count_or_none)  # None: never
