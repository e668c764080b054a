"""The best grid for a budget of network calls.

A step in which nothing happens is no call, so what a grid costs to walk is not how many steps it
has but how many calls a sample takes on average (:mod:`~elbowroom.plugins.step_costs.costs`):

    minimise B(grid)    subject to    calls(grid) <= budget    and at most T steps.

At a price mu of a call the cheapest way for C + mu calls is found by dynamic programming. Such ways
are the corners of the lower convex hull of (calls, B) over all grids: none of as many calls or
fewer has a lower B. The edge on which the budget lies is found from a corner within the budget and
one beyond it: either a grid lies below the line through them, and it takes the place of one of the
two, or the line is that edge. The corner within the budget is the answer. A grid above the edge,
between its two corners, may be better by less than the corners differ.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .ways import best_nodes


def best_within(table: Tensor, calls: Tensor, budget: float, steps: int) -> list[int]:
    """The hull's best way with at most ``budget`` calls and ``steps`` steps, first to last level.

    ``table`` and ``calls`` [n + 1, n + 1] are the costs and calls of single steps; one step over
    everything must be within the budget.
    """
    nearly_free = 1e-12 * float(table[0, -1])  # of equally good ways the one of fewer calls
    inside, beyond = [0, len(table) - 1], _at_price(nearly_free, table, calls, steps)
    budget = max(budget, _sum(calls, inside))
    while _sum(calls, beyond) > budget:
        spared = _sum(calls, beyond) - _sum(calls, inside)
        price = (_sum(table, inside) - _sum(table, beyond)) / spared
        found = _at_price(price, table, calls, steps)
        whole = table + price * calls
        below = _sum(whole, inside) - _sum(whole, found)
        if found in (inside, beyond) or below <= 1e-12 * _sum(whole, inside):
            return inside  # no grid is below the line
        if _sum(calls, found) <= budget:
            inside = found
        else:
            beyond = found
    return beyond


def _at_price(price: float, table: Tensor, calls: Tensor, steps: int) -> list[int]:
    """The cheapest way of at most ``steps`` steps where a call costs ``price``."""
    costs = (table + price * calls).fill_diagonal_(0)  # a step may stay where it is
    return sorted(set(best_nodes(costs, min(steps, len(table) - 1))))


def _sum(table: Tensor, nodes: list[int]) -> float:
    at = torch.tensor(nodes)
    return float(table[at[:-1], at[1:]].sum())
