"""What keeping freed memory saves of a training step on the CPU.

    python docs/benchmarks/retain_memory.py digits denoiser.channels=32 --pairs 5

A plain loop of the config's model and AdamW, with one thread, in processes by turns: as glibc does
it, and within ``elbowroom.retain_memory``. Prints CPU time, system time and page faults of a step,
the peak of memory, and the ratios of CPU time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys

import elbowroom as er
import torch
from elbowroom.plugins.training.host_memory import retain_memory

WARM, STEPS = 4, 25


def measure(keep: bool, config: str, overrides: list[str]) -> dict[str, float]:
    """A step's figures in this process."""
    torch.set_num_threads(1)
    checked = er.load_config(config, overrides)
    model = er.assemble(checked).train()
    split = er.parts_of(model).dataset().split("train")
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4)

    def step() -> None:
        batch = split.take(torch.randint(len(split), (checked.train.batch_size,)))
        optimiser.zero_grad()
        model(batch.x, batch.y).loss.backward()
        optimiser.step()

    with retain_memory("cpu") if keep else contextlib.nullcontext():
        for _ in range(WARM):
            step()
        before = resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(STEPS):
            step()
        after = resource.getrusage(resource.RUSAGE_SELF)
    system = after.ru_stime - before.ru_stime
    return {
        "cpu ms": 1e3 * (after.ru_utime - before.ru_utime + system) / STEPS,
        "system ms": 1e3 * system / STEPS,
        "page faults": (after.ru_minflt - before.ru_minflt) / STEPS,
        "peak MiB": after.ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("override", nargs="*")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--one", choices=["usual", "kept"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one == "kept", options.config, options.override)))
        return
    ratios = []
    for _ in range(options.pairs):
        found = {}
        for way in ("usual", "kept"):
            words = [sys.executable, __file__, options.config, *options.override, "--one", way]
            printed = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
            found[way] = json.loads(printed.splitlines()[-1])
            print(way, ", ".join(f"{name} {value:.1f}" for name, value in found[way].items()))
        ratios.append(found["usual"]["cpu ms"] / found["kept"]["cpu ms"])
    middle = statistics.median(ratios)
    print(f"usual / kept: {middle:.3f} (median; {min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
