"""How much the gradient of one training step scatters, by time sampler, at a run's weights.

    python docs/benchmarks/gradient_variance.py RUN [RUN ...] --batches 64

For every time sampler the gradient of the run's own objective is taken at the same weights for
many batches (examples, times and noise anew each time; dropout off, as its noise is the same for
all). Printed is the sum of the variances of all its elements, divided by that of stratified
times: what a batch would have to be multiplied by to scatter as little.
"""

from __future__ import annotations

import argparse

import torch
from elbowroom.objective.diffusion import Diffusion
from elbowroom.plugins.training.batches import BatchLoader
from elbowroom.plugins.training.ranks import Ranks
from elbowroom.runs.load import load_run

SAMPLERS = ("stratified", "uniform", "importance")


def gradients(model: Diffusion, feed: BatchLoader, batches: int) -> torch.Tensor:
    """[batches, parameters]"""
    found = []
    for n in range(batches):
        model.zero_grad(set_to_none=True)
        batch = feed(n)
        model(batch.x, batch.y, feed.noise(n)).loss.backward()
        each = [p.grad.flatten() for p in model.denoiser.parameters() if p.grad is not None]
        found.append(torch.cat(each))
    return torch.stack(found)


def main() -> None:
    """One table a run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--batches", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=128)
    options = parser.parse_args()
    for run in options.runs:
        print(run)
        reference = None
        for name in SAMPLERS:
            loaded = load_run(run, {"objective.times": name})
            model, data = loaded.model, loaded.parts.config.data.build()
            feed = BatchLoader(
                data.split("train"), 1, options.batch_size, Ranks(torch.device("cpu"))
            )
            grads = gradients(model, feed, options.batches)
            feed.close()
            scatter = grads.var(0).sum().item()
            halves = [part.var(0).sum().item() for part in grads.chunk(4)]
            error = torch.tensor(halves).std().item() / 2
            reference = reference or scatter
            print(f"  {name:16} {scatter / reference:.3f} ± {error / reference:.3f}")


if __name__ == "__main__":
    main()
