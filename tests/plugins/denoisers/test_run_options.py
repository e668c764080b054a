"""Options of a run: they change how a network is computed, never what it is."""

from __future__ import annotations

import shutil

import pytest
import torch
from elbowroom.contracts.process import Signature
from elbowroom.plugins.denoisers.dit import DiT
from elbowroom.plugins.denoisers.uvit import UViT
from safetensors.torch import load_file, save_file

SIGNATURE = Signature((8, 8, 3), 9, 8, 10, needs_level=True)
NETWORKS = [
    (UViT, {"width": 16, "depth": 2, "channels": 8, "groups": 4}),
    (UViT, {"width": 16, "depth": 2, "channels": 8, "groups": 4, "positions": "rope"}),
    (DiT, {"width": 16, "depth": 2, "qk_norm": True, "mlp": "swiglu"}),
]
ALL = pytest.mark.parametrize(("network", "options"), NETWORKS, ids=["uvit", "uvit-rope", "dit"])


def build(network, options, **more):
    net = network(SIGNATURE, **(options | more))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    return net


def inputs():
    generator = torch.Generator().manual_seed(0)
    z = torch.randint(9, (2, 8, 8, 3), generator=generator)
    return z, torch.tensor([-2.0, 3.0]), torch.tensor([1, 7])


def passed(net, autocast=False):
    """The output and all gradients of one pass in training, with the same dropout each time."""
    net.zero_grad()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = net(*inputs())
        out.float().square().mean().backward()
    return out.detach(), {name: p.grad.clone() for name, p in net.named_parameters()}


def assert_same_state(net, before):
    after = net.state_dict()
    assert list(after) == list(before)
    for name in before:
        assert after[name].dtype == before[name].dtype
        assert torch.equal(after[name], before[name]), name


def copied(net):
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


@ALL
def test_checkpointing_changes_nothing_but_memory(network, options):
    """Recomputed activations give the same output, the same gradients, the same state dict."""
    net = build(network, options, dropout=0.2, attention_dropout=0.1)
    before = copied(net)
    out, gradients = passed(net)
    net.checkpoint_activations = True
    assert_same_state(net, before)
    again, recomputed = passed(net)
    assert torch.equal(again, out)
    for name, gradient in gradients.items():
        torch.testing.assert_close(recomputed[name], gradient, msg=name)


@ALL
def test_checkpointing_keeps_less(network, options):
    """With checkpointing fewer bytes wait for the backward pass."""

    def kept(net):
        total = 0

        def pack(tensor):
            nonlocal total
            total += tensor.numel() * tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            net(*inputs())
        return total

    net = build(network, options)
    everything = kept(net)
    net.checkpoint_activations = True
    assert kept(net) < 0.7 * everything


@ALL
def test_compiling_leaves_the_state_alone(network, options):
    """A compiled network has the same names, values and output."""
    net = build(network, options, dropout=0.0)
    before = copied(net)
    out, gradients = passed(net)
    net.compile(backend="aot_eager", fullgraph=True)
    assert_same_state(net, before)
    again, compiled = passed(net)
    torch.testing.assert_close(again, out, atol=1e-5, rtol=1e-4)
    for name, gradient in gradients.items():
        torch.testing.assert_close(compiled[name], gradient, atol=1e-5, rtol=1e-3, msg=name)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.parametrize(("network", "options"), NETWORKS[::2], ids=["uvit", "dit"])
def test_compiled_to_machine_code_the_values_are_the_same(network, options):
    """Through inductor, as ``train.compile`` does: output and gradients up to rounding."""
    net = build(network, options, dropout=0.0)
    out, gradients = passed(net)
    net.compile()
    again, compiled = passed(net)
    assert net._compiled_call_impl is not None
    torch.testing.assert_close(again, out, atol=1e-5, rtol=1e-4)
    for name, gradient in gradients.items():
        torch.testing.assert_close(compiled[name], gradient, atol=1e-5, rtol=1e-3, msg=name)


@ALL
def test_autocast_leaves_the_state_alone(network, options):
    """In bf16 autocast the output is nearly the same, parameters and gradients stay float32."""
    net = build(network, options, dropout=0.0)
    before = copied(net)
    out, _ = passed(net)
    rough, gradients = passed(net, autocast=True)
    assert_same_state(net, before)
    assert {g.dtype for g in gradients.values()} == {torch.float32}
    assert (rough.float() - out).abs().max() < 0.05 * out.abs().max()


@ALL
def test_options_combine(network, options):
    """Compiled, checkpointed and in bf16 at once, a pass still works."""
    net = build(network, options, dropout=0.0)
    before = copied(net)
    out, _ = passed(net)
    net.checkpoint_activations = True
    net.compile(backend="aot_eager")
    rough, gradients = passed(net, autocast=True)
    assert (rough.float() - out).abs().max() < 0.05 * out.abs().max()
    assert all(g.isfinite().all() for g in gradients.values())
    assert_same_state(net, before)


@ALL
def test_saved_and_reloaded_is_equal(network, options, tmp_path):
    """Through a safetensors file a network comes back equal, to the bit."""
    net = build(network, options).eval()
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    twin = network(SIGNATURE, **options).eval()
    twin.load_state_dict(load_file(tmp_path / "net.safetensors"))
    assert torch.equal(twin(*inputs()), net(*inputs()))


@ALL
def test_float64_network_works(network, options):
    """A network cast to float64 computes in it (for exact comparisons)."""
    net = build(network, options).eval()
    single = net(*inputs())
    double = net.double()(*inputs())
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-4, rtol=1e-4)
