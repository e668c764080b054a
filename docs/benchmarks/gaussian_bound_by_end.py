"""Where a short Gaussian run on digits loses its bits, and what another end would change.

    python docs/benchmarks/gaussian_bound_by_end.py --steps 250

One seed. The weights are the same in every row: only the level at which the path ends differs.
"""

from __future__ import annotations

import argparse
import math
import tempfile

import elbowroom as er
import torch
from elbowroom.objective.loss import bound
from elbowroom.plugins.datasets.digits import Digits
from elbowroom.plugins.schedules.gaussian import LinearLogSNR

LOOKS, EXAMPLES, LOWEST = 8, 256, -12.91


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=250)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, torch.enable_grad():
        model = er.assemble(
            "digits",
            process={"name": "gaussian", "predict": "v"},
            schedule="vp-cosine",
            weighting="elbo",
        )
        er.train(model, f"{folder}/run", steps=options.steps, evaluate_every=options.steps)
    process = model.process
    batch = Digits().split("test").take(torch.arange(EXAMPLES))
    x = process.encode(batch.x)
    print("lambda, plain loss in nats per dimension (0.5: the noise is not known at all)")
    for lam in (-6.0, -3.0, 0.0, 2.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 12.9):
        level = er.Level.at(torch.full((EXAMPLES,), lam), process).over(x, torch.float32)
        z = process.corrupt(x, level, er.Noise.of(1, EXAMPLES))
        loss = process.plain_loss(x, z, model.predict(z, level, batch.y), level)
        print(f"{lam:6.1f}  {float(loss.mean()):.3f}")
    print("end of the path, bits/dim (± standard error), of which reconstruction")
    many, labels = x.repeat(LOOKS, 1, 1, 1), batch.y.repeat(LOOKS)
    for top in (12.91, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0):
        terms = bound(
            process,
            LinearLogSNR(top, LOWEST),
            lambda z, level: model.predict(z, level, labels),
            many,
            er.Noise.of(2, len(many)),
        )
        bits = terms.bits_per_dim(64)
        error = float(bits.std()) / math.sqrt(len(bits))
        rest = float(terms.reconstruction.mean()) / (64 * math.log(2))
        print(f"{top:6.2f}  {float(bits.mean()):.2f} ± {error:.2f}  {rest:.2f}")


if __name__ == "__main__":
    main()
