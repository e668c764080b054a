"""A compiled network against the same one as it is: passes by turns, and their ratio.

    python docs/benchmarks/compiled.py
    python docs/benchmarks/compiled.py --of dit --width 384 --depth 6 --side 32 --batch 8

Forward and backward in float32 through torch.compile's default backend; the first pass, which
compiles, is timed apart. A ratio above 1: the compiled one is faster, and the first pass is won
back after as many passes as its time holds of what each saves. Kernels that were compiled before
are taken from a cache: TORCHINDUCTOR_CACHE_DIR, an empty folder, shows what a first run pays.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time

import torch
from elbowroom import Signature
from elbowroom.plugins.denoisers.dit import DiT
from elbowroom.plugins.denoisers.uvit import UViT
from torch import Tensor, nn


def timed(network: nn.Module, z: Tensor) -> float:
    """CPU seconds of a pass: what other processes take of the machine is no part of it."""
    start = time.process_time()
    network(z, None, None).square().mean().backward()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", choices=("uvit", "dit"), default="uvit")
    for name, default in (("width", 96), ("depth", 3), ("side", 8), ("batch", 64), ("rounds", 15)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()

    torch.manual_seed(0)
    signature = Signature((options.side, options.side, 1), 18, 17, None, needs_level=False)
    make = {"uvit": UViT, "dit": DiT}[options.of]
    plain = make(signature, width=options.width, depth=options.depth, dropout=0.0)
    compiled = copy.deepcopy(plain)
    compiled.compile()
    z = torch.randint(18, (options.batch, options.side, options.side, 1))
    print(f"{options.of}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    timed(plain, z)
    start = time.perf_counter()
    timed(compiled, z)
    first = time.perf_counter() - start  # by the clock: compilers run beside this process
    print(f"the first pass, which compiles: {first:.1f} s")
    rounds = [(timed(plain, z), timed(compiled, z)) for _ in range(options.rounds)]
    ratios = [one / other for one, other in rounds]
    low, middle, high = statistics.quantiles(ratios, n=4)
    plain_ms, compiled_ms = (1000 * statistics.median(times) for times in zip(*rounds, strict=True))
    print(f"plain {plain_ms:.1f} ms, compiled {compiled_ms:.1f} ms")
    print(f"plain / compiled = {middle:.3f} (quartiles {low:.3f} to {high:.3f})")
    saved = [statistics.median(one for one, _ in rounds) * (1 - 1 / r) for r in (low, middle, high)]
    words = [f"{first / s:,.0f}" if s > 0 else "never" for s in saved]
    print("passes until compiling is won back: {1} (quartiles {0} to {2})".format(*words))


if __name__ == "__main__":
    main()
