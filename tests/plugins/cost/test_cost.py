"""The cost of a config is counted, not guessed: it agrees with a count by hand, and scales."""

from __future__ import annotations

import pytest
import torch
from elbowroom import ConfigError, load_config
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.plugins.cost.cost import cost
from elbowroom.plugins.cost.hollow import Alive, hollow_network, operations, without_memory
from torch.nn import functional as F

from tests.helpers.command import elbowroom

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


@pytest.fixture
def plain(tmp_path):
    """A config whose network's operations can be counted by hand."""
    (tmp_path / "plain.py").write_text(PLAIN)

    def made(*overrides):
        named = f"denoiser={tmp_path / 'plain.py'}:Plain"
        return load_config("digits", (named, "sampler.steps=8", *overrides))

    return made


def test_operations_are_those_counted_by_hand(plain):
    """A matrix a x b over N tokens takes 2 N a b forward, and twice that backward."""
    report = cost(plain("train.batch_size=8"))
    tokens, width, states = 64, 12, 17
    forward = 2 * tokens * (width * width + width * states)
    assert report.look_flops == forward
    assert report.step_flops == 8 * 3 * forward
    assert report.training_flops == 1000 * 8 * 3 * forward
    assert report.parameters == 18 * width + width * width + width + width * states + states


def test_attention_is_counted_by_hand():
    """q k^T and its product with v: 2 N^2 D operations each; five such products backward."""
    b, h, n, d = 2, 3, 8, 4
    with without_memory():
        q, k, v = (torch.empty(b, h, n, d, requires_grad=True) for _ in range(3))
        said = []
        forward = operations(lambda: said.append(F.scaled_dot_product_attention(q, k, v)))
        backward = operations(lambda: torch.autograd.backward(said[0].sum()))
    assert forward == 2 * 2 * b * h * n * n * d
    assert backward == 5 * 2 * b * h * n * n * d


def test_a_batch_scales_operations_and_activations():
    """Four times the examples: four times the operations, and nearly the activations."""
    few, many = (cost(load_config("digits", (*SMALL, f"train.batch_size={n}"))) for n in (8, 32))
    assert many.step_flops == 4 * few.step_flops
    assert many.look_flops == few.look_flops
    assert 3.5 < many.memory["activations"] / few.memory["activations"] <= 4
    assert many.memory["optimiser"] == few.memory["optimiser"]


@pytest.mark.parametrize("process", ["masked", "gaussian", "{name: gaussian, predict: v}"])
def test_what_is_counted_without_memory_is_what_happens_with_it(process):
    """The same network with real tensors does as many operations and holds as many bytes."""
    parts = build_parts(load_config("digits", (*SMALL, f"process={process}")))
    signature = parts.process.signature()

    def counted(network, z):
        for p in network.parameters():
            p.grad = torch.zeros_like(p)
        log_snr, cond = torch.zeros(4), torch.zeros(4, dtype=torch.long)
        with Alive() as alive:
            flops = operations(
                lambda: torch.autograd.backward(network(z, log_snr, cond).square().sum())
            )
        return flops, alive.peak

    z = parts.process.encode(torch.zeros(4, *signature.shape, dtype=torch.long))
    with without_memory():
        hollow = counted(hollow_network(parts.config.denoiser, signature), torch.empty_like(z))
    assert hollow == counted(build_model(parts).denoiser, z)
    assert hollow[0] > 0 and hollow[1] > 0


def test_memory_follows_the_options():
    """Computing activations again costs operations and saves memory; sharding divides states."""
    base = cost(load_config("digits", SMALL))
    again = cost(load_config("digits", (*SMALL, "train.checkpoint_activations=true")))
    with_dropout = (*SMALL, "denoiser.attention_dropout=0.1", "train.checkpoint_activations=true")
    assert cost(load_config("digits", with_dropout)).step_flops == again.step_flops
    assert again.step_flops > base.step_flops
    assert again.memory["activations"] < base.memory["activations"]
    assert base.memory["optimiser"] > 2 * base.memory["weights"]  # two moments, and a counter
    split = cost(load_config("digits", (*SMALL, "train.parallel=fsdp")), devices=4)
    assert split.at_once == 32
    assert split.memory["weights"] == base.memory["weights"] // 4
    assert split.memory["together"] < base.memory["together"]
    half = cost(load_config("digits", (*SMALL, "train.precision=bfloat16")))
    assert half.memory["activations"] < base.memory["activations"]
    assert half.memory["weights"] == base.memory["weights"]


def test_a_sample_costs_its_looks():
    """Every step is a look of the network; guidance looks twice each time."""
    given = ("process=gaussian", *SMALL, "train.label_dropout=0.1", "denoiser.null_class=true")
    once, twice = (
        cost(load_config("digits", (*given, f"sampler.guidance={scale}"))) for scale in (1, 2)
    )
    assert once.looks == 9  # 8 steps, and the last look
    assert twice.looks == 18
    assert twice.sample_flops == 18 * once.look_flops
    assert twice.evaluation_flops == 1000 * twice.sample_flops


def test_a_text_costs_something_too(tmp_path):
    """Its characters have names, of which a count has no need."""
    (tmp_path / "book.txt").write_text("how much does a word cost, and who pays? " * 40)
    config = load_config("text", (f"data.path={tmp_path / 'book.txt'}", "denoiser.width=16"))
    found = cost(config).record()
    assert found["flops"]["step"] > 0 and 1 < found["looks"] <= 64


def test_hours_are_operations_over_what_devices_do(plain):
    """Twice the devices, half the hours; without a peak there are none."""
    one = cost(plain(), tflops=1e-6, utilisation=0.5)
    two = cost(plain(), tflops=1e-6, utilisation=0.5, devices=2)
    assert one.record()["hours"]["training"] == one.training_flops / 0.5e6 / 3600
    assert two.record()["hours"]["training"] == pytest.approx(one.record()["hours"]["training"] / 2)
    assert cost(plain()).record()["hours"]["training"] is None


def test_the_command_prints_the_cost():
    """As words and as JSON; what cannot be is refused."""
    told = elbowroom("cost", "digits", *SMALL, "--tflops", 100, "--json")
    assert told.code == 0, told.err
    assert told.json["flops"]["training"] > 0
    explained = elbowroom("explain", "digits", *SMALL, "--json")
    assert explained.json["parameters"] == told.json["parameters"]
    words = elbowroom("cost", "digits", *SMALL, "--samples", 50, "--devices", 2)
    assert words.code == 0, words.err
    for line in ("training step", "one sample", "50 samples", "activations", "--tflops"):
        assert line in words.out
    for wrong in (("--devices", 3), ("--utilisation", 1.5), ("--tflops", -1)):
        refused = elbowroom("cost", "digits", *SMALL, *wrong)
        assert refused.code == 2 and str(wrong[0]) in refused.err


def test_a_cost_needs_a_network():
    """A config that names none is refused."""
    with pytest.raises(ConfigError, match="denoiser"):
        cost(load_config({"process": "masked", "data": "digits"}))


def test_micro_batches_need_less_memory_for_the_same_work():
    """A quarter of the batch at once: the same operations, fewer activations."""
    whole, parts = (
        cost(load_config("digits", (*SMALL, f"train.micro_batch={n}"))) for n in ("null", 32)
    )
    assert (whole.at_once, parts.at_once) == (128, 32)
    assert parts.step_flops == whole.step_flops
    assert parts.memory["activations"] < whole.memory["activations"] / 3
