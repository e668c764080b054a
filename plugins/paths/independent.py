"""Path ``independent``: a time of its own for every position (diffusion forcing).

    loss = E over t in [0, 1]^N of sum_n w(t_n) elbo_weight(t_n) plain_n(t)

With the other times fixed, the integral over t_n is a bound on -log p(x_n | z of the others), if w
does not fall in t_n. So the objective is a sum of bounds on conditionals. A network trained along
it completes any part from any other. Times are t_n = (tau + u_n) mod 1 with u_n uniform: uniform,
independent between positions, and stratified over the batch in each position.

Reference: Chen et al. 2024, "Diffusion forcing".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import torch
from elbowroom import Noise, Path
from elbowroom.contracts import Shared
from torch import Tensor


@attrs.frozen
class Independent(Path):
    """Every position has a uniform time of its own."""

    own_times: ClassVar[bool] = True
    meaning: ClassVar[str] = "a sum over positions of bounds on -log p(x_n | the others with noise)"

    def __call__(self, t: Tensor, noise: Noise, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
        times = (t.view(-1, *(1,) * len(shape)) + noise.uniform("own time", tuple(shape))) % 1
        return times, torch.ones_like(times)

    def bound_path(self) -> Path:
        return Shared()
