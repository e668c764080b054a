"""Our transformer against diffusers' of the same width, depth, heads and number of tokens.

Forward and backward of both, by turns in one process, so that a busy machine slows both alike:

    python docs/benchmarks/dit_against_diffusers.py
    python docs/benchmarks/dit_against_diffusers.py --width 384 --depth 12 --side 32 --batch 4

Prints the median time of a pass of each and the ratio diffusers / ours (above 1: ours is faster),
with the quartiles of the ratio over the rounds. The MLPs have equally many parameters: ours is
gated with 8/3 of the width, theirs is plain with 4 times the width.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from elbowroom.plugins.uvit.dit import DiT
from elbowroom.process import Signature
from torch import Tensor, nn

CHANNELS, CLASSES = 3, 10


def ours(side: int, width: int, depth: int, head: int, positions: str) -> DiT:
    signature = Signature((side, side, CHANNELS), None, None, CLASSES, needs_level=True)
    return DiT(
        signature,
        width=width,
        depth=depth,
        heads=width // head,
        hidden=8 * width // 3,
        dropout=0.0,
        positions=positions,  # type: ignore[arg-type]  # from the command line
    )


def theirs(side: int, width: int, depth: int, head: int) -> nn.Module:
    from diffusers import DiTTransformer2DModel

    return DiTTransformer2DModel(
        num_attention_heads=width // head,
        attention_head_dim=head,
        in_channels=CHANNELS,
        num_layers=depth,
        sample_size=side,
        patch_size=2,
        num_embeds_ada_norm=CLASSES,
    )


def seconds(run: Callable[[], Tensor], network: nn.Module) -> float:
    network.zero_grad(set_to_none=True)
    start = time.perf_counter()
    run().square().mean().backward()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--head", type=int, default=64, help="the width of one head")
    parser.add_argument("--side", type=int, default=32, help="of the image; patches are 2 x 2")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--positions", choices=("sincos", "rope"), default="sincos")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    shape = (options.side, options.width, options.depth, options.head)
    mine, other = ours(*shape, options.positions).train(), theirs(*shape).train()
    z = torch.randn(options.batch, options.side, options.side, CHANNELS)
    z_first = z.permute(0, 3, 1, 2).contiguous()  # their layout
    log_snr = torch.randn(options.batch)
    steps, labels = torch.randint(1000, (2, options.batch)).unbind()
    labels = labels % CLASSES

    def run_mine() -> Tensor:
        return mine(z, log_snr, labels)

    def run_other() -> Tensor:
        return other(z_first, timestep=steps, class_labels=labels).sample

    for _ in range(2):
        seconds(run_mine, mine), seconds(run_other, other)
    times = []
    for turn in range(options.rounds):
        pair = [(run_mine, mine), (run_other, other)]
        order = pair if turn % 2 == 0 else pair[::-1]
        spent = {id(network): seconds(run, network) for run, network in order}
        times.append((spent[id(mine)], spent[id(other)]))
    ratios = sorted(b / a for a, b in times)
    low, middle, high = statistics.quantiles(ratios, n=4)

    def size(network: nn.Module) -> str:
        return f"{sum(p.numel() for p in network.parameters()) / 1e6:.2f}M parameters"

    tokens = (options.side // 2) ** 2
    print(
        f"width {options.width}, depth {options.depth}, {tokens} tokens, batch {options.batch}, "
        f"{options.positions}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    )
    print(f"dit       {1e3 * statistics.median(a for a, _ in times):8.1f} ms  {size(mine)}")
    print(f"diffusers {1e3 * statistics.median(b for _, b in times):8.1f} ms  {size(other)}")
    print(f"diffusers / dit = {middle:.3f}  (quartiles {low:.3f} .. {high:.3f})")


if __name__ == "__main__":
    main()
