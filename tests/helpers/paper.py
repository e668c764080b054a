"""The paper's weightings and masking schedules, by the reference file's names."""

from __future__ import annotations

from elbowroom.plugins.schedules.masking import Cosine, Linear
from elbowroom.plugins.weightings.paper import EDM, IDDPM, Elbo, FlowMatching, Sigmoid
from elbowroom.plugins.weightings.simple import Simple

WEIGHTINGS = {
    "elbo": Elbo(),
    "edm": EDM(),
    "iddpm": IDDPM(),
    "sigmoid_k0": Sigmoid(),
    "sigmoid_k2": Sigmoid(k=2.0),
    "fm": FlowMatching(),
    "simple": Simple(),
}
MASKING = {"cosine": Cosine, "linear": Linear}
