"""First-hitting sampling (Zheng et al. 2024): masked ancestral sampling without a grid.

In the limit of infinitely many steps tokens are unmasked one by one, at times that do not depend
on the network: a token with uniform U is unmasked when the unmasked share reaches

    a = a_1 + U (1 - a_1),      i.e.  lambda = log a - log((1 - U)(1 - a_1)),   t = t(lambda).

One call for each token samples the continuous-time model exactly. With fewer ``steps`` than tokens,
consecutive tokens share a call, at the time of the first of them; each call has equally many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs
import torch
from elbowroom import (
    EvenGrid,
    Frame,
    Grid,
    Level,
    Model,
    Noise,
    Sampler,
    Trajectory,
    draw_categorical,
)
from torch import Tensor

from .absorbing import NEEDS, mask_of, revealed_share


@attrs.frozen
class FirstHitting(Sampler):
    """Tokens are unmasked one by one at their exact times, in at most ``steps`` calls."""

    needs: ClassVar[frozenset[str]] = NEEDS

    grid: Grid = attrs.field(factory=EvenGrid, init=False)  # not an option

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path, process = self.path(model, noise, cond), model.process
        ends = Level.of(torch.tensor([1.0, 0.0], dtype=torch.float64), model.schedule, process)
        z = path.start(z)
        shape = z.shape
        z = z.flatten(1)  # [B, N]
        yield Frame(z.reshape(shape), 0)

        u, order, count = self._moments(path, z, ends)
        moments = model.schedule.time(_log_snr(u, ends))  # [B, N]
        value = path.noise.uniform("value", shape[1:]).flatten(1)
        ranks = torch.arange(z.shape[1], device=z.device)
        many = count.cpu()  # the only synchronisation with the device
        calls = min(self.steps, int(many.max()) if len(many) else 0)
        for k in range(calls):
            first, end = k * many // calls, (k + 1) * many // calls  # [B] of the ranks due
            rows = (end > first).nonzero().squeeze(1)
            first, end, rows = (one.to(z.device) for one in (first[rows], end[rows], rows))
            part = z[rows].reshape(-1, *shape[1:])
            level = Level.of(moments[rows, first], model.schedule, process).over(part)
            prediction = path.predict(part, level, rows)

            due = torch.zeros(len(rows), z.shape[1], dtype=torch.bool, device=z.device)
            due.scatter_(1, order[rows], (first[:, None] <= ranks) & (ranks < end[:, None]))
            tokens = due.reshape(part.shape).nonzero(as_tuple=True)
            u = value[rows].reshape(part.shape)[tokens]
            part = part.index_put(tokens, draw_categorical(prediction.at(tokens), u))
            z = z.index_copy(0, rows, part.flatten(1))
            yield Frame(z.reshape(shape), k + 1)

        yield self.finish(path, z.reshape(shape), ends)

    def _moments(self, path: Trajectory, z: Tensor, ends: Level) -> tuple[Tensor, Tensor, Tensor]:
        """Sorted U [B, N], their tokens [B, N], the number of tokens that are unmasked [B]."""
        u = path.noise.uniform("reveal", path.process.data.shape).flatten(1)
        u = u.masked_fill(z != mask_of(path.process), torch.inf)  # unmasked ones have no time
        u, order = u.sort(1)
        first, end = ends.select(slice(0, 1)), ends.select(slice(1, 2))
        last = revealed_share(path.process, first, end)
        return u, order, (u <= last.to(u.device)).sum(1)


def _log_snr(u: Tensor, ends: Level) -> Tensor:
    """lambda at which the revealed share is u."""
    a_1, b_1 = ends.share[0].to(u.device), ends.noise_share[0].to(u.device)
    return (a_1 + u * b_1).log() - ((1 - u) * b_1).log()
