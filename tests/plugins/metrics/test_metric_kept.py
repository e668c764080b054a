"""What real data say is worked out once, and never believed of anything else."""

from __future__ import annotations

import attrs
import pytest
import torch
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.metrics import classifier as classifiers, kept
from elbowroom.plugins.metrics.features import Eye
from elbowroom.plugins.metrics.fid import FID
from elbowroom.plugins.metrics.inception_score import InceptionScore
from elbowroom.plugins.metrics.kid import KID
from elbowroom.plugins.metrics.neighbours import Neighbours, Train
from elbowroom.plugins.metrics.precision_recall import PrecisionRecall

from tests.helpers.pictures import LINEAR, Pictures, pictures

METRICS = [FID, KID, InceptionScore, PrecisionRecall, Neighbours]
SAMPLES = pictures(40, seed=50)[0].flip(1)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and a short training."""
    monkeypatch.setenv("ELBOWROOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(classifiers, "_STEPS", 2)
    return tmp_path / "cache"


def measurements(metric, data=None, **options):
    metric.prepare(Subject(data or Pictures(), **options))
    metric.update(SAMPLES, None)
    return {name: attrs.astuple(measurement)[:4] for name, measurement in metric.compute().items()}


def files(cache):
    found = (cache / "features").glob("*.safetensors")
    return sorted(file for file in found if not file.name.startswith("classifier"))


@pytest.mark.parametrize("metric", METRICS)
def test_the_second_time_only_samples_are_looked_at(metric, cache, monkeypatch):
    """Features and distances of 40 samples, none of real examples; the same measurements."""
    first, seen = measurements(metric()), []
    for owner, name in ((Eye, "__call__"), (Train, "distance")):
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, f=plain: seen.append(len(a[1])) or f(*a))
    assert measurements(metric()) == first
    assert seen == [40]
    assert len(files(cache)) == 1


@pytest.mark.parametrize("metric", METRICS)
def test_what_is_kept_is_what_it_was_made_of(metric, cache):
    """Other examples, another batch size: another file, and the other measurements."""
    first = measurements(metric())
    other = measurements(metric(), Pictures(shift=1))
    assert other != first
    measurements(metric(), batch_size=7)
    assert len(files(cache)) == 3
    assert measurements(metric(), Pictures(shift=1)) == other


def test_settings_belong_to_the_key(cache):
    """A smaller reference has its own file."""
    assert measurements(KID()) != measurements(KID(reference_limit=30))
    measurements(InceptionScore())
    measurements(InceptionScore(splits=2))
    assert len(files(cache)) == 4


def test_code_belongs_to_the_key(cache, monkeypatch):
    """After a change of the metric's own file nothing old is believed."""
    measurements(FID())
    monkeypatch.setattr(kept, "code_digest", lambda file: "changed")
    measurements(FID())
    assert len(files(cache)) == 2


@pytest.mark.parametrize("metric", METRICS)
def test_a_damaged_file_is_made_again(metric, cache):
    """A cut file is neither an error nor believed."""
    first = measurements(metric())
    (file,) = files(cache)
    whole = file.read_bytes()
    file.write_bytes(whole[:60])
    assert measurements(metric()) == first
    assert file.read_bytes() == whole


def test_nothing_is_kept_of_a_network_whose_code_is_not_known(cache):
    """A reference names code that may change under the same weights."""
    measurements(FID(LINEAR))
    assert not files(cache)


def test_a_digest_tells_data_sets_apart():
    """By examples, labels and what they are; not by object."""
    digests = [kept.data_digest(d) for d in (Pictures(), Pictures(1), Pictures(0, None))]
    assert len(set(digests)) == 3
    assert kept.data_digest(Pictures()) == digests[0]


def test_reference_rows_in_single_precision_lose_nothing():
    """Only numbers that single precision holds are kept in it."""
    from elbowroom.plugins.metrics.features import compact

    exact = torch.rand(5, 3).double()
    assert compact(exact).dtype == torch.float32
    assert torch.equal(compact(exact).double(), exact)
    assert torch.equal(compact(exact / 3), exact / 3)
