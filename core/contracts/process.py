"""Noise processes: how data is corrupted, and the bound on its likelihood.

A process turns data x into z at a level lambda, and its bound on the negative log-likelihood is

    -log p(x)  <=  prior KL + reconstruction + integral of price(lambda) E[plain loss] dlambda.

The *plain loss* is the network's own error (squared error, cross-entropy), elementwise and zero
where nothing is predicted; the *price* is its factor in the bound. In discrete time the factor of a
step from lambda_t up to lambda_s is ``step_price``, and

    step_price / (t - s)  ->  rate(t) * price(lambda)      as s -> t.

A process without a price-times-plain form sets price = 1 and puts its whole density into plain.
No code depends on a particular process: samplers require ``traits``, networks are built from the
:class:`Signature`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs

from ..errors import DataError, ElbowroomError, IncompatibleError
from .dataset import DataSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor
    from typing_extensions import Self

    from ..randomness.noise import Noise
    from .level import Level
    from .schedule import Schedule


@attrs.frozen
class Signature:
    """Input and output spaces of a denoiser; ``None`` states mean real values."""

    shape: tuple[int, ...]  # (H, W, C) or (N,)
    in_states: int | None
    out_states: int | None
    classes: int | None
    needs_level: bool  # whether lambda is an input of the network
    level_per_position: bool = False  # log_snr is [B, *shape], not [B]
    text: bool = False  # windows of a text: the same token may be at any position
    # number of values of each position, where they differ: a value's meaning is its position's
    sizes: tuple[int, ...] | None = None


@attrs.frozen(eq=False)
class Step:
    """One step of a sampler, for a batch whose samples may be at different steps."""

    index: Tensor  # [B] which interval of the grid
    level: Level  # before the step; levels broadcast against z, in float64
    to: Level  # after the step
    start: Level  # at the start of the trajectory
    shared_index: int | None = None  # ``index`` as a number, if it is the same for all samples
    count: int | None = None  # number of intervals, if ``shared_index`` is given

    @property
    def number(self) -> int:
        """The shared index of the interval; reading it does not synchronise with the device."""
        assert self.shared_index is not None, "these samples are at different steps"
        return self.shared_index

    @property
    def progress(self) -> float:
        """The fraction of intervals done after this step; 1 in the last."""
        assert self.count is not None, "these samples are at different steps"
        return (self.number + 1) / self.count

    def aligned(self, z: Tensor) -> Step:
        """The step with the batch dimension of its levels aligned to that of ``z``."""
        levels = (self.level, self.to, self.start)
        level, to, start = (one.aligned(z) for one in levels)
        if (level, to, start) == levels:
            return self
        return attrs.evolve(self, level=level, to=to, start=start)


class Absorbing(Protocol):
    """Protocol of the trait ``absorbing``: one state means *masked*."""

    @property
    def mask(self) -> int:
        """The mask state."""


@attrs.frozen
class Process(ABC):
    """A noise process. Seven methods are enough to train and sample.

    ``signature``, ``encode``, ``prior``, ``corrupt``, ``read``, ``plain_loss`` and ``reverse`` are
    abstract. ``prior_kl`` and ``reconstruction`` add bits/dim, ``step_price`` discrete time, and
    ``log_likelihood`` exact posteriors.

    A level passed to a method is one for all examples or one per example [B]. A method begins with
    ``level = level.aligned(x)``, since broadcasting would align [B] with the last dimension of x.

    Example:
        >>> @attrs.frozen
        ... class Additive(Process):                     # z = a x + b eps
        ...     traits = frozenset({"real"})
        ...     natural_schedule = "cosine"
        ...     def signature(self):
        ...         return Signature(self.data.shape, None, None, self.data.classes, True)
        ...     def corrupt(self, x, level, noise):
        ...         level = level.aligned(x)
        ...         eps = noise.normal("noise", x.shape[1:], x.dtype)
        ...         return level.share.sqrt() * x + level.noise_share.sqrt() * eps
        ...     def read(self, output, z, level):
        ...         return RealPrediction(z, level.aligned(z), given_x=output)
        ...     ...
    """

    traits: ClassVar[frozenset[str]] = frozenset()
    """Properties that samplers may require: ``real`` or ``categorical``, ``absorbing``, ..."""

    natural_schedule: ClassVar[str]
    """Name of the schedule used if a config has none."""

    def natural_schedule_options(self) -> Mapping[str, Any]:
        """Options of that schedule, which may depend on the bound data (default: none)."""
        return {}

    _data: DataSpec | None = attrs.field(default=None, init=False, repr=False, eq=False)

    def bind(self, data: DataSpec) -> Self:
        """The same process for data of this form."""
        bound = copy.copy(self)
        object.__setattr__(bound, "_data", data)
        return bound

    @property
    def data(self) -> DataSpec:
        """The form of the data this process was bound to."""
        if self._data is None:
            raise RuntimeError(f"{type(self).__name__} is not bound to data: call bind(DataSpec)")
        return self._data

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of an example; None if the process is not bound to data."""
        return None if self._data is None else self._data.shape

    def check_schedule(self, schedule: Schedule) -> None:  # noqa: B027  # most take any
        """Raise an IncompatibleError if the process cannot be used with this schedule."""

    def remarks(self, schedule: Schedule) -> tuple[str, ...]:
        """Notes for the user on training the bound data with this schedule."""
        return ()

    # -- to train and sample: these seven are enough

    @abstractmethod
    def signature(self) -> Signature:
        """Input and output spaces of a denoiser for the bound data."""

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Integers of the data set -> the process's own space, element by element."""

    @abstractmethod
    def prior(self, noise: Noise) -> Tensor:
        """z at t = 1, [B, *shape]."""

    @abstractmethod
    def corrupt(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        """z ~ q(z | x) at the level."""

    @abstractmethod
    def read(self, output: Tensor, z: Tensor, level: Level) -> Any:
        """The prediction for a network's output (RealPrediction or CategoricalPrediction)."""

    @abstractmethod
    def plain_loss(self, x: Tensor, z: Tensor, prediction: Any, level: Level) -> Tensor:
        """[B, *D], zero where nothing is predicted."""

    @abstractmethod
    def reverse(self, z: Tensor, prediction: Any, step: Step, noise: Noise) -> Tensor:
        """One ancestral draw from p(z_s | z_t)."""

    # -- with defaults

    def price(self, log_snr: Tensor) -> Tensor:
        """The factor of the plain loss in the bound, per unit of lambda (default: 1)."""
        import torch

        return torch.ones_like(log_snr)

    def units(self, z: Tensor) -> Tensor:
        """[B] number of predicted elements per example (default: all)."""
        return z.new_full((len(z),), z[0].numel())

    def network_input(self, z: Tensor, level: Level) -> Tensor:
        """The network's input for z (input scaling; default: z itself)."""
        return z

    def decode(self, z: Tensor, prediction: Any | None, level: Level, noise: Noise) -> Tensor:
        """Integers for the last z of a sampler, with a final prediction if one was requested.

        Default: z itself if it is categorical, else the integer whose encoding is nearest to the
        predicted x, or to z without a prediction.
        """
        import torch

        if self.signature().in_states is not None:
            return z
        x = z if prediction is None else prediction.x
        every = torch.arange(self.data.levels, device=z.device)
        if self.data.sizes is not None:  # [V, *D], the last value again where there are fewer
            every = every.view(-1, *(1,) * len(self.data.shape))
            every = torch.minimum(every, torch.as_tensor(self.data.counts(z.device)) - 1)
        values = self.encode(every).to(x.dtype).movedim(0, -1)
        return (x.unsqueeze(-1) - values).abs().argmin(-1)

    # -- the likelihood: for bits/dim, discrete time and exact posteriors

    @property
    def has_likelihood(self) -> bool:
        """Whether the process defines ``prior_kl`` and ``reconstruction``."""
        own = (type(self).prior_kl, type(self).reconstruction)
        return own[0] is not Process.prior_kl and own[1] is not Process.reconstruction

    def prior_kl(self, x: Tensor, level: Level) -> Tensor:
        """[B] KL(q(z_1 | x) || p(z_1)) in nats, at the schedule's last level."""
        raise self._undefined("prior_kl")

    def reconstruction(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        """[B] E[-log p(x | z_0)] in nats (or an unbiased draw of it), at the first level."""
        raise self._undefined("reconstruction")

    def step_price(self, log_snr: Tensor, to: Tensor) -> Tensor:
        """As ``price``, for a whole step from ``log_snr`` up to ``to``."""
        raise self._undefined("step_price")

    def step_kl(self, x: Tensor, z: Tensor, prediction: Any, level: Level, to: Level) -> Tensor:
        """[B] KL(q(z_s | z_t, x) || p(z_s | z_t)) in nats."""
        level, to = level.aligned(x), to.aligned(x)
        plain = self.plain_loss(x, z, prediction, level)
        return (self.step_price(level.log_snr, to.log_snr) * plain).flatten(1).sum(1)

    def log_likelihood(self, z: Tensor, x: Tensor, level: Level) -> Tensor:
        """[B] log q(z | x) at the level, in nats, for exact posteriors."""
        raise self._undefined("log_likelihood")

    def _undefined(self, method: str) -> IncompatibleError:
        return IncompatibleError(
            f"process {type(self).__name__} does not define {method}, which is needed here"
        )

    # -- hints for samplers

    def needs_final_prediction(self, z: Tensor) -> Tensor:
        """[B] which samples need one more prediction to be decoded (default: real ones)."""
        last = self.signature().in_states is None
        return z.new_full((len(z),), last).bool()

    def clip_prediction(self, prediction: Any) -> Any:
        """The prediction, clipped to the data's range (default: unchanged)."""
        return prediction

    def active_steps(self, levels: Level, noise: Noise, z: Tensor) -> Tensor:
        """[B, T] which steps of a grid of T + 1 levels can change samples that start at z."""
        return levels.log_snr.new_ones(len(noise), len(levels.log_snr) - 1).bool()


def check_examples(x: Tensor, data: DataSpec) -> None:
    """Raise a DataError unless examples have the shape of the data; values are not checked."""
    if not hasattr(x, "shape"):
        raise DataError(f"x is a {type(x).__name__}; allowed: a tensor of integers [B, *shape]")
    if x.shape[1:] == data.shape:
        return
    wanted = f"[B, {', '.join(map(str, data.shape))}]"
    hint = ""
    if x.shape == data.shape:
        hint = ": a batch of one is x[None]"
    elif len(data.shape) == 3 and x.shape[1:] == (data.shape[2], *data.shape[:2]):
        hint = ": channels come last, x.permute(0, 2, 3, 1) puts them there"
    raise DataError(f"examples of shape {list(x.shape)} for a model of {wanted}{hint}")


def check_range(x: Tensor, levels: Tensor | int) -> None:
    """Raise a DataError unless x are integers 0 .. levels-1 (values on an accelerator pass).

    ``levels`` is one number, or one for each position [*D].
    """
    if x.is_floating_point() or x.is_complex():
        kind = str(x.dtype).removeprefix("torch.")
        levels = levels if isinstance(levels, int) else int(levels.max())
        raise DataError(
            f"data are {kind} numbers, but a model takes the integers "
            f"0 to {levels - 1}: floats x of 0 .. 1 become (x * {levels - 1}).round().long()"
        )
    if x.device.type != "cpu" or not x.numel():
        return  # reading values would synchronise with an accelerator
    if not isinstance(levels, int):
        outside = ((x < 0) | (x >= levels)).flatten(1).any(0).nonzero()[:1]
        for n in outside.flatten().tolist():
            at, most = x.flatten(1)[:, n], int(levels.flatten()[n]) - 1
            raise DataError(
                f"data has values {_range(at)} at position {n}; allowed are 0 to {most}"
            )
    elif int(x.min()) < 0 or int(x.max()) >= levels:
        raise DataError(f"data has values {_range(x)}; allowed are 0 to {levels - 1}")


def _range(x: Tensor) -> str:
    return f"{int(x.min())} to {int(x.max())}"


def check_finite(x: Tensor) -> Tensor:
    """x, if every value is finite; otherwise an error with the number of bad samples."""
    if not bool(x.isfinite().all()):
        bad = int((~x.isfinite().flatten(1).all(1)).sum())
        raise ElbowroomError(
            f"{bad} of {len(x)} samples have values that are NaN or infinite: the network's "
            "output or the schedule's ends are not finite"
        )
    return x
