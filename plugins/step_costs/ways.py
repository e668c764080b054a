"""The cheapest way through a table of costs, by dynamic programming.

After k steps the least cost of being at level j is the least, over levels i, of that of k - 1 steps
at i and the step from i to j.
"""

from __future__ import annotations

from torch import Tensor


def best_nodes(table: Tensor, steps: int) -> list[int]:
    """The cheapest way of exactly ``steps`` steps from the first level to the last."""
    n = len(table) - 1
    least, before = table[0], []  # [n + 1] after one step; where each came from
    for _ in range(steps - 1):
        least, came = (least[:, None] + table).min(0)
        before.append(came)
    nodes = [n]
    for came in reversed(before):
        nodes.append(int(came[nodes[-1]]))
    return [0, *reversed(nodes)]
