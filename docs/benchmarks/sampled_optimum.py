"""How well some of the training digits tell the optimum of all of them.

    python docs/benchmarks/sampled_optimum.py --process gaussian
    python docs/benchmarks/sampled_optimum.py --process masked

At each level the least plain loss of an example, summed over its dimensions and without labels:
that of all training examples, exactly; as the metric ``excess`` estimates it from n of them; that
of the n alone. Looks are at the n examples, which are drawn anew several times; ± is the standard
error over the draws. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable

import attrs
import elbowroom as er
import torch
from elbowroom.plugins.datasets.digits import Digits
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.metrics.optimum import Optimum
from elbowroom.plugins.metrics.sampled_optimum import SampledOptimum
from torch import Tensor

PROCESSES = {"gaussian": Gaussian(), "masked": Masked()}
LOG_SNR = {"gaussian": (-2.0, 0.0, 1.0, 2.0), "masked": (-4.0, -3.0, -2.0, -1.0)}


@attrs.frozen
class Looks:
    """Training examples with noise at one level, drawn anew for each number of a draw."""

    process: er.Process
    train: er.Split
    log_snr: float
    looks: int  # of one draw

    def exact(self, n: int, draw: int) -> Tensor:
        """[looks] what the optimum of n examples loses."""
        optimum, _, x, z, level = self._asked(n, draw)
        return optimum.plain_loss(self.process, x, z, level, None).flatten(1).sum(1)

    def estimated(self, n: int, draw: int) -> Tensor:
        """[looks] what the optimum of all examples loses, estimated from n."""
        optimum, own, x, z, level = self._asked(n, draw)
        sampled = SampledOptimum(optimum, len(self.train))
        return sampled.plain_loss(self.process, x, z, level, None, own).flatten(1).sum(1)

    def _asked(self, n: int, draw: int) -> tuple[Optimum, Tensor, Tensor, Tensor, er.Level]:
        """The optimum of n examples, which of them are looked at, x, z and level."""
        batch = self.train.take(er.some_of(n, len(self.train), draw))
        optimum = attrs.evolve(Optimum.of_examples(batch, "cpu"), labels=None)
        own = torch.randint(n, (self.looks,), generator=torch.Generator().manual_seed(draw))
        x = self.process.encode(batch.x[own])
        level = er.Level.at(torch.full((self.looks,), self.log_snr).double(), self.process)
        level = level.over(x, torch.float32)
        noise = er.Noise(draw, torch.arange(self.looks), self.looks, 0)
        return optimum, own, x, self.process.corrupt(x, level, noise), level


def mean(of: Callable[[int, int], Tensor], n: int, draws: int) -> str:
    """Over draws, with its standard error."""
    each = [float(of(n, draw).double().mean()) for draw in range(draws)]
    return f"{statistics.mean(each):.2f} ± {statistics.stdev(each) / math.sqrt(draws):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--process", choices=list(PROCESSES), default="gaussian")
    parser.add_argument("--examples", type=int, nargs="+", default=[200, 50])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--looks", type=int, default=1000, help="of each draw")
    options = parser.parse_args()
    data = Digits()
    process, train = PROCESSES[options.process].bind(data.spec), data.split("train")
    parts = (f"estimated from {n} | the {n} alone" for n in options.examples)
    print("| λ | of all, exactly |", " | ".join(parts), "|")
    print("| --- " * (2 + 2 * len(options.examples)) + "|")
    for log_snr in LOG_SNR[options.process]:
        look = Looks(process, train, log_snr, options.looks)
        cells = [mean(look.exact, len(train), options.draws)]
        for n in options.examples:
            cells += [mean(of, n, options.draws) for of in (look.estimated, look.exact)]
        print(f"| {log_snr:g} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
