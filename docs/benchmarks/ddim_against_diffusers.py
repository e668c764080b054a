"""Our DDIM against diffusers' own pipeline loop, with the same network and number of steps.

    python docs/benchmarks/ddim_against_diffusers.py --steps 50

Theirs is the loop of their unconditional pipelines, written out: one scheduler step after each
network call. In turns, round after round; the ratio is taken within a round.
"""

from __future__ import annotations

import argparse
import statistics
import time

import elbowroom as er
import torch
from diffusers import DDIMScheduler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()

    sampler = {"name": "ddim", "steps": options.steps}
    model = er.assemble("digits", process="gaussian", sampler=sampler).eval()
    labels = torch.arange(options.batch) % 10
    scheduler = DDIMScheduler(prediction_type="v_prediction", clip_sample=False)

    def ours() -> None:
        model.sampler.sample(model, er.Noise.of(0, options.batch), labels)

    @torch.no_grad()
    def theirs() -> None:
        scheduler.set_timesteps(options.steps)
        image = torch.randn(options.batch, 8, 8, 1, generator=torch.Generator().manual_seed(0))
        for t in scheduler.timesteps:
            level = torch.full((options.batch,), float(scheduler.alphas_cumprod[t].logit()))
            said = model.denoiser(image, level, labels)
            image = scheduler.step(said, t, image).prev_sample

    rivals = {"ours": ours, "diffusers": theirs}
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for run in rivals.values():
        run()
    for _ in range(options.rounds):
        for name, run in rivals.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    for name, values in seconds.items():
        print(f"{name:<10} {1000 * statistics.median(values):8.1f} ms")
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["diffusers"], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"diffusers / ours = {middle:.3f}  (quartiles {low:.3f} .. {high:.3f})")


if __name__ == "__main__":
    main()
