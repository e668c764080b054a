"""FID, KID and the Inception Score against formulas of other hands."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.linalg
import torch
from elbowroom.plugins.conformance import check_metric
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.metrics.fid import FID
from elbowroom.plugins.metrics.groups import random_groups
from elbowroom.plugins.metrics.inception_score import InceptionScore, Score
from elbowroom.plugins.metrics.kid import KID, Discrepancy
from elbowroom.plugins.metrics.precision_recall import PrecisionRecall
from hypothesis import given, settings, strategies as st

from tests.helpers.pictures import LINEAR, Linear, Pictures, pictures

DATA = Pictures()
NETWORK = Linear(DATA)
SAMPLES = pictures(90, seed=50)[0].flip(1)


def vectors(x):
    return NETWORK(x)[0].numpy()


def measured(metric, samples=SAMPLES, batch=None):
    metric.prepare(Subject(DATA, batch_size=17))
    for part in samples.split(batch or len(samples)):
        metric.update(part, None)
    return metric.compute()


def frechet(a, b):
    """The definition, by scipy's matrix root."""
    root = scipy.linalg.sqrtm(np.cov(a.T) @ np.cov(b.T)).real
    means = ((a.mean(0) - b.mean(0)) ** 2).sum()
    return means + np.trace(np.cov(a.T) + np.cov(b.T) - 2 * root)


def kernel_distance(x, y):
    """The unbiased estimator, pair by pair."""

    def k(a, b):
        return (a @ b / len(a) + 1) ** 3

    xx = np.mean([k(a, b) for i, a in enumerate(x) for j, b in enumerate(x) if i != j])
    yy = np.mean([k(a, b) for i, a in enumerate(y) for j, b in enumerate(y) if i != j])
    xy = np.mean([k(a, b) for a in x for b in y])
    return xx + yy - 2 * xy


@pytest.mark.parametrize("split", ["train", "test"])
def test_fid_is_the_frechet_distance(split):
    """torchmetrics' sums and scipy's matrix root give the same number for either reference."""
    measurement = measured(FID(LINEAR))[f"fid_{split}"]
    real = vectors(DATA.split(split).take(torch.arange(len(DATA.split(split)))).x)
    assert measurement.value == pytest.approx(frechet(real, vectors(SAMPLES)), rel=1e-9)


def test_the_floor_of_fid_is_that_between_the_splits():
    """What real data gets is stated beside the measurement."""
    train = vectors(DATA.split("train").take(torch.arange(120)).x)
    test = vectors(DATA.split("test").take(torch.arange(60)).x)
    for measurement in measured(FID(LINEAR)).values():
        assert measurement.floor == pytest.approx(frechet(train, test), rel=1e-9)
        assert measurement.better == "lower"


def test_test_images_as_samples_get_the_floor():
    """A model that draws the test split itself has the floor as its FID against train."""
    measurements = measured(FID(LINEAR), DATA.split("test").take(torch.arange(60)).x)
    assert measurements["fid_train"].value == pytest.approx(
        measurements["fid_train"].floor, rel=1e-9
    )
    assert measurements["fid_test"].value == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("build", [FID, KID, InceptionScore, PrecisionRecall])
@pytest.mark.parametrize("flipped", [False, True])
def test_standard_errors_are_the_std_over_samples(build, flipped):
    """The root mean square of the error is the std of values over sets of samples.

    The reference is the same for all. Samples are as the data or, flipped, unlike them; the errors
    of FID and KID of samples like the data are rather too large, FID's by up to sqrt(2).
    """
    pool = pictures(6000, seed=9)[0]
    generator = torch.Generator().manual_seed(0)
    metric, found = build(LINEAR), []
    for _ in range(100):
        x = pool[torch.randint(len(pool), (150,), generator=generator)]
        found.append(next(iter(measured(metric, x.flip(1) if flipped else x).values())))
    told = math.sqrt(np.mean([one.standard_error**2 for one in found]))
    true = np.std([one.value for one in found], ddof=1)
    most = 1.5 if build in (FID, KID) and not flipped else 1.2
    assert 0.8 < told / true < most


@pytest.mark.parametrize("split", ["train", "test"])
def test_kid_is_the_unbiased_discrepancy(split):
    """In one block KID is the plain estimator over all pairs."""
    measurement = measured(KID(LINEAR))[f"kid_{split}"]
    real = vectors(DATA.split(split).take(torch.arange(len(DATA.split(split)))).x)
    assert measurement.value == pytest.approx(kernel_distance(vectors(SAMPLES), real), rel=1e-9)
    assert measurement.standard_error > 0


def test_kid_is_that_of_torchmetrics():
    """On equally many of both, with one subset of all."""
    from torchmetrics.image.kid import KernelInceptionDistance

    x, y = torch.randn(40, 5).double(), torch.randn(40, 5).double() + 0.3
    theirs = KernelInceptionDistance(torch.nn.Identity(), subsets=1, subset_size=40)
    theirs.update(x, real=True)
    theirs.update(y, real=False)
    ours = Discrepancy(x, block=100)
    ours.update(y)
    assert ours.compute()[0] == pytest.approx(float(theirs.compute()[0]), rel=1e-5)


def test_kid_in_blocks_is_their_mean_weighted_by_size():
    """A last, smaller block weighs as much as it is large."""
    x, y = torch.randn(50, 4).double(), torch.randn(25, 4).double()
    ours = Discrepancy(x, block=10)
    ours.update(y)
    parts = [kernel_distance(part.numpy(), x.numpy()) for part in y.split(10)]
    wanted = (10 * parts[0] + 10 * parts[1] + 5 * parts[2]) / 25
    assert ours.compute()[0] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("apart", "reference", "samples", "block"),
    [
        (0, 60, 400, 50),
        (0, 150, 150, 200),
        (0, 2000, 100, 100),
        (0.3, 60, 400, 50),
        (1, 60, 230, 400),
    ],
)
def test_the_error_of_kid_is_the_std_over_samples(apart, reference, samples, block):
    """For equal and for different distributions; it differs between sets of samples."""
    torch.manual_seed(0)
    against = torch.randn(reference, 3).double()
    found = []
    for _ in range(300):
        one = Discrepancy(against, block)
        one.update(torch.randn(samples, 3).double() + apart)
        found.append(one.compute())
    values, errors = np.array(found).T
    assert 0.87 < errors.mean() / values.std() < 1.2
    assert len(set(errors.round(12))) > 290


def test_a_large_reference_is_thinned_at_random():
    """Classes in turn and every k-th example would leave classes out."""
    data = Pictures(classes=3)  # its labels go round
    metric = KID(LINEAR, reference_limit=40)  # every third of train
    metric.prepare(Subject(data))
    kept = metric._against["train"].reference
    all_of_them = NETWORK(data.split("train").take(torch.arange(120)).x)[0].double()
    rows = (kept[:, None] == all_of_them[None]).all(2).double().argmax(1)
    assert torch.bincount(rows % 3, minlength=3).min() > 5


def test_kid_is_zero_on_average_for_equal_distributions():
    """It is unbiased: over many draws its mean is within a few errors of zero."""
    torch.manual_seed(0)
    values = []
    for _ in range(200):
        one = Discrepancy(torch.randn(30, 3).double(), block=20)
        one.update(torch.randn(20, 3).double())
        values.append(one.compute()[0])
    assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(200)


def score(logits):
    """The definition, without streaming."""
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return math.exp((p * (np.log(p) - np.log(p.mean(0)))).sum(1).mean())


def test_the_inception_score_is_its_definition():
    """exp of the mean KL between each prediction and the mean prediction."""
    measurement = measured(InceptionScore(LINEAR))["is"]
    assert measurement.value == pytest.approx(score(NETWORK(SAMPLES)[1].numpy()), rel=1e-9)
    assert measurement.better == "higher"


def test_the_inception_score_is_that_of_torchmetrics():
    """With one split, where their shuffling changes nothing."""
    from torchmetrics.image.inception import InceptionScore as Theirs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of its memory
        theirs = Theirs(torch.nn.Identity(), splits=1)
    logits = 2 * torch.randn(64, 10)
    theirs.update(logits)
    ours = Score(1)
    ours.update(logits)
    assert ours.compute()[0] == pytest.approx(float(theirs.compute()[0]), rel=1e-5)


def test_the_inception_score_of_splits_is_their_mean():
    """Groups are equally large."""
    logits = torch.randn(30, 4).double()
    ours = Score(3)
    group = random_groups(0, 30, 3)
    ours.update(logits)
    parts = [score(logits[group == k].numpy()) for k in range(3)]
    assert torch.bincount(group).tolist() == [10, 10, 10]
    value, error = ours.compute()
    assert value == pytest.approx(np.mean(parts), rel=1e-9)
    assert error == pytest.approx(np.std(parts, ddof=1) / math.sqrt(3), rel=1e-9)


@pytest.mark.parametrize("order", ["in turn", "one by one", "shuffled"])
@pytest.mark.parametrize("splits", [2, 5, 10])
def test_the_order_of_classes_has_no_say_in_the_groups(order, splits):
    """A perfect generator of ten classes scores nearly ten, in any order and number of groups."""
    labels = {
        "in turn": torch.arange(5000) % 10,
        "one by one": torch.arange(5000) // 500,
        "shuffled": torch.randperm(5000, generator=torch.Generator().manual_seed(0)) % 10,
    }[order]
    ours = Score(splits)
    for part in labels.split(999):
        ours.update(30.0 * torch.nn.functional.one_hot(part, 10))
    assert 9.85 < ours.compute()[0] < 10 + 1e-9  # a finite group has 9 / (2 size) nats too few


def test_the_error_of_the_inception_score_is_the_spread_over_repetitions():
    """The standard error told for one group is how much the score varies between draws."""
    torch.manual_seed(1)
    values, errors = [], []
    for _ in range(300):
        one = Score(1)
        one.update(2 * torch.randn(200, 6).double())
        value, error = one.compute()
        values.append(value)
        errors.append(error)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)


@pytest.mark.parametrize("build", [FID, KID, InceptionScore])
def test_built_in_metrics_keep_the_laws(build):
    """Batches, order and the global generator change nothing; protocols are plain data."""
    check_metric(build(LINEAR), SAMPLES, DATA)


@settings(max_examples=8)
@given(
    cuts=st.lists(st.integers(0, len(SAMPLES)), min_size=2, max_size=2), block=st.integers(2, 100)
)
def test_copies_on_ranks_merge_to_the_whole(cuts, block):
    """Wherever three ranks share the samples out, the first says what one process says."""
    for build in (
        lambda: FID(LINEAR),
        lambda: KID(LINEAR, block=block),
        lambda: InceptionScore(LINEAR, splits=4),
    ):
        whole, copies = measured(build()), [build() for _ in range(3)]
        ends = [0, *sorted(cuts), len(SAMPLES)]
        for copied, begin, end in zip(copies, ends, ends[1:], strict=False):
            copied.prepare(Subject(DATA))
            copied.skip(begin)
            if begin < end:
                copied.update(SAMPLES[begin:end], None)
        copies[0].merge([copied.state() for copied in copies])
        for name, measurement in copies[0].compute().items():
            assert measurement.value == pytest.approx(whole[name].value, rel=1e-9)
            error, due = measurement.standard_error, whole[name].standard_error
            assert error is due is None or error == pytest.approx(due, rel=1e-9)


@settings(max_examples=8)
@given(batch=st.integers(1, 90), block=st.integers(2, 100))
def test_streaming_and_one_shot_agree(batch, block):
    """However the samples come, every measurement and error is that of all at once."""
    for build in (
        lambda: FID(LINEAR),
        lambda: KID(LINEAR, block=block),
        lambda: InceptionScore(LINEAR, splits=4),
    ):
        whole, parts = measured(build()), measured(build(), batch=batch)
        for name, measurement in whole.items():
            assert parts[name].value == pytest.approx(measurement.value, rel=1e-7, abs=1e-7)
            one, other = parts[name].standard_error, measurement.standard_error
            assert one == other or one == pytest.approx(other, rel=1e-6)


def held(value, seen=None):
    """Bytes of tensors that hang on an object."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return value.untyped_storage().nbytes()
    if isinstance(value, dict):
        return sum(held(item, seen) for item in value.values())
    if isinstance(value, list | tuple):
        return sum(held(item, seen) for item in value)
    names = [*getattr(value, "__dict__", {}), *getattr(type(value), "__slots__", ())]
    return sum(held(getattr(value, name, None), seen) for name in names)


@pytest.mark.parametrize(
    "build", [lambda: FID(LINEAR), lambda: KID(LINEAR, block=50), lambda: InceptionScore(LINEAR)]
)
def test_memory_does_not_grow_with_the_samples(build):
    """After ten times as many samples a metric holds no more than before."""
    metric = build()
    metric.prepare(Subject(DATA))
    sizes = []
    for rounds in (10, 90):
        for _ in range(rounds):
            metric.update(SAMPLES[:50].clone(), None)
        sizes.append(held(metric))
    assert sizes[0] == sizes[1] > 0
    metric.compute()


def test_metrics_share_one_look_at_each_batch():
    """Three metrics of one network call it once a batch."""
    subject, calls = Subject(DATA), []
    metrics = [FID(LINEAR), KID(LINEAR), InceptionScore(LINEAR)]
    for metric in metrics:
        metric.prepare(subject)
    network = metrics[0]._eye.network
    network.register_forward_hook(lambda *_: calls.append(1))
    for metric in metrics:
        metric.update(SAMPLES, None)
    assert len(calls) == 1


def test_the_score_without_logits_is_refused():
    """A feature network without classes has no Inception Score, and the message says so."""
    from elbowroom.errors import IncompatibleError

    with pytest.raises(IncompatibleError, match="blind has no logits"):
        InceptionScore(f"{__name__}:Blind").prepare(Subject(DATA))


class Blind(Linear):
    name = "blind"

    def forward(self, x):
        return super().forward(x)[0], None
