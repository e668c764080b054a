"""``classifier``: a small convolutional network trained on the data set's own train split.

Inception was made for photographs; on 8x8 digits it sees nothing. This network knows the data set
it judges: its penultimate layer gives the vectors of FID and KID, its logits the Inception Score.

It is a function of the training examples and of this file: the same weights come out each time
(own generators, one thread), and they are kept under the hash of both in the user's cache folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from elbowroom import Dataset, IncompatibleError, Split
from elbowroom.plugins.evaluation.feature_network import FeatureNetwork, weights_digest
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.randomness import indices, preserve_generators, seed_generators
from torch import Tensor, nn

from .kept import Kept, code_digest, digest_of

VECTOR = 64  # features of a picture
_SPATIAL = 7  # channels of its spatial features
_STEPS, _BATCH, _RATE = 600, 128, 3e-3
_SEED = 20_000_101
_LOOK = 512  # examples at once where nothing is learned


class Classifier(FeatureNetwork):
    """Convolutions with stride 2 down to about 4x4, then one hidden layer and the classes."""

    name, code = "classifier", code_digest(__file__)

    def __init__(self, data: Dataset) -> None:
        super().__init__()
        spec = data.spec
        if len(spec.shape) != 3 or spec.classes is None:
            raise IncompatibleError(
                "features: the classifier needs pictures (H, W, C) with labels; this data set has "
                f"shape {spec.shape} and {'no' if spec.classes is None else spec.classes} classes"
            )
        self.levels, self.digest, self.accuracy = spec.levels, "", 0.0
        with preserve_generators():  # its first weights are drawn, and not used
            self._build(spec.shape, spec.classes)

    def _build(self, shape: tuple[int, ...], classes: int) -> None:
        height, width, channels = shape
        layers: list[nn.Module] = []
        wide, stride = 32, 1
        while True:
            layers += [
                nn.Conv2d(channels, wide, 3, stride, 1),
                nn.GroupNorm(8, wide),
                nn.ReLU(),
            ]
            height, width = -(-height // stride), -(-width // stride)
            if min(height, width) <= 4:
                break
            channels, wide, stride = wide, min(2 * wide, 128), 2
        self.body = nn.Sequential(*layers)
        self.vector = nn.Linear(wide * height * width, VECTOR)
        self.head = nn.Linear(VECTOR, classes)

    def prepare(self, subject: Subject) -> None:
        """The data set's own weights: out of the cache, or learned now and kept."""
        data = subject.data
        kept = Kept.of("classifier", code_digest(__file__), digest_of(subject))
        if not _take(self, kept):
            _train(self, data.split("train"))
            self.accuracy = _accuracy(self, data.split("test"))
            kept.write(self.state_dict(), {"test_accuracy": self.accuracy})
        self.digest = weights_digest(self)
        self.requires_grad_(False).eval()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        vectors = F.relu(self.vector(self._seen(x).flatten(1)))
        return vectors, self.head(vectors)

    def spatial(self, x: Tensor) -> Tensor:
        """The first channels of the last convolution, place by place."""
        return self._seen(x)[:, :_SPATIAL].movedim(1, -1).flatten(1)

    def _seen(self, x: Tensor) -> Tensor:
        """Integers [B, H, W, C] -> [B, wide, about 4, about 4]."""
        seen: Tensor = self.body(x.movedim(-1, 1).to(torch.float32) * (2 / (self.levels - 1)) - 1)
        return seen

    @property
    def about(self) -> dict[str, Any]:
        return {"features_test_accuracy": round(self.accuracy, 4)}


def _take(network: Classifier, kept: Kept) -> bool:
    """Take the weights out of the cache, if they are there and fit."""
    found = kept.read()
    if found is None:
        return False
    weights, about = found
    try:
        network.load_state_dict(weights)
        network.accuracy = float(about["test_accuracy"])
    except (KeyError, ValueError, TypeError, RuntimeError):
        return False  # something else under this name: it will be made again
    return True


def _train(network: Classifier, split: Split) -> None:
    """Adam with a falling rate; every batch in keyed order, shifted by at most a pixel."""
    with _one_thread(), preserve_generators():
        seed_generators(_SEED)
        for module in network.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.reset_parameters()
        optimiser = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.01)
        decline = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, _STEPS)
        size = min(_BATCH, len(split))
        network.train()
        for step in range(_STEPS):
            batch = split.take(indices(_SEED, step, torch.arange(size), size, len(split)))
            assert batch.y is not None
            down, across = (torch.randint(-1, 2, (2,))).tolist()
            _, logits = network(batch.x.roll((down, across), (1, 2)))
            optimiser.zero_grad()
            F.cross_entropy(logits, batch.y, label_smoothing=0.05).backward()
            optimiser.step()
            decline.step()


@torch.no_grad()
def _accuracy(network: Classifier, split: Split) -> float:
    network.eval()
    right = 0
    for batch in split.batches(_LOOK):
        assert batch.y is not None
        right += int((network(batch.x)[1].argmax(1) == batch.y).sum())
    return right / max(len(split), 1)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in one order, however many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
