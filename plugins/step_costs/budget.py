"""The best grid for a budget of network calls.

A step in which nothing happens is no call, so what a grid costs to walk is not how many steps it
has but how many calls a sample takes on average (:mod:`~elbowroom.plugins.step_costs.costs`):

    minimise B(grid)    subject to    calls(grid) <= budget    and at most T steps.

At a price mu of a call the cheapest way for C + mu calls is found by dynamic programming. Such ways
are the corners of the lower convex hull of (calls, B) over all grids: none of as many calls or
fewer has a lower B. The edge on which the budget lies is found from a corner within the budget and
one beyond it: either a grid lies below the line through them, and it takes the place of one of the
two, or the line is that edge.

The best grid within the budget may lie above the edge. It is searched level by level from the
corner within the budget: a partial way with cost c and k calls is dropped if its Lagrangian bound,

    c + mu (k - budget) + least C + mu calls of the remaining steps,

is not below the best B found. The search is exact as long as at most ``_WIDTH`` partial ways remain
at every level; beyond that the ways with the lowest bounds are kept.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .ways import best_nodes

_WIDTH = 512  # partial ways kept at each level


def best_within(table: Tensor, calls: Tensor, budget: float, steps: int) -> list[int]:
    """The best way with at most ``budget`` calls and ``steps`` steps, first to last level.

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
            return _search(table, calls, budget, steps, price, inside)  # the line is the edge
        if _sum(calls, found) <= budget:
            inside = found
        else:
            beyond = found
    return beyond


def _search(
    table: Tensor, calls: Tensor, budget: float, steps: int, price: float, inside: list[int]
) -> list[int]:
    """The best way found within the budget, ``inside`` if there is no better one."""
    last = len(table) - 1
    rest = _remaining(table + price * calls, steps)
    best, least = inside, _sum(table, inside)
    level = before = taken = torch.zeros(1, dtype=torch.long)  # of every partial way kept
    cost = used = table.new_zeros(1)
    for here in range(1, last):
        new_cost, new_used = cost + table[level, here], used + calls[level, here]
        bound = new_cost + price * (new_used - budget) + rest[(steps - 1 - taken).clamp(0), here]
        wanted = (taken < steps - 1) & (new_used + calls[here, last] <= budget) & (bound < least)
        chosen = (
            torch.where(wanted, -bound, -torch.inf).topk(min(_WIDTH, int(wanted.sum()))).indices
        )
        if not len(chosen):
            continue
        ended = new_cost[chosen] + table[here, last]
        if float(ended.min()) < least:
            least, way = float(ended.min()), int(chosen[ended.argmin()])
            best = [last, here]
            while way:
                best.append(int(level[way]))
                way = int(before[way])
            best = [0, *reversed(best)]
        level = torch.cat([level, torch.full_like(chosen, here)])
        before, taken = torch.cat([before, chosen]), torch.cat([taken, taken[chosen] + 1])
        cost = torch.cat([cost, new_cost[chosen]])
        used = torch.cat([used, new_used[chosen]])
    return best


def _remaining(costs: Tensor, steps: int) -> Tensor:
    """[steps + 1, n + 1] the least cost from each level to the last in at most so many steps."""
    costs = costs.clone().fill_diagonal_(0)
    least = [torch.full_like(costs[0], torch.inf).index_fill(0, torch.tensor(len(costs) - 1), 0)]
    for _ in range(steps):
        least.append((costs + least[-1]).min(1).values)
    return torch.stack(least)


def _at_price(price: float, table: Tensor, calls: Tensor, steps: int) -> list[int]:
    """The cheapest way of at most ``steps`` steps where a call costs ``price``."""
    costs = (table + price * calls).fill_diagonal_(0)  # a step may stay where it is
    return sorted(set(best_nodes(costs, min(steps, len(table) - 1))))


def _sum(table: Tensor, nodes: list[int]) -> float:
    at = torch.tensor(nodes)
    return float(table[at[:-1], at[1:]].sum())
