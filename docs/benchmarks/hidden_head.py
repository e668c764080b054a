"""The last layer and the loss of the paper's masked network, in several ways: memory and time.

    python docs/benchmarks/hidden_head.py

A masked loss asks for the logits of hidden tokens only. The head is a 3 x 3 convolution from 256
channels to 3 x 256 logits a pixel; each way is run in a process of its own, forward and backward,
at times spread evenly over the batch:

    all           every logit, the loss ignores the visible ones (what training does)
    hidden        the hidden ones alone, found by nonzero (an accelerator is waited for): for each,
                  its 3 x 3 neighbourhood times the matrix of its channel
    recomputed    all, with nothing kept between forward and backward
    parts         all, one example at a time, gradients added up (train.micro_batch=1)
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHANNELS, SIDE, COLOURS, LEVELS = 256, 64, 3, 256
Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def every(h: Tensor, weight: Tensor, x: Tensor, hidden: Tensor) -> Tensor:
    """h [B, channels, H, W], weight [C V, channels, 3, 3], x and hidden [B, H, W, C]."""
    logits = F.conv2d(h, weight, padding=1).permute(0, 2, 3, 1).reshape(-1, LEVELS)
    asked = torch.where(hidden, x, -100).reshape(-1)
    return F.cross_entropy(logits, asked, reduction="sum", ignore_index=-100)


def hidden_alone(h: Tensor, weight: Tensor, x: Tensor, hidden: Tensor) -> Tensor:
    around = F.unfold(h, 3, padding=1).transpose(1, 2).reshape(-1, 9 * CHANNELS)  # [B H W, 9 c]
    total = h.new_zeros(())
    for colour, matrix in enumerate(weight.reshape(COLOURS, LEVELS, -1)):
        rows = hidden[..., colour].reshape(-1).nonzero().flatten()
        logits = around[rows] @ matrix.T
        total = total + F.cross_entropy(logits, x[..., colour].reshape(-1)[rows], reduction="sum")
    return total


def recomputed(h: Tensor, weight: Tensor, x: Tensor, hidden: Tensor) -> Tensor:
    loss: Tensor = checkpoint(every, h, weight, x, hidden, use_reentrant=False)
    return loss


WAYS: dict[str, Loss] = {
    "all": every,
    "hidden": hidden_alone,
    "recomputed": recomputed,
    "parts": every,
}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10  # MiB, on Linux


def measure(way: str, batch: int, rounds: int) -> None:
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(batch, CHANNELS, SIDE, SIDE, generator=generator).requires_grad_()
    weight = torch.randn(COLOURS * LEVELS, CHANNELS, 3, 3, generator=generator).div_(48)
    weight.requires_grad_()
    h.grad, weight.grad = torch.zeros_like(h), torch.zeros_like(weight)
    x = torch.randint(LEVELS, (batch, SIDE, SIDE, COLOURS), generator=generator)
    level = (torch.arange(batch) + 0.5) / batch
    hidden = torch.rand(x.shape, generator=generator) < level[:, None, None, None]
    size = 1 if way == "parts" else batch
    before, seconds = peak(), []
    for _ in range(rounds):
        start, value = time.perf_counter(), 0.0
        for at in (slice(k, k + size) for k in range(0, batch, size)):
            loss = WAYS[way](h[at], weight, x[at], hidden[at])
            loss.backward()
            value += loss.item()
        seconds.append(time.perf_counter() - start)
    took = statistics.median(seconds)
    print(f"{way:<12} {peak() - before:7.0f} MiB {took:7.2f} s  loss {value:.6g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help="one alone, in this process")
    options = parser.parse_args()
    if options.way:
        measure(options.way, options.batch, options.rounds)
        return
    print(f"batch {options.batch}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    for way in WAYS:
        numbers = ["--batch", str(options.batch), "--rounds", str(options.rounds)]
        subprocess.run([sys.executable, __file__, "--way", way, *numbers], check=True)


if __name__ == "__main__":
    main()
