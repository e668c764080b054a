"""A component that answers wrongly is refused by name before a run begins, and nothing is written.

The same components trained in silence, or ended in a traceback, when nobody looked.
"""

from __future__ import annotations

import attrs
import pytest
import torch
from elbowroom import Batch, Dataset, Denoiser, Frame, Metric, Split, TimeSampler, Weighting
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import load_config
from elbowroom.errors import ContractError
from elbowroom.plugins.conformance.component_checks import check_training
from elbowroom.plugins.evaluation.evaluation import evaluate
from elbowroom.plugins.evaluation.metric import Measurement
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.sampling.drawing import draw
from elbowroom.plugins.training.run import train
from elbowroom.randomness.noise import Noise
from torch import nn

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import Learned, tiny_config

QUIET = ("console", "tensorboard")


def refused(tmp_path, *words, process="masked", **sections):
    """Training refuses these sections with these words and writes nothing."""
    config = load_config(tiny_config(process), sections)
    with pytest.raises(ContractError) as caught:
        train(config, tmp_path / "run", without=QUIET)
    for word in words:
        assert word in str(caught.value)
    assert not (tmp_path / "run").exists()


# -- weightings


class Column(Weighting):
    def __call__(self, level):
        return torch.ones_like(level.log_snr)[:, None]


class Negative(Weighting):
    def __call__(self, level):
        return level.t - 0.25


class Complex(Weighting):
    def __call__(self, level):
        return torch.complex(level.t, level.t)


class InPlace(Weighting):
    def __call__(self, level):
        return level.log_snr.clamp_(max=0).exp()


class Missing(Weighting):
    def __call__(self, level):
        return torch.where(level.t > 0.5, float("nan"), 1.0)


class Wide(Learned):
    def penalty(self, level):
        return super().penalty(level)[:, None]


@pytest.mark.parametrize(
    ("weighting", "words"),
    [
        (Column(), "returned w of shape [64, 1], expected [64] or []"),
        (Negative(), "by a negative number at t = 0.00781"),
        (Complex(), "returned w as torch.complex128"),
        (InPlace(), "changed its input log_snr in place"),
        (Missing(), "not finite at t = 0.508"),
        (Wide(), "returned penalty of shape [64, 1]"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Weighting) else "",
)
def test_a_weighting_that_answers_wrongly_does_not_train(tmp_path, weighting, words):
    """Shape, sign, number and manners of a weighting are looked at first."""
    refused(tmp_path, f"weighting {type(weighting).__name__} of ", words, weighting=weighting)


class Ends(Weighting):
    """Infinite at t = 1, as many are."""

    def __call__(self, level):
        return 1 / (1 - level.t)


class One(Weighting):
    """One number for all levels."""

    def __call__(self, level):
        return torch.tensor(2.0)


@pytest.mark.parametrize("process", ["masked", "gaussian"])
@pytest.mark.parametrize("weighting", [Ends(), One(), Learned()], ids=["Ends", "One", "Learned"])
def test_what_is_legal_stays_legal(process, weighting):
    """An infinity at the very end, one number for all and learned weights are all right."""
    checked(process, weighting=weighting)


def checked(process="masked", denoiser=None, **sections):
    """A model whose components have answered."""
    parts = build_parts(load_config(tiny_config(process), sections))
    model = build_model(parts)
    if denoiser is not None:
        model.denoiser = denoiser(model.denoiser)
    check_training(model, parts.data)
    return model


def test_asking_leaves_no_trace():
    """Weights, running means, gradients and torch's generator are as they were."""

    class Normed(nn.Module):
        def __init__(self, network):
            super().__init__()
            self.network, self.norm = network, nn.BatchNorm1d(1)

        def forward(self, z, log_snr, cond):
            self.norm(z.float().reshape(-1, 1))
            return self.network(z, log_snr, cond)

    parts = build_parts(tiny_config())
    model = build_model(parts)
    model.denoiser = Normed(model.denoiser)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    check_training(model, parts.data)
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(state, torch.random.get_rng_state())
    assert not model.denoiser._forward_hooks
    assert not model.denoiser._forward_pre_hooks


# -- denoisers


class Around(nn.Module):
    """A network around another one."""

    def __init__(self, network):
        super().__init__()
        self.network = network


class Overwrites(Around):
    def forward(self, z, log_snr, cond):
        answer = self.network(z, log_snr, cond)
        z.zero_()
        return answer


class OverwritesLevel(Around):
    def forward(self, z, log_snr, cond):
        return self.network(z, log_snr.mul_(0.5), cond)


class Flat(Around):
    def forward(self, z, log_snr, cond):
        return self.network(z, log_snr, cond).flatten(1)


class Whole(Around):
    def forward(self, z, log_snr, cond):
        return self.network(z, log_snr, cond).long()


class Detached(Around):
    def forward(self, z, log_snr, cond):
        return self.network(z, log_snr, cond).detach()


class NaN(Around):
    def forward(self, z, log_snr, cond):
        return self.network(z, log_snr, cond) * float("nan")


class RuledOut(Around):
    """-inf: this value cannot be."""

    def forward(self, z, log_snr, cond):
        answer = self.network(z, log_snr, cond)
        return torch.cat([answer[..., :1] - torch.inf, answer[..., 1:]], -1)


@pytest.mark.parametrize("process", ["masked", "gaussian"])
@pytest.mark.parametrize(
    ("network", "words"),
    [
        (Overwrites, "changed its input z in place"),
        (OverwritesLevel, "changed its input log_snr in place"),
        (Flat, "returned shape [2, "),
        (Whole, "returned torch.int64"),
        (Detached, "returned an output without gradients"),
        (NaN, "not finite"),
    ],
)
def test_a_denoiser_that_answers_wrongly_does_not_train(process, network, words):
    """Shape, type, gradients and manners of a network are looked at first."""
    with pytest.raises(ContractError, match="denoiser") as caught:
        checked(process, network)
    assert words in str(caught.value)
    assert network.__name__ in str(caught.value)


def test_a_logit_of_minus_infinity_is_an_answer():
    """A network may rule a value out."""
    with pytest.raises(ContractError, match="plain_loss with values that are not finite"):
        checked("masked", RuledOut)  # here it rules out what is there: the loss says so


def test_the_denoiser_is_looked_at_in_sampling_too():
    """The first call of the first batch, without a call of its own."""
    model = checked()
    model.denoiser = Overwrites(model.denoiser)
    with pytest.raises(ContractError, match="changed its input z in place"):
        next(draw(model, 2))


# -- time samplers, processes, data sets


class Rank2(TimeSampler):
    def draw(self, noise):
        t = noise.uniform("time")[:, None]
        return t, torch.ones_like(t)


class NoDensity(TimeSampler):
    def draw(self, noise):
        return noise.uniform("time")


class Outside(TimeSampler):
    def draw(self, noise):
        t = 2 * noise.uniform("time")
        return t, torch.ones_like(t)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (Rank2(), "returned t of shape [64, 1], expected [64]"),
        (NoDensity(), "expected (t, density)"),
        (Outside(), "drew times from"),
    ],
    ids=["Rank2", "NoDensity", "Outside"],
)
def test_a_time_sampler_that_answers_wrongly_does_not_train(tmp_path, times, words):
    """Times and densities are looked at first."""
    refused(tmp_path, "time sampler", words, objective={"times": times})


@attrs.frozen
class Summed(Masked):
    def plain_loss(self, x, z, prediction, level):
        return super().plain_loss(x, z, prediction, level).flatten(1).sum(1)


@attrs.frozen
class Scribbles(Gaussian):
    def corrupt(self, x, level, noise):
        return super().corrupt(x.mul_(0.5), level, noise)


@pytest.mark.parametrize(
    ("process", "words"),
    [(Summed(), "returned plain_loss of shape [2]"), (Scribbles(), "changed its input x in place")],
    ids=["Summed", "Scribbles"],
)
def test_a_process_that_answers_wrongly_does_not_train(tmp_path, process, words):
    """A process's z and losses are looked at first."""
    refused(tmp_path, "process", words, process=process)


@attrs.frozen
class Odd(Dataset):
    """Digits, and something wrong with them."""

    @property
    def spec(self):
        return build_parts(tiny_config()).data.spec

    def split(self, name):
        return _OddSplit(build_parts(tiny_config()).data.split(name), self.wrong)


@attrs.frozen
class _OddSplit(Split):
    split: Split
    wrong: object

    def __len__(self):
        return len(self.split)

    def take(self, indices):
        batch = self.split.take(indices)
        return self.wrong(batch)


class Floats(Odd):
    def wrong(self, batch):
        return Batch(batch.x.float(), batch.y)


class TooHigh(Odd):
    def wrong(self, batch):
        return Batch(batch.x + 5, batch.y)


class Unlabelled(Odd):
    def wrong(self, batch):
        return Batch(batch.x)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (Floats(), "returned x as torch.float32"),
        (TooHigh(), "allowed are 0 to 4"),
        (Unlabelled(), "gave no labels"),
    ],
    ids=["Floats", "TooHigh", "Unlabelled"],
)
def test_data_that_contradict_their_spec_do_not_train(data, words):
    """The first batch is looked at first."""
    parts = build_parts(tiny_config())
    with pytest.raises(ContractError, match="data set") as caught:
        check_training(build_model(parts), data)
    assert words in str(caught.value)


# -- samplers


@attrs.frozen
class Nothing(Ancestral):
    def frames(self, model, noise, cond=None, z=None):
        yield from ()


@attrs.frozen
class Unfinished(Ancestral):
    def frames(self, model, noise, cond=None, z=None):
        for frame in super().frames(model, noise, cond, z):
            yield Frame(frame.z, frame.step)


@attrs.frozen
class Brighter(Ancestral):
    def frames(self, model, noise, cond=None, z=None):
        for frame in super().frames(model, noise, cond, z):
            yield attrs.evolve(frame, x=None if frame.x is None else frame.x + 100)


def test_a_sampler_that_yields_nothing_does_not_train(tmp_path):
    """A path begins with a frame."""
    refused(tmp_path, "sampler Nothing of ", "yielded no frame", sampler=Nothing(steps=2))


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (Nothing(steps=2), "yielded no frame"),
        (Unfinished(steps=2), "its last frame has no x"),
        (Brighter(steps=2), "allowed are 0 to 4"),
    ],
    ids=["Nothing", "Unfinished", "Brighter"],
)
def test_a_path_that_ends_wrongly_is_told(sampler, words):
    """Drawing says which sampler broke which rule."""
    model = build_model(build_parts(load_config(tiny_config(), {"sampler": sampler})))
    with pytest.raises(ContractError, match="sampler") as caught:
        next(draw(model, 2))
    assert words in str(caught.value)


@pytest.mark.parametrize("sampler", [Nothing(steps=2), Unfinished(steps=2)], ids=repr)
def test_a_sampler_asked_alone_gives_samples_or_an_error(sampler):
    """Without a run around it nobody looks closely, but a path must end with samples."""
    model = build_model(build_parts(load_config(tiny_config(), {"sampler": sampler})))
    with pytest.raises(ContractError, match="ended without samples"):
        sampler.sample(model, Noise.of(0, 2), torch.zeros(2, dtype=torch.int64))


# -- metrics


class Says(Metric):
    """Says one thing."""

    def __init__(self, said="fine"):
        self.said = said

    def compute(self):
        return self.said


class Scribbler(Metric):
    def update(self, samples, labels):
        samples.zero_()

    def compute(self):
        return {"zero": 0.0}


def evaluated(metric):
    model = checked()
    data = build_parts(tiny_config()).data
    return evaluate(model, data, EvaluationProtocol(metrics=(metric,), samples=2))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("fine", "computed 'fine', not a mapping"),
        ({"colour": "blue"}, "returned 'blue' for colour, not a number"),
        ({"n": "1.5"}, "returned '1.5' for n, not a number"),
        ({"n": Measurement("much")}, "returned 'much' for n, not a number"),
        ({"n": Measurement(1.0, "some")}, "n's standard error"),
        ({"n": torch.zeros(3)}, "returned a Tensor for n"),
        ({1: 2.0}, "which is not a string"),
    ],
)
def test_a_metric_that_says_no_numbers_is_told(said, words):
    """Text, a tensor of several numbers, no name: it fails, and the others need not."""
    (why,) = evaluated(Says(said)).failed.values()
    assert why.startswith("metric Says of ")
    assert words in why


def test_numbers_of_any_library_are_numbers():
    """Integers, 0-d tensors and numbers that are not there."""
    measurements = evaluated(Says({"a": 1, "b": torch.tensor(2.5), "c": float("nan")})).measurements
    assert [measurements[name].value for name in "ab"] == [1.0, 2.5]


def test_a_metric_may_not_change_the_samples():
    """The next metric sees them too."""
    with pytest.raises(ContractError, match="changed its input samples in place"):
        evaluated(Scribbler())


# -- the command


def test_the_command_says_it_in_a_sentence(tmp_path):
    """Exit code 2, the file and the rule, no traceback."""
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from elbowroom import Weighting\n\n\n"
        "class Mine(Weighting):\n"
        "    def __call__(self, level):\n"
        "        return -level.t\n"
    )
    ran = elbowroom(
        *("train", "digits", f"weighting={mine}:Mine", "data={name: digits, limit: 8}"),
        *("denoiser={name: dit, width: 16, depth: 1}", "--out", tmp_path / "run"),
    )
    assert ran.code == 2
    assert "Traceback" not in ran.err
    said = " ".join(ran.err.split())
    assert f"weighting Mine of {mine}" in said
    assert "negative number" in said
    assert not (tmp_path / "run").exists()


def test_the_owner_of_a_registered_component_is_its_distribution():
    """A name that a config can use, and the package that supplies it."""
    from elbowroom.registry.supplier import component_label

    assert component_label("process", Masked()).startswith("process 'masked' of elbowroom ")
    assert issubclass(type(checked().denoiser), Denoiser)
