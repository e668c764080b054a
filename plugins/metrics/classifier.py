"""``classifier``: a small convolutional network trained on the data set's own train split.

Inception was made for photographs; on 8x8 digits it sees nothing. This network knows the data set
it judges: its penultimate layer gives the vectors of FID and KID, its logits the Inception Score.

It is a function of the training examples and of this file: the same weights come out each time
(own generators, one thread), and they are kept under the hash of both in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from elbowroom import Dataset, DataSpec
from elbowroom.atomic import write_atomically
from elbowroom.cache_home import cache_home
from elbowroom.dataset import Split
from elbowroom.errors import ElbowroomError, IncompatibleError
from elbowroom.order import indices
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from .features import FeatureNetwork, weights_digest

VECTOR = 64  # features of a picture
_STEPS, _BATCH, _RATE = 600, 128, 3e-3
_SEED = 20_000_101
_LOOK = 512  # examples at once where nothing is learned


class Classifier(FeatureNetwork):
    """Convolutions with stride 2 down to about 4x4, then one hidden layer and the classes."""

    name = "classifier"

    def __init__(self, data: DataSpec) -> None:
        super().__init__()
        if len(data.shape) != 3 or data.classes is None:
            raise IncompatibleError(
                "features: the classifier needs pictures (H, W, C) with labels; this data set has "
                f"shape {data.shape} and {'no' if data.classes is None else data.classes} classes"
            )
        height, width, channels = data.shape
        self.levels, self.digest, self.accuracy = data.levels, "", 0.0
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
        self.head = nn.Linear(VECTOR, data.classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        centred = x.movedim(-1, 1).to(torch.float32) * (2 / (self.levels - 1)) - 1
        vectors = F.relu(self.vector(self.body(centred).flatten(1)))
        return vectors, self.head(vectors)

    @property
    def about(self) -> dict[str, Any]:
        return {"features_test_accuracy": round(self.accuracy, 4)}


def classifier(data: Dataset) -> Classifier:
    """The data set's own network: out of the cache, or trained now and kept."""
    with torch.random.fork_rng():  # its first weights are drawn, and not used
        network = Classifier(data.spec)
    kept = cache_home() / "features" / f"classifier-{_key(data)[:32]}.safetensors"
    if not _read(network, kept):
        _train(network, data.split("train"))
        network.accuracy = _accuracy(network, data.split("test"))
        _keep(network, kept)
    network.digest = weights_digest(network)
    return network.requires_grad_(False).eval()


def _key(data: Dataset) -> str:
    """sha256 of the examples it learns from and is tested on, and of how it is made."""
    total = hashlib.sha256(Path(__file__).read_bytes())
    total.update(repr((data.spec.shape, data.spec.levels, data.spec.classes)).encode())
    for name in ("train", "test"):
        for batch in data.split(name).batches(_LOOK):
            assert batch.y is not None, "a data set with classes has labels"
            total.update(batch.x.to(torch.int32).contiguous().numpy().tobytes())
            total.update(batch.y.to(torch.int32).contiguous().numpy().tobytes())
        total.update(name.encode())
    return total.hexdigest()


def _train(network: Classifier, split: Split) -> None:
    """Adam with a falling rate; every batch in keyed order, shifted by at most a pixel."""
    with _one_thread(), torch.random.fork_rng():
        torch.manual_seed(_SEED)
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


def _read(network: Classifier, path: Path) -> bool:
    """Take the weights out of the cache, if they are there and whole."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()["about"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no dict
        network.load_state_dict(weights)
        network.accuracy = float(about["test_accuracy"])
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, RuntimeError):
        return False  # not there, or not whole: it will be made again
    return True


def _keep(network: Classifier, path: Path) -> None:
    about = {"about": json.dumps({"test_accuracy": network.accuracy})}
    weights = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    with contextlib.suppress(OSError, ElbowroomError):  # a cache that cannot be written is no fault
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, save(weights, about))
