"""The conformance kit catches wrong implementations, each law its own, in plain sentences."""

from __future__ import annotations

import subprocess
import sys
import time

import attrs
import pytest
import torch
from elbowroom import (
    Batch,
    Dataset,
    DataSpec,
    Denoiser,
    Exporter,
    Frame,
    Launcher,
    Level,
    Metric,
    Sampler,
    Schedule,
    Signature,
    Split,
    TimeSampler,
    Weighting,
)
from elbowroom.contracts.time_sampler import stratified
from elbowroom.plugins.conformance import (
    check_dataset,
    check_denoiser,
    check_exporter,
    check_launcher,
    check_metric,
    check_process,
    check_sampler,
    check_schedule,
    check_time_sampler,
    check_weighting,
)
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.launchers.launcher import Ended
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.schedules.masking import Cosine, Linear
from elbowroom.plugins.time_samplers.importance import Importance
from elbowroom.plugins.time_samplers.logit_normal import LogitNormal
from elbowroom.plugins.time_samplers.uniform import Stratified, Uniform
from elbowroom.plugins.training.run import train
from safetensors.torch import save_file
from torch import nn

from tests.helpers.tiny_run import tiny_config


def broken(check, subject, *sentences, **options):
    """The check fails and says each of these."""
    with pytest.raises(AssertionError) as caught:
        check(subject, **options)
    for sentence in sentences:
        assert sentence in str(caught.value)


# -- schedules


class Rising(Schedule):
    def log_snr(self, t):
        return 20 * t - 10


class Standing(Schedule):
    def log_snr(self, t):
        return 5 - 10 * (t.clamp(0.2, 0.8))


class WrongRate(Linear):
    def rate(self, t):
        return 1.01 * super().rate(t)


class WrongInverse(Linear):
    def time(self, log_snr):
        return 1 - super().time(log_snr)


class Whole(Schedule):
    def log_snr(self, t):
        return 5 - 10 * t / t.max()


class FlatStart(Schedule):
    """Stands still for a moment that no grid of thousandths sees."""

    def log_snr(self, t):
        return 5 - 10 * t.clamp(min=5e-4)


class FlatEnd(Schedule):
    def log_snr(self, t):
        return 5 - 10 * t.clamp(max=1 - 5e-4)


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        (Rising(), "lambda(t) falls strictly"),
        (Standing(), "lambda(t) falls strictly"),
        (Linear(eps=0), "is not finite at t = [0.0"),
        (WrongRate(), "The rate is -lambda'(t)"),
        (WrongInverse(), "time(lambda) is the inverse"),
        (Whole(), "computed elementwise"),
        (FlatStart(), "near t = 0 it is constant"),
        (FlatEnd(), "near t = 1 it is constant"),
    ],
)
def test_wrong_schedules_are_caught(schedule, sentence):
    """Rising, standing still, infinite, wrong rate, wrong inverse, not elementwise, flat ends."""
    broken(check_schedule, schedule, sentence)


# -- weightings


class Pole(Weighting):
    def __call__(self, level):
        return 1 / (level.t - 0.5)


class WrongPlain(Weighting):
    def __call__(self, level):
        return level.noise_share

    def plain_weight(self, level):
        return level.noise_share


class Scalar(Weighting):
    def __call__(self, level):
        return level.noise_share.mean()


class Hidden(Weighting):
    """Reads the rate but hides that where there is none."""

    def __call__(self, level):
        return level.rate.nan_to_num(1.0)


class OfTheBatch(Weighting):
    """Normalised by the largest weight of the batch it is in."""

    def __call__(self, level):
        return level.noise_share / level.noise_share.max()


class Negative(Weighting):
    def __call__(self, level):
        return level.t - 0.25


class InPlace(Weighting):
    def __call__(self, level):
        return level.log_snr.clamp_(max=4).sigmoid()


@pytest.mark.parametrize(
    ("weighting", "sentence"),
    [
        (OfTheBatch(), "does not depend on the other levels of the batch"),
        (Negative(), "w is not negative"),
        (InPlace(), "The level is not changed"),
        (Pole(), "w is finite inside (0, 1)"),
        (WrongPlain(), "plain_weight is w * elbo_weight"),
        (Scalar(), "computed elementwise"),
        (Hidden(), "depends on lambda only"),
    ],
)
def test_wrong_weightings_are_caught(weighting, sentence):
    """A pole, a wrong plain weight, a wrong shape, a hidden dependence on the schedule."""
    broken(check_weighting, weighting, sentence)


class P2(Weighting):
    """Choi et al.'s weight of the plain loss, taken for w."""

    def __call__(self, level):
        return 1 / (1 + level.snr)


class RightP2(P2):
    def __call__(self, level):
        return super().__call__(level) / level.elbo_weight


def test_what_a_weighting_means_is_printed(capsys):
    """No law tells a weight of the plain loss from a w: words do, beside the laws."""
    forgotten, right = check_weighting(P2()), check_weighting(RightP2())
    assert "w̃ goes as SNR^-1, and the weight on the plain loss goes as SNR^-0.5" in forgotten
    assert "w̃ goes as SNR^-1.5, and the weight on the plain loss goes as SNR^-1" in right
    assert "level.elbo_weight" in forgotten
    assert capsys.readouterr().out == f"{forgotten}\n{right}\n"


# -- time samplers


class WrongDensity(TimeSampler):
    def draw(self, noise):
        t = stratified(noise) ** 2
        return t, torch.ones_like(t)


class Outside(TimeSampler):
    def draw(self, noise):
        t = 2 * stratified(noise)
        return t, torch.full_like(t, 0.5)


class ByRank(TimeSampler):
    def draw(self, noise):
        t = (noise.shared_uniform("t") + torch.arange(len(noise)).double() / len(noise)) % 1
        return t, torch.ones_like(t)


class Frozen(TimeSampler):
    def draw(self, noise):
        t = (noise.positions.double() + 0.5) / noise.total
        return t, torch.ones_like(t)


@pytest.mark.parametrize("times", [Stratified(), Uniform(), Importance(), LogitNormal()])
def test_built_in_time_samplers_keep_every_law(times):
    """Each built-in time sampler passes the kit."""
    check_time_sampler(times)


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        (WrongDensity(), "the integral of f"),
        (Outside(), "Times lie in [0, 1]"),
        (ByRank(), "split over ranks"),
        (Frozen(), "Another step draws other times"),
    ],
)
def test_wrong_time_samplers_are_caught(times, sentence):
    """A wrong density, times outside, times that depend on the split, times that never change."""
    broken(check_time_sampler, times, sentence)


# -- processes


@attrs.frozen
class WrongStepPrice(Masked):
    def step_price(self, log_snr, to):
        return 1.1 * super().step_price(log_snr, to)


@attrs.frozen
class WrongStepKL(Gaussian):
    def step_kl(self, x, z, prediction, level, to):
        return 0.5 * super().step_kl(x, z, prediction, level, to)


@attrs.frozen
class PriorNotReached(Gaussian):
    def prior(self, noise):
        return 1.3 * super().prior(noise)


@attrs.frozen
class TooVisible(Masked):
    def corrupt(self, x, level, noise):
        return super().corrupt(x, attrs.evolve(level, log_snr=level.log_snr + 0.3), noise)


@attrs.frozen
class TooNoisy(Gaussian):
    def corrupt(self, x, level, noise):
        return super().corrupt(x, attrs.evolve(level, log_snr=level.log_snr - 0.3), noise)


@attrs.frozen
class HalfLoss(Masked):
    def plain_loss(self, x, z, prediction, level):
        return super().plain_loss(x, z, prediction, level) / 2


@attrs.frozen
class WrongReverse(Masked):
    def reverse(self, z, prediction, step, noise):
        flat = attrs.evolve(prediction, logits=prediction.logits.clamp(min=-2) / 2)
        return super().reverse(z, flat, step, noise)


@attrs.frozen
class WrongVariance(Gaussian):
    def reverse(self, z, prediction, step, noise):
        drawn = super().reverse(z, prediction, step, noise)
        return drawn + 0.4 * (1 - step.to.share).sqrt() * torch.sign(drawn)


@attrs.frozen
class TooLazy(Masked):
    def active_steps(self, levels, noise, z):
        return super().active_steps(levels, noise, z) & False


@attrs.frozen
class ByBatch(Gaussian):
    def corrupt(self, x, level, noise):
        return super().corrupt(x, level, noise.at(len(noise)))


@attrs.frozen
class Forgetful(Gaussian):
    def encode(self, x):
        return super().encode(x) * 0 + 0.5


@attrs.frozen
class WrongShape(Masked):
    def units(self, z):
        return super().units(z).sum()


@attrs.frozen
class NegativePriorKL(Gaussian):
    def prior_kl(self, x, level):
        return super().prior_kl(x, level) - 1


@pytest.mark.parametrize(
    ("process", "sentence"),
    [
        (WrongStepPrice(), "step_price / (t - s) tends to"),
        (WrongStepKL(), "step_kl / (t - s) tends to"),
        (PriorNotReached(), "z looks like the prior"),
        (NegativePriorKL(), "prior_kl is negative"),
        (TooVisible(), "corrupt draws from the distribution"),
        (TooNoisy(), "corrupt draws from the distribution"),
        (HalfLoss(), "the bound is the entropy"),
        (WrongReverse(), "Ancestral steps with the exact denoiser"),
        (WrongVariance(), "Ancestral steps with the exact denoiser"),
        (TooLazy(), "active_steps rules out"),
        (ByBatch(), "does not depend on the batch"),
        (Forgetful(), "decode undoes encode"),
        (WrongShape(), "have the expected shapes"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_wrong_processes_are_caught(process, sentence):
    """Each law of a process catches a wrong one."""
    broken(check_process, process, sentence)


# -- denoisers


class Tiny(Denoiser):
    """The smallest network that keeps every law."""

    def __init__(self, signature: Signature, *, width: int = 16) -> None:
        super().__init__(signature)
        states, out = signature.in_states, signature.out_states or 1
        self.stem = nn.Linear(1, width) if states is None else nn.Embedding(states, width)
        self.level = nn.Linear(1, width) if signature.needs_level else None
        self.label = None if signature.classes is None else nn.Embedding(signature.classes, width)
        self.head = nn.Linear(width, out)

    def forward(self, z, log_snr, cond):
        h = self.stem(z.unsqueeze(-1) if self.signature.in_states is None else z)
        here = (slice(None), *(None,) * (z.ndim - 1))
        if self.level is not None:
            h = h + self.level(log_snr[:, None])[here]
        if self.label is not None:
            h = h + self.label(cond)[here]
        out = self.head(h.relu())
        return out.squeeze(-1) if self.signature.out_states is None else out


class Leaky(Tiny):
    def forward(self, z, log_snr, cond):
        out = super().forward(z, log_snr, cond)
        return out + out.cumsum(0) * 0.1


class Dead(Tiny):
    def __init__(self, signature):
        super().__init__(signature)
        self.unused = nn.Linear(2, 2)


class Flat(Tiny):
    def forward(self, z, log_snr, cond):
        return super().forward(z, log_snr, cond).flatten(1)


class Moody(Tiny):
    def forward(self, z, log_snr, cond):
        out = super().forward(z, log_snr, cond)
        return out + torch.rand_like(out)


def test_a_small_denoiser_keeps_every_law():
    """A network of a few lines passes the kit."""
    check_denoiser(Tiny)


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (Leaky, "are independent"),
        (Dead, "gradients have reached every parameter"),
        (Flat, "The output has the shape"),
        (Moody, "the same input gives the same output"),
    ],
)
def test_wrong_denoisers_are_caught(network, sentence):
    """Leaks between samples, dead parameters, wrong shapes, randomness in eval mode."""
    broken(check_denoiser, network, sentence)


# -- samplers


class _Wrapped(Sampler):
    """Does what ancestral sampling does, and then something wrong."""

    def frames(self, model, noise, cond=None, z=None):
        yield from Ancestral(steps=self.steps).frames(model, noise, cond, z)


@attrs.frozen
class Unfinished(_Wrapped):
    def frames(self, model, noise, cond=None, z=None):
        for frame in super().frames(model, noise, cond, z):
            yield Frame(frame.z, frame.step)


@attrs.frozen
class Sharpened(_Wrapped):
    def frames(self, model, noise, cond=None, z=None):
        *early, last = super().frames(model, noise, cond, z)
        yield from early
        yield attrs.evolve(last, x=torch.zeros_like(last.x) + torch.tensor([0, 1]))


@attrs.frozen
class BatchDependent(_Wrapped):
    def frames(self, model, noise, cond=None, z=None):
        yield from super().frames(model, noise.at(len(noise)), cond, z)
        # masked paths ignore the step: shift the samples by the size of the batch as well

    def sample(self, model, noise, cond=None):
        drawn = super().sample(model, noise, cond)
        return attrs.evolve(drawn, x=(drawn.x + len(noise)) % 3)


def test_ancestral_sampling_keeps_every_law():
    """The built-in sampler passes the kit under both processes."""
    check_sampler(Ancestral(steps=192))


@pytest.mark.parametrize(
    ("sampler", "sentence"),
    [
        (Unfinished(steps=32), "The last frame"),
        (Sharpened(steps=32), "the data's distribution"),
        (BatchDependent(steps=32), "whatever batch"),
    ],
)
def test_wrong_samplers_are_caught(sampler, sentence):
    """Unfinished paths, a wrong distribution, samples that depend on the batch."""
    broken(check_sampler, sampler, sentence)


def test_a_sampler_nobody_serves_is_told():
    """A sampler that asks for a trait no process has is an error, not a silent pass."""

    @attrs.frozen
    class Needy(_Wrapped):
        needs = frozenset({"quantum"})

    broken(check_sampler, Needy(), "quantum")


# -- data sets


class Rows(Split):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def take(self, indices):
        return Batch(self.x[indices], None if self.y is None else self.y[indices])


class Table(Dataset):
    def __init__(self, *, levels=4, classes=2, shape=(3,), y_max=2, train=None):
        self._spec = DataSpec(shape, levels, classes)
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randint(4, (60, 3), generator=generator)
        self.y = None if y_max is None else torch.arange(60) % y_max
        self.train = train

    @property
    def spec(self):
        return self._spec

    def split(self, name):
        if self.train:
            return self.train
        mine = slice(*{"train": (0, 20), "validation": (20, 40), "test": (40, 60)}[name])
        return Rows(self.x[mine], None if self.y is None else self.y[mine])


class Shuffled(Rows):
    def take(self, indices):
        return super().take(indices.sort().values)


class Overlapping(Dataset):
    """Judged by what was learnt, in another order."""

    spec = DataSpec((8,), 4)

    def split(self, name):
        x = torch.randint(4, (40, 8), generator=torch.Generator().manual_seed(0))
        return Rows(x if name == "train" else x[:20].flip(0), None)


def test_a_small_data_set_keeps_every_law():
    """A table of integers passes the kit."""
    check_dataset(Table())


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (Table(levels=3), "has values 0 to 3 for 3 levels"),
        (Table(shape=(4,)), "examples are (3,)"),
        (Table(y_max=5), "labels 0 to 4 for 2 classes"),
        (Table(y_max=None), "has no labels"),
        (Table(classes=None), "has labels although"),
        (Table(train=Shuffled(Table().x, Table().y)), "in the requested order"),
        (Table(train=Rows(Table().x, Table().y)), "The splits are not the same examples"),
        (Overlapping(), "of the first examples of validation are among those of train"),
    ],
)
def test_wrong_data_sets_are_caught(data, sentence):
    """Values, shapes, labels and order that contradict the spec; splits that share examples."""
    broken(check_dataset, data, sentence)


# -- metrics


class Mean(Metric):
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, samples, labels):
        self.total += float(samples.double().sum())
        self.count += samples.numel()

    def compute(self):
        return {"mean": self.total / self.count}


class LastBatch(Mean):
    def update(self, samples, labels):
        self.total, self.count = float(samples.double().sum()), samples.numel()


class First(Mean):
    def compute(self):
        return {"first": self.first}

    def update(self, samples, labels):
        if not self.count:
            self.first = float(samples.flatten()[0])
        super().update(samples, labels)


class Scribbles(Mean):
    def update(self, samples, labels):
        super().update(samples, labels)
        samples.zero_()


class Silent(Mean):
    def compute(self):
        return {}


class Forgets(Mean):
    """Merged it knows its own part only."""

    def state(self):
        return {"total": torch.tensor(self.total), "count": torch.tensor(self.count)}

    def merge(self, states):
        self.total, self.count = float(states[0]["total"]), int(states[0]["count"])


SAMPLES = torch.arange(30).reshape(10, 3) % 7


def test_a_small_metric_keeps_every_law():
    """A running mean passes the kit."""
    check_metric(Mean(), samples=SAMPLES)


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        (LastBatch, "split into batches"),
        (First, "the order of the samples"),
        (Silent, "It returns finite measurements"),
        (Forgets, "Copies updated on several ranks"),
        (Scribbles, "The samples are not changed"),
    ],
)
def test_wrong_metrics_are_caught(metric, sentence):
    """Measurements that depend on batches or order, or that are not there."""
    broken(check_metric, metric(), sentence, samples=SAMPLES)


def test_a_metric_is_given_as_an_instance():
    """Like every other component; a class is told so."""
    with pytest.raises(TypeError, match=r"like MyMetric\(\)"):
        check_metric(Mean, SAMPLES)


# -- launchers


class Here(Launcher):
    """Runs jobs one by one, as a launcher may."""

    def run(self, jobs, at_once):
        for job in jobs:
            with job.output.open("wb") as output:
                child = subprocess.Popen(
                    [sys.executable, *job.command], stdout=output, stderr=subprocess.STDOUT
                )
            try:
                while child.poll() is None:
                    yield None
                    time.sleep(0.02)
            finally:
                self.stop(child)
            yield Ended(job.name, self.told(child.returncode))

    def stop(self, child):
        if child.poll() is None:
            child.terminate()
            child.wait()

    def told(self, code):
        return code


class Kills(Here):
    def stop(self, child):
        child.kill()
        child.wait()


class Optimist(Here):
    def told(self, code):
        return 0


class Mute(Here):
    def run(self, jobs, at_once):
        jobs = [attrs.evolve(job, output=job.output.with_suffix(".lost")) for job in jobs]
        yield from super().run(jobs, at_once)


def test_a_small_launcher_keeps_every_law():
    """One job after the other is a launcher."""
    check_launcher(Here())


@pytest.mark.parametrize(
    ("launcher", "sentence"),
    [
        (Kills(), "a job that saves itself at SIGTERM had no time to"),
        (Optimist(), "a job that exited with 7 is reported with 0"),
        (Mute(), "'to one' is not there"),
    ],
    ids=["Kills", "Optimist", "Mute"],
)
def test_wrong_launchers_are_caught(launcher, sentence):
    """Kills at once, hides failures, loses what was printed."""
    broken(check_launcher, launcher, sentence)


# -- exporters


class Weights(Exporter):
    """The weights alone."""

    def write(self, run, config, folder):
        save_file(run.model.state_dict(), folder / "weights.safetensors")


class Pickled(Exporter):
    def write(self, run, config, folder):
        torch.save(run.model.state_dict(), folder / "weights.bin")


class Rooted(Weights):
    def write(self, run, config, folder):
        super().write(run, config, folder)
        (folder / "card.md").write_text(f"made from {run.folder.path.resolve()}")


class Nothing(Exporter):
    def write(self, run, config, folder):
        (folder.parent / "elsewhere").touch()


class Improves(Weights):
    def write(self, run, config, folder):
        with torch.no_grad():
            next(run.model.parameters()).add_(1)
        super().write(run, config, folder)


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    """A run of one step."""
    folder = tmp_path_factory.mktemp("conformance") / "run"
    train(tiny_config(steps=1), folder, without=("console", "tensorboard"))
    return folder


def test_a_small_exporter_keeps_every_law(a_run):
    """Weights in one file are an export."""
    check_exporter(Weights(), a_run)


@pytest.mark.parametrize(
    ("exporter", "sentence"),
    [
        (Pickled(), "are pickles"),
        (Rooted(), "card.md names a folder here"),
        (Nothing(), "the folder is empty"),
        (Improves(), "The same run gives the same files"),
    ],
    ids=["Pickled", "Rooted", "Nothing", "Improves"],
)
def test_wrong_exporters_are_caught(a_run, exporter, sentence):
    """Pickles, paths of this machine, nothing at all, and another model than the run's."""
    broken(check_exporter, exporter, sentence, of=a_run)


def test_every_broken_law_is_told_at_once():
    """A component that breaks several laws is told all of them in one failure."""
    broken(check_schedule, Rising(), "falls strictly", "never negative", "the inverse")
    with pytest.raises(AssertionError, match=r"breaks \d laws"):
        check_schedule(Rising())


def test_a_component_that_raises_is_a_broken_law_not_a_crash():
    """What a component raises is told in the law's sentence."""

    class Crash(Schedule):
        def log_snr(self, t):
            raise ZeroDivisionError("oops")

    broken(check_schedule, Crash(), "raised ZeroDivisionError: oops")


def test_a_broken_law_names_lines_of_the_authors_file():
    """Where the component is defined, and where it raised."""

    class Crash(Schedule):
        def log_snr(self, t):
            raise ZeroDivisionError("oops")

    with pytest.raises(AssertionError) as caught:
        check_schedule(Crash())
    first = Crash.log_snr.__code__.co_firstlineno
    assert f"({__file__}:{first - 1}) breaks" in str(caught.value)
    assert f"oops ({__file__}:{first + 1})" in str(caught.value)


def test_levels_of_a_third_party_schedule_serve_everything():
    """A four-line schedule under a six-line weighting gives levels for both processes."""

    class Mine(Schedule):
        def log_snr(self, t):
            return 6 - 12 * t

    @attrs.frozen
    class MinSNR(Weighting):
        gamma: float = 5.0

        def __call__(self, level):
            return (self.gamma / level.snr).clamp(max=1) / level.elbo_weight

    check_schedule(Mine())
    check_weighting(MinSNR())
    for process in (Masked(), Gaussian()):
        level = Level.of(torch.tensor([0.3]), Mine(), process)
        due = (5.0 / level.snr).clamp(max=1)
        torch.testing.assert_close(MinSNR().plain_weight(level), due)
    check_process(Masked(), Mine())
    assert Cosine() == Cosine()


def test_a_broken_law_is_reported_for_a_class_without_a_file():
    """A class defined in a notebook has no source file."""
    names: dict = {"__name__": "__main__"}
    code = "import elbowroom as er\nimport torch\nclass Forgetful(er.Weighting):\n"
    code += "    def __call__(self, level):\n        return torch.ones(())\n"
    exec(code, names)
    with pytest.MonkeyPatch.context() as patched:
        patched.delattr("__main__.__file__", raising=False)
        with pytest.raises(AssertionError, match="keeps the shape and precision of the level"):
            check_weighting(names["Forgetful"]())
