"""uvit and dit: what holds for both."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from elbowroom import DataSpec
from elbowroom.contracts.process import Signature
from elbowroom.contrib.uniform import Uniform
from elbowroom.errors import ConfigError, ElbowroomError, IncompatibleError
from elbowroom.plugins.conformance import check_denoiser
from elbowroom.plugins.denoisers.attention import Sdpa
from elbowroom.plugins.denoisers.dit import DiT
from elbowroom.plugins.denoisers.positions import Rope, SinCos
from elbowroom.plugins.denoisers.residual import ResidualBlock, conditional_group_norm, groups_of
from elbowroom.plugins.denoisers.transformer import Block, heads_of, hidden_of
from elbowroom.plugins.denoisers.uvit import UViT
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from hypothesis import given, settings, strategies as st

TINY = {
    UViT: {"width": 16, "depth": 1, "channels": 8, "groups": 4},
    DiT: {"width": 16, "depth": 1},
}
BOTH = pytest.mark.parametrize("network", [UViT, DiT])
DIGITS = Signature((8, 8, 1), 18, 17, 10, needs_level=False)
LABELLED = Signature((8, 8, 1), 6, 5, 3, needs_level=False)  # few classes: each is in a batch of 4
UNLABELLED = Signature((8, 8, 3), None, None, None, needs_level=True)


def build(network, signature, **options):
    return network(signature, **(TINY[network] | options))


def inputs(signature, batch=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, *signature.shape)
    if signature.in_states is None:
        z = torch.randn(shape, generator=generator)
    else:
        z = torch.randint(signature.in_states, shape, generator=generator)
    log_snr = torch.linspace(-5, 5, batch) if signature.needs_level else None
    y = None
    if signature.classes is not None:
        y = torch.randint(signature.classes, (batch,), generator=generator)
    return z, log_snr, y


def stir(network, std=0.2):
    """Random weights everywhere, so that nothing hides behind zeros."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(std * torch.randn(parameter.shape, generator=generator))
    return network


# -- the laws of every denoiser


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"positions": "sincos"},
        {"positions": "rope"},
        {"mlp": "swiglu", "qk_norm": True},
        {"hidden": 20, "heads": 1, "attention_dropout": 0.1},
    ],
    ids=str,
)
@BOTH
def test_conforms(network, options):
    """With each option, on both kinds of signature, the laws of a denoiser hold."""

    check_denoiser(lambda s: build(network, s, **options), (LABELLED, UNLABELLED))


def test_dit_conforms_on_sequences():
    """The plain transformer serves token sequences, in patches too."""
    text = (Signature((12,), 30, 29, None, False), Signature((12,), 30, 29, 4, True))
    check_denoiser(lambda s: build(DiT, s), text)
    check_denoiser(lambda s: build(DiT, s, patch=3, positions="sincos"), text)


@pytest.mark.parametrize("process", [Masked(), Gaussian(), Uniform()], ids=str)
def test_dit_marks_positions_by_the_data(process):
    """Windows of text have relative positions; images and columns of tables absolute ones."""
    text = DataSpec((8,), 3, tokens=("a", "b", "c"))
    table, image = DataSpec((8,), 3), DataSpec((8, 8, 1), 3)
    for data, due in ((text, Rope), (table, SinCos), (image, SinCos)):
        network = build(DiT, process.bind(data).signature())
        assert type(network.transformer.positions) is due


@settings(max_examples=15)
@given(
    rows=st.sampled_from([8, 12, 16]),
    columns=st.sampled_from([8, 10, 32]),
    channels=st.sampled_from([1, 3]),
    categorical=st.booleans(),
    classes=st.sampled_from([None, 5]),
    level=st.booleans(),
    network=st.sampled_from([UViT, DiT]),
)
def test_shapes_and_zero_start(rows, columns, channels, categorical, classes, level, network):
    """Whatever the signature, the output has its shape, and says exactly nothing at first."""
    states = (7, 6) if categorical else (None, None)
    signature = Signature((rows, columns, channels), *states, classes, level)
    out = build(network, signature)(*inputs(signature))
    assert out.shape == (2, rows, columns, channels, *([6] if categorical else []))
    assert not out.any()


@BOTH
@pytest.mark.parametrize("side", [8, 16, 32, 64])
@pytest.mark.parametrize("channels", [1, 3])
def test_sizes_from_8_to_64(network, side, channels):
    """Images of 8 x 8 to 64 x 64 with one and three channels go forwards and backwards."""
    signature = Signature((side, side, channels), 9, 8, 10, False)
    net = stir(build(network, signature))
    net(*inputs(signature, batch=1)).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@BOTH
def test_places_keep_their_place(network):
    """A change of one corner's pixel changes that corner's logits most: nothing is transposed."""
    signature = Signature((12, 8, 3), 9, 8, None, False)
    net = stir(build(network, signature), std=0.1).eval()
    z, *_ = inputs(signature, batch=1)
    for row, column in ((0, 0), (0, 7), (11, 0), (11, 7), (5, 2)):
        other = z.clone()
        other[0, row, column] = (z[0, row, column] + 4) % 9
        moved = (net(other, None, None) - net(z, None, None)).square().sum((0, 3, 4))
        p = 2  # patches
        most = moved.unfold(0, p, p).unfold(1, p, p).sum((2, 3)).flatten().argmax().item()
        there = divmod(most, 8 // p)
        # Convolutions with zeros around the image may carry it one patch further.
        assert max(abs(there[0] - row // p), abs(there[1] - column // p)) <= (network is UViT)


# -- size errors


@BOTH
def test_odd_sizes_are_refused(network):
    """A size that patches do not divide is an error that names the patches that would do."""
    signature = Signature((9, 6, 1), 18, 17, None, False)
    with pytest.raises(IncompatibleError, match=r"9 x 6 .* patches of 2; 'patch' may be 1, 3"):
        build(network, signature, patch=2)
    net = build(network, signature, patch=3)
    assert net(*inputs(signature)).shape == (2, 9, 6, 1, 17)


@BOTH
def test_wrong_input_is_refused(network):
    """An input of another shape than the network was built for is named."""
    with pytest.raises(ValueError, match=r"\[2, 8, 8, 3\], .* \[B, 8, 8, 1\]"):
        build(network, DIGITS)(torch.zeros(2, 8, 8, 3).long(), None, torch.tensor([0, 1]))


def test_uvit_refuses_sequences():
    """uvit is for images and says which network is for sequences."""
    with pytest.raises(IncompatibleError, match="Use 'dit'"):
        UViT(Signature((16,), 5, 4, None, False))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden: 0 is not at least 1"),
        ({"heads": 5}, "width of 16 does not divide into 5 heads; allowed are 1, 2, 4, 8, 16"),
        ({"groups": 3}, "8 channels do not divide into 3 groups; allowed are 1, 2, 4, 8"),
        ({"dropout": 1.0}, "dropout: 1.0"),
        ({"attention_dropout": -0.1}, "attention_dropout: -0.1"),
        ({"depth": 0}, "depth: 0"),
        ({"blocks": -1}, "blocks: -1"),
        ({"mlp": "relu"}, "'relu' is not one of 'glu', 'swiglu'"),
        ({"time": "maybe"}, "'maybe' is not one of 'auto', 'yes', 'no'"),
    ],
)
def test_bad_options_are_refused(options, message):
    """A bad value is an error with the option's name and what is allowed."""
    with pytest.raises(ConfigError, match=message):
        build(UViT, DIGITS, **options)


@given(channels=st.integers(1, 512))
def test_every_number_of_channels_has_groups_by_default(channels):
    """32 where they divide the channels, as in the paper; else as many of 32 as do."""
    groups = groups_of(channels, None)
    assert channels % groups == 0 and 32 % groups == 0
    assert (groups == 32) == (channels % 32 == 0)


def test_default_heads_and_hidden_are_the_papers():
    """Heads are 64 wide where that makes two or more, the MLP 8/3 of the width in steps of 64."""
    assert (heads_of(768, None), heads_of(1024, None), heads_of(96, None)) == (12, 16, 3)
    assert (hidden_of(768, None), hidden_of(1024, None), hidden_of(96, None)) == (2048, 2752, 256)


# -- what the network is told


@BOTH
def test_level_is_told_when_it_is_needed(network):
    """``time: auto`` is what the process needs, ``yes`` and ``no`` overrule it."""
    for needs, time, told in (
        (True, "auto", True),
        (False, "auto", False),
        (False, "yes", True),
        (True, "no", False),
    ):
        signature = Signature((8, 8, 1), 18, 17, 10, needs)
        net = stir(build(network, signature, time=time)).eval()
        z, _, y = inputs(signature)
        low, high = (net(z, torch.full((2,), level), y) for level in (-4.0, 4.0))
        assert torch.equal(low, high) != told
        if told:
            with pytest.raises(ValueError, match="log_snr is None"):
                net(z, None, y)
        else:
            assert torch.equal(net(z, None, y), low)


@BOTH
def test_near_levels_are_told_apart(network):
    """The features of lambda differ at every level of a wide range, also between near ones."""
    signature = Signature((8, 8, 1), None, None, None, True)
    features = build(network, signature, width=64, condition=64).condition.level
    levels = torch.linspace(-20, 20, 801)  # 0.05 apart
    said = features(levels)
    distance = torch.cdist(said, said) + torch.eye(len(levels)) * 1e9
    assert distance.min() > 1e-3 * said.std()


@BOTH
def test_classes_are_told(network):
    """Two labels give two outputs, and a class-conditional network insists on a label."""
    net = stir(build(network, DIGITS)).eval()
    z, _, _ = inputs(DIGITS)
    assert not torch.equal(net(z, None, torch.tensor([1, 1])), net(z, None, torch.tensor([1, 2])))
    with pytest.raises(ElbowroomError, match="10 classes needs labels"):
        net(z, None, None)
    assert net.condition.label.weight.shape[0] == 10


@BOTH
def test_null_class_is_one_more_row(network):
    """With ``null_class`` the label ``classes`` means none, and so does no label at all."""
    net = stir(build(network, DIGITS, null_class=True)).eval()
    z, _, _ = inputs(DIGITS)
    assert net.condition.label.weight.shape[0] == 11
    assert torch.equal(net(z, None, None), net(z, None, torch.tensor([10, 10])))
    assert not torch.equal(net(z, None, None), net(z, None, torch.tensor([9, 9])))
    with pytest.raises(ConfigError, match="needs data with classes"):
        build(network, Signature((8, 8, 1), 18, 17, None, False), null_class=True)


@BOTH
def test_unlabelled_network_refuses_labels(network):
    """Labels for data without classes are a mistake."""
    signature = Signature((8, 8, 1), 18, 17, None, False)
    with pytest.raises(ValueError, match="without classes"):
        build(network, signature)(inputs(signature)[0], None, torch.tensor([0, 0]))


# -- dropout


@BOTH
def test_dropout_acts_in_training_alone(network):
    """In training two passes differ; in evaluation they do not; without dropout they never do."""
    batch = inputs(DIGITS)
    for options, differs in (
        ({"dropout": 0.3}, True),
        ({"dropout": 0.0, "attention_dropout": 0.3}, True),
        ({"dropout": 0.0}, False),
    ):
        net = stir(build(network, DIGITS, **options))
        assert torch.equal(net(*batch), net(*batch)) != differs
        net.eval()
        assert torch.equal(net(*batch), net(*batch))


def block(**options):
    standard = {
        "mlp": "glu",
        "qk_norm": False,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "attention": Sdpa(),
    }
    return stir(Block(12, 3, 20, 2, **(standard | options)))


@pytest.mark.parametrize(("part", "gate"), [("attention", 2), ("mlp", 5)])
def test_output_dropout_has_one_mask_for_all_tokens(part, gate):
    """What a part says is dropped in whole columns: all tokens of a dimension, or none."""
    x, told = torch.randn(8, 5, 12), torch.zeros(8, 6, 12)
    told[:, gate] = 1  # the other's gate stays shut
    change = block(dropout=0.5).train()(x, told, None) - x  # [B, N, d]
    kept = change != 0
    assert (kept.all(dim=1) | ~kept.any(dim=1)).all()
    assert 0.3 < kept.float().mean() < 0.7
    whole = block(dropout=0.5).eval()(x, told, None) - x
    torch.testing.assert_close(change[kept], (2 * whole)[kept], atol=1e-5, rtol=1e-4)


# -- blocks by their equations


@pytest.mark.parametrize("mlp", ["glu", "swiglu"])
@pytest.mark.parametrize("qk_norm", [False, True])
def test_block_is_its_equation(mlp, qk_norm):
    """A block is x + gate attention(...), then x + gate mlp(...), written out plainly."""
    net = block(mlp=mlp, qk_norm=qk_norm)
    x, told = torch.randn(2, 5, 12), torch.randn(2, 6, 12)
    shift1, scale1, gate1, shift2, scale2, gate2 = (t[:, None] for t in told.unbind(1))

    def norm(x):
        return (x - x.mean(-1, keepdim=True)) / (
            x.var(-1, keepdim=True, unbiased=False) + 1e-6
        ).sqrt()

    h = norm(x) * (1 + scale1) + shift1
    q, k, v = (
        (h @ w.T + b).reshape(2, 5, 3, 4)
        for w, b in zip(net.qkv.weight.chunk(3), net.qkv.bias.chunk(3), strict=True)
    )
    if qk_norm:
        q, k = (
            y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight
            for y, weight in zip((q, k), net.qk_norm.weight, strict=True)
        )
    weights = (torch.einsum("bnhd,bmhd->bhnm", q, k) / math.sqrt(4)).softmax(-1)
    a = torch.einsum("bhnm,bmhd->bnhd", weights, v).reshape(2, 5, 12)
    y = x + gate1 * (a @ net.out.weight.T)
    h = norm(y) * (1 + scale2) + shift2
    w3, w1 = net.w31.weight.chunk(2)
    gate = {"glu": torch.sigmoid, "swiglu": F.silu}[mlp]
    y = y + gate2 * ((gate(h @ w1.T) * (h @ w3.T)) @ net.w2.weight.T)
    torch.testing.assert_close(net(x, told, None), y, atol=1e-5, rtol=1e-4)


@settings(max_examples=25)
@given(
    batch=st.integers(1, 4),
    groups=st.integers(1, 4),
    per_group=st.integers(1, 3),
    rows=st.integers(1, 4),
    columns=st.integers(2, 5),
)
def test_conditional_group_norm_is_norm_then_scale_and_shift(
    batch, groups, per_group, rows, columns
):
    """The one-pass form is norm(x) (1 + scale) + shift sample by sample, gradients too."""
    generator = torch.Generator().manual_seed(batch + 10 * groups)
    c = groups * per_group
    x = torch.randn(batch, c, rows, columns, generator=generator, dtype=torch.float64)
    told = torch.randn(batch, 2 * c, generator=generator, dtype=torch.float64)

    def by_definition(x, told):
        scale, shift = told[:, :c, None, None], told[:, c:, None, None]
        return F.group_norm(x, groups, eps=1e-6) * (1 + scale) + shift

    results = []
    for norm in (by_definition, lambda x, told: conditional_group_norm(x, told, groups)):
        a, b = x.clone().requires_grad_(), told.clone().requires_grad_()
        out = norm(a, b)
        (out * torch.arange(out.numel(), dtype=out.dtype).view_as(out).cos()).sum().backward()
        results.append((out, a.grad, b.grad))
    for ours, due in zip(*results, strict=True):
        torch.testing.assert_close(ours, due, atol=1e-8, rtol=1e-8)


def test_residual_block_starts_as_its_skip():
    """At first a block is the identity, or its 1 x 1 convolution where channels change."""
    x, told = torch.randn(2, 8, 4, 4), torch.randn(2, 48)
    same = ResidualBlock(8, 8, groups=4, dropout=0.0)
    assert torch.equal(same(x, told[:, : same.modulation_width]), x)
    fewer = ResidualBlock(8, 4, groups=4, dropout=0.0)
    assert torch.equal(fewer(x, told[:, : fewer.modulation_width]), fewer.skip(x))


# -- one body for both processes


@BOTH
def test_process_changes_the_ends_alone(network):
    """Between a categorical and a real signature only the first and last layers differ."""
    categorical = build(network, Signature((8, 8, 3), 257, 256, 10, True)).state_dict()
    real = build(network, Signature((8, 8, 3), None, None, 10, True)).state_dict()
    ends = (
        ("values.", "stem.", "head.", "to_tokens.")
        if network is DiT
        else ("values.", "stem.", "head.")
    )
    body = [
        {k: v.shape for k, v in s.items() if not k.startswith(ends)} for s in (categorical, real)
    ]
    assert body[0] == body[1]
    assert len(body[0]) > 10


def test_parameter_counts_are_the_papers():
    """The 204M and 324M networks have exactly the parameters counted for them."""
    signature = Signature((64, 64, 3), 257, 256, 1000, False)
    sizes = {"depth": 20, "channels": 256, "blocks": 8}
    with torch.device("meta"):
        small = UViT(signature, width=768, **sizes)
        large = UViT(signature, width=1024, positions="rope", **sizes)
        table = UViT(signature, width=1024, positions="sincos", **sizes)

    def count(tensors):
        return sum(t.numel() for t in tensors)

    assert count(small.parameters()) == 203_462_912
    assert count(small.parameters()) + count(small.buffers()) == 204_249_344
    assert count(large.parameters()) == 323_440_640
    assert count(table.parameters()) + count(table.buffers()) == 324_489_216


def test_digits_network_is_small():
    """The default network on the digits has less than a million parameters."""
    for signature in (DIGITS, Signature((8, 8, 1), None, None, 10, True)):
        assert sum(p.numel() for p in UViT(signature).parameters()) < 1_000_000
