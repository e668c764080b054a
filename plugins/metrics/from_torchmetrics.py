"""``torchmetrics``: any metric of that library that can look at samples, by its class.

    {name: torchmetrics, metric: torchmetrics.image.TotalVariation, options: {reduction: mean}}

Two forms of a torchmetrics metric fit, and the arguments of its ``update`` tell them apart:

    update(pictures)         is shown the samples as pictures [B, C, H, W]: float32 of 0 .. 1, or
                             uint8 of 0 .. 255 (``pictures: uint8``)
    update(features, real)   FID and its kin, which compare two sets: is shown vectors [B, F] of
                             the feature network ``features``, of train as real, of samples as not

One that compares pictures pair by pair (PSNR, SSIM) does not fit: a sample has no partner. The
floor is the same metric of the test split. Memory and the meaning of what is computed are the
library's own; what it draws at random is drawn with the evaluation's seed.

A config may be a stranger's: nothing outside torchmetrics is imported, and no option that names a
file or a model to load is passed on.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Literal

import attrs
import torch
from elbowroom import ElbowroomError, IncompatibleError
from elbowroom.errors import require_package
from elbowroom.plugins.evaluation.metric import Measurement, Metric, Subject
from elbowroom.plugins.sampling.picture import has_picture
from elbowroom.randomness import preserve_generators, seed_generators
from torch import Tensor, nn

from .features import Eye, FeatureSpec, eye

_CLASS = re.compile(r"(torchmetrics(?:\.[a-z]\w*)*)\.([A-Z]\w*)")


@attrs.define(eq=False)
class TorchMetrics(Metric):
    """A metric of torchmetrics; what it computes becomes measurements named after it."""

    metric: str  # torchmetrics.image.TotalVariation
    options: Mapping[str, Any] = attrs.field(factory=dict)  # of its constructor
    pictures: Literal["float", "uint8"] = "float"
    features: FeatureSpec = "classifier"  # of those that compare two sets

    _class: type[Any] = attrs.field(init=False, repr=False)
    _made: Any = attrs.field(init=False, repr=False)
    _view: _Pictures | _Vectors = attrs.field(init=False, repr=False)
    _floor: Mapping[str, float] = attrs.field(init=False, factory=dict, repr=False)
    _seed: int = attrs.field(init=False, default=0, repr=False)

    def __attrs_post_init__(self) -> None:
        self._class = find_metric(self.metric)
        for name in self.options:
            if "path" in name:
                raise ElbowroomError(
                    f"torchmetrics: option {name} of {self.metric} names something to load, which "
                    "a config may not"
                )

    def prepare(self, subject: Subject) -> None:
        self._seed = subject.seed
        sets = _arguments(self._class) == 2
        self._view = _Vectors.of(self.features, subject) if sets else self._pictures(subject)
        with self._own_generators():
            self._made = self._view.first(self._new())
            real = self._made.clone()
            for batch in subject.data.split("test").batches(subject.batch_size):
                self._view.show(real, batch.x)
            self._floor = self._numbers(real.compute())

    def _pictures(self, subject: Subject) -> _Pictures:
        spec = subject.data.spec
        if not has_picture(spec.shape):
            raise IncompatibleError(
                f"torchmetrics: {self.metric} sees pictures (H, W, 1 or 3), and this data has "
                f"shape {spec.shape}"
            )
        return _Pictures(self.pictures, spec.levels, subject.device)

    def _new(self) -> Any:
        try:
            alone = {"compute_with_cache": False, "sync_on_compute": False}
            return self._class(**self._view.needed, **{**alone, **self.options}).to(
                self._view.device
            )
        except (TypeError, ValueError, RuntimeError, ImportError) as error:
            words = " ".join(str(error).split())
            raise ElbowroomError(f"torchmetrics: {self.metric} cannot be made: {words}") from error

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        with self._own_generators():
            self._view.show(self._made, samples)

    def compute(self) -> dict[str, Measurement]:
        with self._own_generators():
            values = self._numbers(self._made.compute())
        better = {True: "higher", False: "lower", None: None}[self._class.higher_is_better]
        of = {"class": self.metric, **self._view.protocol()}
        if self.options:
            of["options"] = ", ".join(f"{key}: {value}" for key, value in self.options.items())
        return {
            name: Measurement(
                value,
                better=better if k == 0 else None,  # type: ignore[arg-type]  # one of the three
                floor=self._floor[name],
                of=of,
            )
            for k, (name, value) in enumerate(values.items())
        }

    def _numbers(self, computed: Any) -> dict[str, float]:
        """Measurement -> value: one number, or several that are numbered or have names."""
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self._class.__name__).lower()
        if isinstance(computed, list | tuple):
            computed = dict(enumerate(computed, 1))
        parts = computed if isinstance(computed, Mapping) else {None: computed}
        for part in parts.values():
            if torch.as_tensor(part).numel() != 1:
                raise ElbowroomError(
                    f"torchmetrics: {self.metric} computes a tensor of shape "
                    f"{tuple(torch.as_tensor(part).shape)}, not a number: is there a reduction "
                    "among its options?"
                )
        return {name if k is None else f"{name}_{k}": float(v) for k, v in parts.items()}

    @contextmanager
    def _own_generators(self) -> Iterator[None]:
        with preserve_generators():
            seed_generators(self._seed)
            yield


@attrs.frozen(eq=False)
class _Pictures:
    """Samples as a metric of pictures is shown them."""

    form: str
    levels: int
    device: torch.device | str
    needed: Mapping[str, Any] = attrs.field(factory=dict, init=False)

    def first(self, metric: Any) -> Any:
        return metric

    def show(self, metric: Any, x: Tensor) -> None:
        """Show it integers [B, H, W, C]."""
        shades = x.to(self.device).movedim(-1, 1).to(torch.float32) / (self.levels - 1)
        metric.update(shades if self.form == "float" else (255 * shades).round().to(torch.uint8))

    def protocol(self) -> dict[str, Any]:
        return {"pictures": {"float": "0 to 1", "uint8": "0 to 255"}[self.form]}


class Seen(nn.Module):
    """Stands where torchmetrics has a feature network: features were looked at already."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.num_features = size

    def forward(self, features: Tensor) -> Tensor:
        return features


@attrs.frozen(eq=False)
class _Vectors:
    """Samples as a metric of two sets is shown them: features, those of train as real."""

    eye: Eye
    subject: Subject
    needed: Mapping[str, Any]
    device: torch.device | str = "cpu"

    @classmethod
    def of(cls, features: FeatureSpec, subject: Subject) -> _Vectors:
        look = eye(features, subject)
        return cls(look, subject, {"feature": Seen(look.size(subject.data))})

    def first(self, metric: Any) -> Any:
        """The metric, with every training example seen as real."""
        for seen in self.eye.over("train", self.subject.data, self.subject.batch_size):
            metric.update(seen.vectors, real=True)
        return metric

    def show(self, metric: Any, x: Tensor) -> None:
        """Show it integers [B, H, W, C]."""
        metric.update(self.eye(x).vectors, real=False)

    def protocol(self) -> dict[str, Any]:
        against = f"{len(self.subject.data.split('train'))} train examples"
        return {"against": against, **self.eye.network.protocol()}


def find_metric(path: str) -> type[Any]:
    """The class that a path inside torchmetrics names, if it can look at samples."""
    require_package("torchmetrics", "metric 'torchmetrics'", "torchmetrics")
    import torchmetrics

    named = _CLASS.fullmatch(path)
    if named is None:
        raise ElbowroomError(
            f"torchmetrics: {path!r} is no class of torchmetrics: write its path, like "
            "torchmetrics.image.TotalVariation"
        )
    try:
        found: type[Any] = getattr(import_module(named[1]), named[2])
    except (ImportError, AttributeError) as error:
        raise ElbowroomError(f"torchmetrics: there is no {path}: {error}") from error
    ours = isinstance(found, type) and found.__module__.partition(".")[0] == "torchmetrics"
    if not ours or not issubclass(found, torchmetrics.Metric):
        raise ElbowroomError(f"torchmetrics: {path} is no metric of torchmetrics")
    _arguments(found)
    return found


def _arguments(cls: type[Any]) -> int:
    """1: it is shown pictures; 2: the features of real and of other pictures."""
    given = list(inspect.signature(cls.update).parameters.values())[1:]
    needed = [p.name for p in given if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(needed) == 1 or (len(needed) == 2 and needed[1] == "real"):
        return len(needed)
    raise IncompatibleError(
        f"torchmetrics: {cls.__name__} is updated with ({', '.join(needed) or '...'}): what fits "
        "here looks at pictures alone, or at real and other ones as FrechetInceptionDistance does"
    )
