"""One attention, three ways to compute it."""

from __future__ import annotations

import importlib.util
import logging
import sys

import pytest
import torch
from elbowroom.contracts.process import Signature
from elbowroom.errors import ConfigError
from elbowroom.plugins.denoisers import attention as home
from elbowroom.plugins.denoisers.attention import Auto, Sdpa, Xformers, attention
from elbowroom.plugins.denoisers.dit import DiT
from hypothesis import given, settings, strategies as st

B, N, H, D = 2, 5, 3, 8  # all different: swapped axes cannot pass


def plain(q, k, v):
    """softmax(q k^T / sqrt(D)) v by its definition, [B, N, H, D] in and out."""
    weights = (torch.einsum("bnhd,bmhd->bhnm", q, k) / q.shape[-1] ** 0.5).softmax(dim=-1)
    return torch.einsum("bhnm,bmhd->bnhd", weights, v)


def draw(*shape, seed=0):
    return torch.randn(3, *shape, generator=torch.Generator().manual_seed(seed)).unbind()


class Kernel:
    """Stands in for xformers' kernel: its layout and arguments, and a record of the calls."""

    def __init__(self):
        self.calls = []

    def __call__(self, query, key, value, attn_bias=None, p=0.0, scale=None, op=None):
        assert attn_bias is None
        assert query.dtype == key.dtype == value.dtype
        self.calls.append({"shape": tuple(query.shape), "p": p, "scale": scale})
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        weights = (torch.einsum("bmhk,bnhk->bhmn", query, key) * scale).softmax(dim=-1)
        return torch.einsum("bhmn,bnhk->bmhk", weights, value)


@pytest.fixture(autouse=True)
def speaking_anew():
    home._log_once.cache_clear()
    yield
    home._log_once.cache_clear()


@settings(max_examples=30)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.integers(1, 16)),
    seed=st.integers(0, 2**31 - 1),
)
def test_sdpa_is_softmax_attention(shape, seed):
    """SDPA gives softmax(q k^T / sqrt(D)) v in [B, N, H, D] for all shapes."""
    q, k, v = draw(*shape, seed=seed)
    torch.testing.assert_close(Sdpa()(q, k, v), plain(q, k, v), atol=1e-5, rtol=1e-4)


def test_xformers_is_called_as_its_contract_says():
    """The kernel gets [B, N, H, D], the scale 1 / sqrt(D) and the dropout, and agrees with SDPA."""
    kernel = Kernel()
    q, k, v = draw(B, N, H, D)
    out = Xformers(kernel)(q, k, v)
    torch.testing.assert_close(out, Sdpa()(q, k, v), atol=1e-6, rtol=1e-5)
    Xformers(kernel)(q, k, v, 0.25)
    assert kernel.calls == [
        {"shape": (B, N, H, D), "p": 0.0, "scale": D**-0.5},
        {"shape": (B, N, H, D), "p": 0.25, "scale": D**-0.5},
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtype_is_kept(dtype):
    """What goes in as one type comes out as it."""
    q, k, v = (x.to(dtype) for x in draw(B, N, H, D))
    assert Sdpa()(q, k, v).dtype == dtype
    assert Xformers(Kernel())(q, k, v).dtype == dtype


@pytest.mark.parametrize("swap", [Sdpa, Xformers])
def test_a_swapped_layout_is_noticed(swap):
    """Heads and tokens exchanged give another answer: the tests above would fail."""
    backend = swap(Kernel()) if swap is Xformers else swap()
    q, k, v = draw(B, N, H, D)
    wrong = backend(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)
    assert (wrong - plain(q, k, v)).abs().max() > 0.1


def test_whole_network_agrees_over_backends():
    """A network computes the same with either kernel, rotated and normed, and in training asks
    for the dropout it was given."""
    signature = Signature((6, 4, 3), None, None, None, False)
    network = DiT(
        signature, width=24, depth=2, heads=3, qk_norm=True, attention_dropout=0.3, dropout=0.0
    )
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    z = torch.randn(B, 6, 4, 3)
    kernel = Kernel()
    due = network.eval()(z, None, None)
    for block in network.transformer.blocks:
        block.attention = Xformers(kernel)
    torch.testing.assert_close(network(z, None, None), due, atol=1e-5, rtol=1e-4)
    network.train()(z, None, None)
    assert [call["p"] for call in kernel.calls] == [0.0, 0.0, 0.3, 0.3]
    assert {call["shape"] for call in kernel.calls} == {(B, 6, 3, 8)}


def test_backend_has_no_parameters():
    """State dicts do not know the backend."""
    signature = Signature((8, 8, 1), 18, 17, 10, False)
    assert list(DiT(signature, attention="sdpa").state_dict()) == list(
        DiT(signature, attention="auto").state_dict()
    )


def test_explicit_xformers_is_refused_where_it_is_missing(monkeypatch):
    """A network that asks for xformers is not even built without it; the error names the extra."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"elbowroom\[xformers\].*'auto' or 'sdpa'"):
        DiT(Signature((8, 8, 1), 18, 17, 10, False), attention="xformers")


def test_explicit_xformers_is_refused_without_a_device(monkeypatch):
    """Installed or not, without a CUDA or ROCm device the choice is refused at once."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="CUDA and ROCm devices only"):
        attention("xformers")


def test_xformers_on_a_cpu_tensor_says_why():
    """Kernels are never loaded for a CPU tensor."""
    with pytest.raises(ConfigError, match="runs on cpu"):
        Xformers()(*draw(B, N, H, D))


def test_unknown_backend_is_refused():
    """An unknown name is answered with the three that exist."""
    with pytest.raises(ConfigError, match="not one of 'auto', 'sdpa', 'xformers'"):
        attention("flash")


def test_auto_without_xformers_says_so_once(monkeypatch, caplog):
    """On a CUDA device, ``auto`` falls back to SDPA and logs the reason a single time."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with caplog.at_level(logging.DEBUG, home.log.name):
        chosen = [attention("auto"), attention("auto")]
    assert all(isinstance(one, Sdpa) for one in chosen)
    assert [r.message for r in caplog.records] == ["attention uses sdpa: xformers is not installed"]


def test_auto_imports_nothing_for_a_cpu_tensor(monkeypatch, tmp_path, caplog):
    """An installed xformers stays unimported while tensors are on the CPU."""
    (tmp_path / "xformers").mkdir()
    (tmp_path / "xformers" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    q, k, v = draw(B, N, H, D)
    with caplog.at_level(logging.DEBUG, home.log.name):
        auto = attention("auto")
        torch.testing.assert_close(auto(q, k, v), plain(q, k, v), atol=1e-5, rtol=1e-4)
        auto(q, k, v)
    assert isinstance(auto, Auto)
    assert "xformers" not in sys.modules
    assert not caplog.records


def test_auto_logs_nothing_without_a_cuda_device(monkeypatch, caplog):
    """A CPU needs no xformers."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with caplog.at_level(logging.DEBUG, home.log.name):
        assert isinstance(attention("auto"), Sdpa)
    assert not caplog.records


def test_auto_takes_xformers_where_it_serves(caplog):
    """Where the kernel takes the tensors at hand it is chosen, and the log says so."""
    kernel = Kernel()
    with caplog.at_level(logging.DEBUG, home.log.name):
        chosen = Auto(lambda: kernel)._choose(*draw(B, N, H, D))
    assert isinstance(chosen, Xformers)
    assert chosen.kernel is kernel
    assert "attention uses xformers" in caplog.text


@pytest.mark.parametrize(
    "failure",
    [
        NotImplementedError("No operator found for `memory_efficient_attention_forward`\nmore"),
        ConfigError("attention: xformers cannot be imported (no such file)"),
    ],
)
def test_auto_falls_back_where_xformers_cannot_serve(caplog, failure):
    """Where it cannot be loaded or no kernel takes the tensors SDPA serves; the log says why."""

    def load():
        raise failure

    with caplog.at_level(logging.DEBUG, home.log.name):
        chosen = Auto(load)._choose(*draw(B, N, H, D))
    assert isinstance(chosen, Sdpa)
    assert str(failure).splitlines()[0] in caplog.text
    assert "more" not in caplog.text


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head", [32, 64])
def test_xformers_agrees_with_sdpa_on_a_gpu(dtype, head):
    """Forward and backward of the real kernels agree with SDPA."""
    pytest.importorskip("xformers")
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    answers = []
    for backend in (Sdpa(), attention("xformers")):
        q, k, v = (x.to("cuda", dtype).requires_grad_() for x in draw(2, 64, 4, head))
        out = backend(q, k, v)
        out.float().square().sum().backward()
        answers.append([out, q.grad, k.grad, v.grad])
    for ours, theirs in zip(*answers, strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
