"""Any metric of torchmetrics that can look at samples, named by its class."""

from __future__ import annotations

import pytest
import torch
from elbowroom import ElbowroomError, EvaluationProtocol, IncompatibleError, Subject
from elbowroom.plugins.conformance import check_metric
from elbowroom.plugins.metrics.fid import FID
from elbowroom.plugins.metrics.from_torchmetrics import TorchMetrics
from torchmetrics.image import TotalVariation

from tests.helpers.pictures import LINEAR, Pictures, pictures

DATA = Pictures()
SAMPLES = pictures(90, seed=50)[0].flip(1)
VARIATION = "torchmetrics.image.TotalVariation"
MEAN = "torchmetrics.MeanMetric"
DISTANCE = "torchmetrics.image.fid.FrechetInceptionDistance"
KERNEL = "torchmetrics.image.kid.KernelInceptionDistance"


def measured(metric, data=DATA, batch=40):
    metric.prepare(Subject(data, batch_size=17))
    for part in SAMPLES.split(batch):
        metric.update(part, None)
    return metric.compute()


def test_a_metric_of_pictures_is_shown_the_samples():
    """[B, C, H, W] from 0 to 1; its options are passed on, real data are beside it."""
    theirs, real = TotalVariation(reduction="mean"), TotalVariation(reduction="mean")
    theirs.update(SAMPLES.movedim(-1, 1) / 4)
    real.update(DATA.split("test").take(torch.arange(60)).x.movedim(-1, 1) / 4)
    measurement = measured(TorchMetrics(VARIATION, {"reduction": "mean"}))["total_variation"]
    assert measurement.value == pytest.approx(float(theirs.compute()), rel=1e-6)
    assert measurement.floor == pytest.approx(float(real.compute()), rel=1e-6)
    assert measurement.better == "lower"
    assert measurement.of == {
        "class": VARIATION,
        "pictures": "0 to 1",
        "options": "reduction: mean",
    }


@pytest.mark.parametrize(("form", "top"), [("float", 1), ("uint8", 255)])
def test_pictures_are_floats_or_bytes(form, top):
    """From 0 to 1, or from 0 to 255."""
    (measurement,) = measured(TorchMetrics("torchmetrics.MaxMetric", pictures=form)).values()
    assert measurement.value == top and measurement.of["pictures"] == f"0 to {top}"


def test_a_metric_of_two_sets_is_shown_features():
    """Its FID through a feature network is ours, with the same floor."""
    ours = measured(FID(LINEAR))["fid_train"]
    measurement = measured(TorchMetrics(DISTANCE, features=LINEAR))["frechet_inception_distance"]
    assert (measurement.value, measurement.floor) == pytest.approx(
        (ours.value, ours.floor), rel=1e-9
    )
    assert measurement.better == "lower" and measurement.of["against"] == "120 train examples"
    assert measurement.of["features"] == "linear"


def test_several_numbers_are_several_measurements():
    """KID's mean over subsets and its spread; drawn with the evaluation's seed."""
    options = {"subset_size": 50, "subsets": 3}
    first, second = (measured(TorchMetrics(KERNEL, options, features=LINEAR)) for _ in range(2))
    assert list(first) == ["kernel_inception_distance_1", "kernel_inception_distance_2"]
    assert [measurement.better for measurement in first.values()] == ["lower", None]
    assert first == second


@pytest.mark.parametrize(
    "metric",
    [TorchMetrics(VARIATION), TorchMetrics(MEAN), TorchMetrics(DISTANCE, features=LINEAR)],
    ids=lambda metric: metric.metric,
)
def test_they_keep_the_laws_of_a_metric(metric):
    """Batches, order and the global generator change nothing."""
    check_metric(metric, SAMPLES, DATA)


def test_several_of_them_are_measured_together():
    """The same component with other measurements is no repetition; the same twice is."""
    mean = f"{{name: torchmetrics, metric: {MEAN}}}"
    built = EvaluationProtocol(
        metrics=(mean, {"name": "torchmetrics", "metric": VARIATION})
    ).build()
    assert [one.metric for one in built.values()] == [MEAN, VARIATION]
    for twice in ((mean, mean), ("kid", {"name": "kid", "block": 500})):
        with pytest.raises(ElbowroomError, match="named twice"):
            EvaluationProtocol(metrics=twice).build()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("os.system", "no class of torchmetrics"),
        ("torchmetrics_evil.Metric", "no class of torchmetrics"),
        ("torchmetrics.image.fid.Module", "no metric of torchmetrics"),
        ("torchmetrics.image.NoSuch", "there is no"),
        ("torchmetrics.nowhere.Metric", "there is no"),
        ("torchmetrics.image.PeakSignalNoiseRatio", r"\(preds, target\)"),
        ("torchmetrics.wrappers.Running", r"\(\.\.\.\)"),
    ],
)
def test_nothing_else_can_be_named(path, words):
    """Nothing outside the library, no class that is no metric, none that needs pairs."""
    with pytest.raises(ElbowroomError, match=words):
        TorchMetrics(path)


def test_a_config_cannot_make_it_load_a_file():
    """What an option would load may be a program."""
    for name in ("feature_extractor_weights_path", "model_name_or_path"):
        with pytest.raises(ElbowroomError, match="names something to load"):
            TorchMetrics(DISTANCE, {name: "x.pt"})


def test_what_cannot_be_made_or_shown_is_told():
    """A wrong option, data without pictures, a tensor where a number is due."""
    with pytest.raises(ElbowroomError, match="cannot be made"):
        measured(TorchMetrics(VARIATION, {"reduction": "median"}))
    with pytest.raises(ElbowroomError, match="not a number"):
        measured(TorchMetrics(VARIATION, {"reduction": "none"}))
    text = type("Text", (Pictures,), {"spec": Pictures(classes=None).spec.__class__((6,), 5)})
    with pytest.raises(IncompatibleError, match=r"shape \(6,\)"):
        TorchMetrics(VARIATION).prepare(Subject(text()))
