"""How far samples are from data that are known: samplers on ``toy`` with an exact network.

    python docs/benchmarks/toy_divergence.py --process masked
    python docs/benchmarks/toy_divergence.py --process gaussian --draws 400000

The 27 states of ``toy`` have known probabilities, and the network is their exact denoiser: what is
left is the sampler's own error, KL(data || samples) in nats. It is taken from counts of so many
draws, of which the mean for draws of the data itself, 26/(2 draws), is subtracted; a standard error
comes from ten parts of them. Prints a Markdown table with the network calls of a sample.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import elbowroom as er
import torch
from elbowroom.plugins.conformance.oracle import TableOracle
from elbowroom.plugins.datasets.toy import CoupledTriple
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from torch import Tensor, nn

STEPS = {"masked": [1, 2, 3, 4, 8, 32], "gaussian": [3, 4, 8, 16, 32, 64, 256]}
SAMPLERS: dict[str, list[dict[str, Any]]] = {
    "masked": [
        {"name": "ancestral"},
        {"name": "ancestral", "grid": "tightest"},
        {"name": "first-hitting"},
        {"name": "scattered"},
        {"name": "confidence", "temperature": 1.0},
        {"name": "corrected", "tokens": 1},
    ],
    "gaussian": [
        {"name": "ancestral"},
        {"name": "ancestral", "grid": "tightest"},
        {"name": "ddim"},
        {"name": "ddim", "grid": "tightest"},
        {"name": "heun"},
        {"name": "heun", "grid": "tightest"},
        {"name": "diffusers"},
        {"name": "multistep"},
        {"name": "multistep", "begin": -4.0, "end": 4.0},
        {"name": "multistep", "begin": -4.0, "end": 4.0, "draw": True},
    ],
}
PARTS = 10


class Exact(nn.Module):
    """The exact denoiser of a table, as a network that says how likely each value is."""

    def __init__(self, process: er.Process, states: Tensor, probabilities: Tensor) -> None:
        super().__init__()
        self.process, self.table = process, TableOracle(states, probabilities)

    def forward(self, z: Tensor, log_snr: Tensor, cond: Tensor | None) -> Tensor:
        level = er.Level.at(log_snr.double(), self.process).over(z)
        values = self.process.data.levels
        one_hot = nn.functional.one_hot(self.table.states, values).double()  # [S, *D, V]
        posterior = self.table.posterior(self.process, z, level)
        logits = torch.einsum("bs,s...->b...", posterior, one_hot).log()
        if "real" in self.process.traits:  # what z says of its own element is added by the process
            x = (2 * torch.arange(values).double() + 1) / values - 1
            a, b2 = level.share.sqrt().unsqueeze(-1), level.noise_share.unsqueeze(-1)
            logits = logits + (z.double().unsqueeze(-1) - a * x) ** 2 / (2 * b2)
        return logits.float()


def model_of(process: str, curve: Path) -> tuple[er.Diffusion, Tensor]:
    """The model, and the data's probabilities; its curve is written for the tightest grid."""
    data = CoupledTriple()
    bound = (Gaussian if process == "gaussian" else Masked)().bind(data.spec)
    network = Exact(bound, data.states, data.probabilities)
    model = er.assemble(data="toy", process=process, denoiser=network)
    found = er.evaluate(model, metrics=("curve",), batch_size=2000)
    curve.write_text(json.dumps({"details": found.details}), "utf-8")
    return model, data.probabilities


def divergence(x: Tensor, law: Tensor) -> float:
    """KL(law || draws) by counts, in nats, less what draws of the law itself have on average."""
    number = (x * torch.tensor([9, 3, 1])).sum(1)
    counts = torch.bincount(number, minlength=27).double().clamp(min=0.5)
    share = counts / counts.sum()
    return float((law * (law / share).log()).sum()) - 26 / (2 * len(x))


def measure(model: er.Diffusion, sampler: dict[str, Any], law: Tensor, draws: int) -> str:
    """A row of the table."""
    found = er.sample(model, draws, sampler=sampler, batch_size=20_000)
    parts = [divergence(part, law) for part in found.x.chunk(PARTS)]
    error = statistics.stdev(parts) / PARTS**0.5
    calls = float(found.calls.double().mean())
    return f"{calls:.1f} | {divergence(found.x, law):.5f} ± {error:.5f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--process", choices=list(SAMPLERS), default="masked")
    parser.add_argument("--draws", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        curve = Path(folder) / "figures.json"
        model, law = model_of(options.process, curve)
        print("| sampler | steps | calls | KL(data ‖ samples), nats |\n| --- | --- | --- | --- |")
        asked = [
            {**sampler, "steps": steps}
            for sampler in SAMPLERS[options.process]
            for steps in STEPS[options.process]
        ]
        for sampler in asked:
            grid = sampler.get("grid")
            given = {**sampler, "grid": {"name": grid, "curve": str(curve)}} if grid else sampler
            words = ", ".join(
                str(v) if k == "name" else f"{k}: {v}" for k, v in sampler.items() if k != "steps"
            )
            steps = sampler["steps"]
            print(
                f"| {words} | {steps} | {measure(model, given, law, options.draws)} |", flush=True
            )


if __name__ == "__main__":
    main()
