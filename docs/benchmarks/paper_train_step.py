"""One whole training step of a preset on made-up images: its time and its peak memory.

    python docs/benchmarks/paper_train_step.py
    python docs/benchmarks/paper_train_step.py --preset imagenet64-324m --checkpoint-activations

Forward, backward, AdamW and the moving average, as in a run, in float32; the first step also
allocates the optimiser's state. Nothing is read from disk, so no data set is needed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import torch
from elbowroom import Noise, load_config
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.plugins.training.ema import EMA


def peak_gigabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**30 if sys.platform == "darwin" else peak / 2**20  # bytes there, kB elsewhere


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="imagenet64-204m")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--checkpoint-activations", action="store_true")
    parser.add_argument("overrides", nargs="*", help="key=value, as on the command line")
    options = parser.parse_args()

    start = time.perf_counter()
    parts = build_parts(load_config(options.preset, tuple(options.overrides)))
    model = build_model(parts).train()
    train = parts.config.train
    assert parts.data is not None
    spec = parts.data.spec
    count = sum(p.numel() for p in model.parameters())
    print(f"{options.preset}: {count:,} parameters, built in {time.perf_counter() - start:.1f} s")
    print(f"batch {options.batch}, {torch.get_num_threads()} threads, torch {torch.__version__}")

    model.denoiser.checkpoint_activations = options.checkpoint_activations
    optimiser = torch.optim.AdamW(
        model.parameters(),
        lr=train.learning_rate,
        betas=train.betas,
        weight_decay=train.weight_decay,
    )
    average = EMA(model, train.ema, train.ema_warmup)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(spec.levels, (options.batch, *spec.shape), generator=generator)
    y = None
    if spec.classes is not None:
        y = torch.randint(spec.classes, (options.batch,), generator=generator)
    for step in range(options.steps):
        start = time.perf_counter()
        optimiser.zero_grad(set_to_none=True)
        loss = model(x, y, Noise.of(0, options.batch, step=step)).loss
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        optimiser.step()
        average.update(step)
        end = time.perf_counter()
        print(
            f"step {step}: {end - start:.2f} s (forward {forward - start:.2f}, backward "
            f"{backward - forward:.2f}, update {end - backward:.2f}), loss {loss.item():.4g}, "
            f"peak {peak_gigabytes():.2f} GB"
        )


if __name__ == "__main__":
    main()
