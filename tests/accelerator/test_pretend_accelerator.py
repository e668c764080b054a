"""The pretend accelerator refuses what a GPU refuses and counts what makes a host wait."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.helpers.pretend_accelerator import NAME, module, watched


def on(values) -> torch.Tensor:
    return torch.as_tensor(values).to(NAME)


A, B = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.5, 0.25, 4.0])


def test_it_is_a_device_of_its_own():
    """Tensors say where they are, are no CPU tensors, and stay there through operations."""
    made = [on(A), on(A) + 1, torch.zeros(3, device=NAME), torch.arange(3, device=NAME)]
    made += [
        torch.tensor([1, 2], device=NAME),
        torch.rand(3, device=NAME),
        torch.full_like(on(A), 2),
    ]
    assert {str(t.device) for t in made} == {"pretend:0"} and not any(t.is_cpu for t in made)
    assert str(on(A).to("pretend:1").device) == "pretend:1"


@pytest.mark.parametrize(
    "mixed",
    [
        lambda: on(A) + B,
        lambda: torch.where(on(A) > 0, on(A), B),
        lambda: torch.cat([on(A), B]),
        lambda: torch.stack([on(A).sum(), B.sum()]),
        lambda: torch.searchsorted(B.sort().values, on(A)),
        lambda: on(A) @ B,
        lambda: on(A).gather(0, torch.tensor([0])),
        lambda: F.embedding(torch.tensor([0]), on([[1.0]])),
        lambda: F.linear(on(A)[None], B[None]),
        lambda: A[on([0])],
        lambda: on(A) + on(B).to("pretend:1"),
        lambda: A.index_copy(0, on([0]), torch.zeros(1)),
        lambda: on(A).index_put((on([0]),), B[:1]),
    ],
)
def test_tensors_of_two_devices_are_refused(mixed):
    """As CUDA does, with CUDA's words."""
    with pytest.raises(RuntimeError, match=r"same device|indices should be"):
        mixed()


@pytest.mark.parametrize(
    "allowed",
    [
        lambda: on(A) * torch.tensor(2.0),
        lambda: torch.where(on(A) > 0, on(A), torch.tensor(0.0)),
        lambda: on(A)[torch.tensor([2, 0])],
        lambda: on(A).index_put((torch.tensor([0]),), on(B)[:1]),
        lambda: on(A).copy_(B),
        lambda: torch.empty(3).copy_(on(A)),
        lambda: on(A).to("cpu"),
        lambda: on(A).masked_fill(on(A) > 0, torch.tensor(1.0)),
    ],
)
def test_numbers_copies_and_indices_of_the_cpu_are_allowed(allowed):
    """As CUDA does."""
    allowed()


@pytest.mark.parametrize(
    ("waits", "what"),
    [
        (lambda t: t.sum().item(), "item"),
        (lambda t: bool((t > 0).any()), "item"),
        (lambda t: float(t[0]), "item"),
        (lambda t: t.tolist(), "tolist"),
        (lambda t: t.cpu(), "cpu"),
        (lambda t: torch.empty(3).copy_(t), "cpu"),
        (lambda t: (t > 0).nonzero(), "nonzero"),
        (lambda t: torch.where(t > 0), "nonzero"),
        (lambda t: t[t > 0], "indexing by booleans"),
        (lambda t: t.__setitem__(t > 0, 0.0), "indexing by booleans"),
        (lambda t: t.masked_select(t > 0), "masked_select"),
        (lambda t: t.unique(), "unique"),
        (lambda t: torch.equal(t, t), "equal"),
    ],
)
def test_a_wait_is_counted_once_with_its_line(waits, what):
    """Which operation, in which file, on which line."""
    t = on(A)
    with watched() as seen:
        waits(t)
    assert [event.what for event in seen.waits] == [what]
    assert seen.waits[0].file == Path("tests/accelerator/test_pretend_accelerator.py").as_posix()
    assert seen.waits[0].line > 0 and not seen.copies


@pytest.mark.parametrize(
    "free",
    [
        lambda t: t.softmax(0).cumsum(0).sort().values,
        lambda t: torch.where(t > 0, t, 0.0).masked_fill(t > 1, 2.0),
        lambda t: t.index_put((torch.zeros(1, dtype=torch.int64, device=NAME),), t[:1]),
        lambda t: F.one_hot((t > 0).long(), 3),
        lambda t: torch.searchsorted(t, t),
        lambda t: t.clone().index_add_(0, torch.arange(3, device=NAME), t),
    ],
)
def test_what_stays_on_the_device_waits_for_nothing(free):
    """Neither waits nor copies."""
    t = on(A)
    with watched() as seen:
        free(t)
    assert not seen.waits and not seen.copies


def test_copies_from_the_host_are_counted_apart():
    """``to``, ``copy_``, ``torch.tensor`` and CPU indices; they are no waits."""
    t = on(A)
    with watched() as seen:
        B.to(NAME)
        t.copy_(B)
        torch.tensor([1.0], device=NAME)
        t[torch.tensor([0])]
    assert len(seen.copies) == 4 and not seen.waits


def test_numpy_is_refused():
    """As CUDA does."""
    with pytest.raises(TypeError, match="to numpy"):
        on(A).numpy()


def test_networks_learn_on_it_as_on_the_cpu():
    """Gradients and a fused optimiser's step have the CPU's bits."""
    made = []
    for device in ("cpu", NAME):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 1))
        network.to(device)
        optimiser = torch.optim.AdamW(network.parameters(), fused=True)
        network(A.to(device)[None]).square().sum().backward()
        optimiser.step()
        made.append([p.detach().cpu() for p in network.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))


def test_attention_has_the_bits_of_the_cpu():
    """Its kernel is the CPU's own choice."""
    q = torch.randn(2, 2, 8, 4, generator=torch.Generator().manual_seed(0))
    attend = F.scaled_dot_product_attention
    assert torch.equal(attend(q, q, q), attend(*[q.to(NAME)] * 3).cpu())


def test_each_device_has_its_own_generator():
    """Drawing on one moves neither the other's nor the CPU's."""
    module.manual_seed_all(5)
    cpu, other = torch.get_rng_state(), module.get_rng_state(1)
    first = torch.rand(4, device="pretend:0").cpu()
    assert torch.equal(torch.get_rng_state(), cpu) and torch.equal(module.get_rng_state(1), other)
    assert torch.equal(torch.rand(4, device="pretend:1").cpu(), first)
    assert not torch.equal(torch.rand(4, device="pretend:1").cpu(), first)
