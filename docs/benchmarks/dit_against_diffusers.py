"""Our transformer against diffusers' of the same width, depth, heads and number of tokens.

A forward pass alone, and forward with backward, of both, by turns in one process, so that a busy
machine slows both alike:

    python docs/benchmarks/dit_against_diffusers.py
    python docs/benchmarks/dit_against_diffusers.py --width 384 --depth 12 --side 32 --batch 4
    python docs/benchmarks/dit_against_diffusers.py --of uvit      # the DiT inside uvit

Prints the median time of a pass of each and the ratio diffusers / ours (above 1: ours is faster),
with the quartiles of the ratio over the rounds; then what our passes with backward are made of, by
torch's profiler, and the ratio there would be if all but matrix products and attention took no
time. The MLPs have equally many parameters: ours is gated with 8/3 of the width, theirs is plain
with 4 times the width.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from elbowroom import Signature
from elbowroom.plugins.denoisers.dit import DiT
from elbowroom.plugins.denoisers.transformer import plainly
from elbowroom.plugins.denoisers.uvit import UViT
from torch import Tensor, nn

IMAGE, INSIDE, CLASSES = 3, 64, 10  # channels of an image, channels inside uvit


class Inside(nn.Module):
    """The DiT inside a uvit: [B, channels, H, W] -> the same."""

    def __init__(self, network: UViT) -> None:
        super().__init__()
        self.network = network

    def forward(self, h: Tensor, condition: Tensor) -> Tensor:
        tokens = self.network.transformer(self.network._tokens(h), condition, plainly)
        return self.network._pixels(tokens)


def sizes(options: argparse.Namespace) -> dict[str, object]:
    return {
        "width": options.width,
        "depth": options.depth,
        "heads": options.width // options.head,
        "hidden": 8 * options.width // 3,
        "dropout": 0.0,
        "positions": options.positions,
    }


def our_dit(options: argparse.Namespace) -> tuple[nn.Module, Callable[[], Tensor]]:
    shape = (options.side, options.side, IMAGE)
    network = DiT(Signature(shape, None, None, CLASSES, needs_level=True), **sizes(options))
    z = torch.randn(options.batch, *shape)
    level, labels = torch.randn(options.batch), torch.randint(CLASSES, (options.batch,))
    return network, lambda: network(z, level, labels)


def our_uvit(options: argparse.Namespace) -> tuple[nn.Module, Callable[[], Tensor]]:
    signature = Signature((options.side, options.side, IMAGE), None, None, None, needs_level=False)
    whole = UViT(signature, channels=INSIDE, **sizes(options))
    del whole.values, whole.condition, whole.stem, whole.way_in, whole.way_out, whole.head
    del whole.told  # what is left is the DiT
    network = Inside(whole)
    h = torch.randn(options.batch, INSIDE, options.side, options.side, requires_grad=True)
    condition = torch.randn(options.batch, INSIDE)
    return network, lambda: network(h, condition)


def theirs(options: argparse.Namespace, channels: int) -> tuple[nn.Module, Callable[[], Tensor]]:
    from diffusers import DiTTransformer2DModel

    network = DiTTransformer2DModel(
        num_attention_heads=options.width // options.head,
        attention_head_dim=options.head,
        in_channels=channels,
        num_layers=options.depth,
        sample_size=options.side,
        patch_size=2,
        num_embeds_ada_norm=CLASSES,
    )
    z = torch.randn(options.batch, channels, options.side, options.side)
    z.requires_grad_(channels == INSIDE)  # inside uvit what comes before must learn as well
    step = torch.randint(1000, (options.batch,))
    labels = torch.randint(CLASSES, (options.batch,))
    return network, lambda: network(z, timestep=step, class_labels=labels).sample


Pass = Callable[[Callable[[], Tensor]], object]


@torch.no_grad()
def forward(run: Callable[[], Tensor]) -> None:
    run()


def forward_and_backward(run: Callable[[], Tensor]) -> None:
    run().square().mean().backward()


def seconds(
    run: Callable[[], Tensor], network: nn.Module, clock: Callable[[], float], which: Pass
) -> float:
    network.zero_grad(set_to_none=True)
    start = clock()
    which(run)
    return clock() - start


def shares(run: Callable[[], Tensor], network: nn.Module, passes: int = 3) -> dict[str, float]:
    """What part of a pass is spent in matrix products and in the attention kernel."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(passes):
            seconds(run, network, time.perf_counter, forward_and_backward)
    spent = {event.key: event.self_cpu_time_total for event in profile.key_averages()}

    def of(*names: str) -> float:
        return sum(t for key, t in spent.items() if any(n in key for n in names))

    products = of("aten::mm", "aten::addmm", "aten::bmm", "convolution")
    return {
        "matrix products": products / sum(spent.values()),
        "attention": of("aten::_scaled_dot_product") / sum(spent.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", choices=("dit", "uvit"), default="dit")
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--head", type=int, default=64, help="the width of one head")
    parser.add_argument("--side", type=int, default=32, help="of the image; patches are 2 x 2")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--positions", choices=("sincos", "rope"), default="sincos")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: for a machine that is shared"
    )
    options = parser.parse_args()
    clock = {"wall": time.perf_counter, "cpu": time.process_time}[options.clock]
    torch.set_num_threads(options.threads)

    make, channels = {"dit": (our_dit, IMAGE), "uvit": (our_uvit, INSIDE)}[options.of]
    mine, run_mine = make(options)
    other, run_other = theirs(options, channels)
    mine.train(), other.train()

    def size(network: nn.Module) -> str:
        return f"{sum(p.numel() for p in network.parameters()) / 1e6:.2f}M parameters"

    tokens = (options.side // 2) ** 2
    print(
        f"{options.of}: width {options.width}, depth {options.depth}, {tokens} tokens, batch "
        f"{options.batch}, {options.positions}, {torch.get_num_threads()} threads, "
        f"{options.clock} time, torch {torch.__version__}"
    )
    rivals = [(run_mine, mine), (run_other, other)]
    for which in (forward, forward_and_backward):
        times = []
        for turn in range(-2, options.rounds):  # two to warm up
            order = rivals if turn % 2 == 0 else rivals[::-1]
            spent = {id(of): seconds(run, of, clock, which) for run, of in order}
            times.append((spent[id(mine)], spent[id(other)]))
        times = times[2:]
        low, middle, high = statistics.quantiles((b / a for a, b in times), n=4)
        print(which.__name__.replace("_", " "))
        print(f"  ours      {1e3 * statistics.median(a for a, _ in times):8.1f} ms  {size(mine)}")
        print(f"  diffusers {1e3 * statistics.median(b for _, b in times):8.1f} ms  {size(other)}")
        print(f"  diffusers / ours = {middle:.3f}  (quartiles {low:.3f} .. {high:.3f})")
    parts = shares(run_mine, mine)
    told = ", ".join(f"{part} {share:.0%}" for part, share in parts.items())
    print(f"  ours is {told}; with nothing else the ratio were {middle / sum(parts.values()):.2f}")


if __name__ == "__main__":
    main()
