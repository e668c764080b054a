"""What is handed to a model must be what it was made for: integers, channels last."""

from __future__ import annotations

import pytest
import torch
from elbowroom import DataSpec, Noise, assemble
from elbowroom.contracts.process import check_examples, check_range
from elbowroom.contrib.uniform import Uniform
from elbowroom.errors import DataError, ElbowroomError
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked

PROCESSES = ["masked", "gaussian"]
INTEGERS = torch.arange(4 * 64).reshape(4, 8, 8, 1) % 17
NOISE = Noise.of(0, 4)


@pytest.fixture(scope="module")
def models():
    tiny = {
        "data": "digits",
        "weighting": "simple",
        "denoiser": {"name": "dit", "width": 8, "depth": 1},
    }
    return {name: assemble({**tiny, "process": name}) for name in PROCESSES}


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("ask", ["loss", "bound"])
@pytest.mark.parametrize(
    ("x", "words"),
    [
        (INTEGERS / 16, r"float32 numbers.*0 to 16.*\(x \* 16\).round\(\).long\(\)"),
        (INTEGERS.to(torch.bfloat16), "bfloat16 numbers"),
        (INTEGERS.permute(0, 3, 1, 2), r"\[4, 1, 8, 8\].*\[B, 8, 8, 1\]: channels come last"),
        (INTEGERS.permute(0, 3, 1, 2) / 16, "channels come last"),
        (INTEGERS[..., 0], r"\[4, 8, 8\] for a model of \[B, 8, 8, 1\]$"),
        (INTEGERS[0], r"a batch of one is x\[None\]"),
        (INTEGERS + 1, "values 1 to 17; allowed are 0 to 16"),
    ],
    ids=["floats", "halves", "channels first", "both", "no channel", "no batch", "range"],
)
def test_other_forms_are_refused_with_a_sentence(models, process, ask, x, words):
    """Neither truncated to zeros nor reshaped by chance, in training and in measuring."""
    model, labels = models[process], torch.zeros(len(x), dtype=torch.int64)
    with pytest.raises(DataError, match=words):
        (model if ask == "loss" else model.bound)(x, labels, NOISE)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("process", PROCESSES)
def test_every_kind_of_integer_is_the_same_picture(models, process, dtype):
    """Bytes as a decoder hands them out are encoded like any other integers."""
    encoded = models[process].encode(INTEGERS.to(dtype))
    assert encoded.equal(models[process].encode(INTEGERS))


@pytest.mark.parametrize("process", [Masked(), Gaussian(), Uniform()])
def test_a_process_itself_refuses_floats(process):
    """Also where it is used without a model."""
    with pytest.raises(DataError, match="a model takes the integers 0 to 2"):
        process.bind(DataSpec((2,), 3)).encode(torch.tensor([[0.0, 1.0]]))


def test_no_value_is_looked_at_on_an_accelerator():
    """Form and type are known without waiting: the checks hold for tensors that have no values."""
    spec = DataSpec((8, 8, 1), 17)
    integers = torch.empty(2, 8, 8, 1, dtype=torch.int64, device="meta")
    check_examples(integers, spec)
    check_range(integers, 17)
    with pytest.raises(ElbowroomError, match="float32"):
        check_range(integers.float(), 17)
    with pytest.raises(ElbowroomError, match="channels come last"):
        check_examples(integers.permute(0, 3, 1, 2), spec)
