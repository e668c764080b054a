"""Operations of a training step agree with a count by hand."""

from __future__ import annotations

import pytest
import torch
from elbowroom import ConfigError, load_config
from elbowroom.plugins.compare.operations import _count, step_flops
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

PLAIN = '''
import torch
from elbowroom import Denoiser

class Plain(Denoiser):
    """Tokens -> width -> width -> logits, each by one matrix."""

    def __init__(self, signature, *, width: int = 12):
        super().__init__(signature)
        self.table = torch.nn.Embedding(signature.in_states, width)
        self.hidden = torch.nn.Linear(width, width)
        self.out = torch.nn.Linear(width, signature.out_states)

    def forward(self, z, log_snr, cond):
        return self.out(self.hidden(self.table(z)).relu())
'''
SMALL = ("denoiser={name: dit, width: 32, depth: 2, heads: 2}", "sampler.steps=8")


def counted(*overrides):
    return step_flops(load_config("digits", (*SMALL, *overrides)))


def test_operations_are_those_counted_by_hand(tmp_path):
    """A matrix a x b over N tokens takes 2 N a b forward, and twice that backward."""
    (tmp_path / "plain.py").write_text(PLAIN)
    named = f"denoiser={tmp_path / 'plain.py'}:Plain"
    tokens, width, states = 64, 12, 17
    forward = 2 * tokens * (width * width + width * states)
    config = load_config("digits", (named, "train.batch_size=8"))
    assert step_flops(config) == 8 * 3 * forward


def test_attention_is_counted_by_hand():
    """q k^T and its product with v: 2 N^2 D operations each; five such products backward."""
    b, h, n, d = 2, 3, 8, 4
    with FakeTensorMode():
        q, k, v = (torch.empty(b, h, n, d, requires_grad=True) for _ in range(3))
        out = []
        forward = _count(lambda: out.append(F.scaled_dot_product_attention(q, k, v)))
        backward = _count(lambda: torch.autograd.backward(out[0].sum()))
    assert forward == 2 * 2 * b * h * n * n * d
    assert backward == 5 * 2 * b * h * n * n * d


def test_operations_follow_the_config():
    """They scale with the batch; micro-batches do not change them, recomputation adds some."""
    base = counted("train.batch_size=32")
    assert base == 4 * counted("train.batch_size=8")
    assert base == counted("train.batch_size=32", "train.micro_batch=8")
    again = counted("train.batch_size=32", "train.checkpoint_activations=true")
    with_dropout = ("train.batch_size=32", "train.checkpoint_activations=true")
    assert again > base
    assert counted(*with_dropout, "denoiser.attention_dropout=0.1") == again


def test_a_network_is_needed():
    """A config that names none is refused."""
    with pytest.raises(ConfigError, match="denoiser"):
        step_flops(load_config({"process": "masked", "data": "digits"}))
