"""Evaluating a model: measurements with their protocol, in constant memory, by any metric."""

from __future__ import annotations

import json
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
import torch
from elbowroom import Dataset, Metric
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.errors import ConfigError, ElbowroomError, IncompatibleError, PluginError
from elbowroom.plugins.evaluation.evaluation import evaluate
from elbowroom.plugins.evaluation.measuring import labels_as_in_data
from elbowroom.plugins.evaluation.metric import EVALUATION_BATCH, Measurement
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol, usual_metrics
from elbowroom.plugins.evaluation.run import evaluate_run, evaluation_folder, read_evaluation
from elbowroom.plugins.sampling.drawing import draw
from elbowroom.plugins.sampling.filmstrip import Filmstrip
from elbowroom.plugins.sampling.picture import pixels
from elbowroom.plugins.training.run import train
from elbowroom.registry.component import Component, Owner
from elbowroom.runs.load import load_run
from PIL import Image

from tests.helpers.command import elbowroom
from tests.helpers.pictures import Rows
from tests.helpers.tiny_run import tiny_config

HERE = __name__


@attrs.define(eq=False)
class Watcher(Metric):
    """Notes what it is shown."""

    offset: float = 0.0
    features: str = "none"
    seen: list = attrs.field(init=False, factory=list)
    subject: object = attrs.field(init=False, default=None)

    def prepare(self, subject):
        self.subject = subject

    def update(self, samples, labels):
        self.seen.append((samples.clone(), labels.clone()))

    def compute(self):
        x = torch.cat([part for part, _ in self.seen]).double()
        return {
            "mean": Measurement(float(x.mean()) + self.offset, 0.5, "lower", 2.0, {"of": "pixels"})
        }


class Plain(Metric):
    """BoundEstimator at the model alone and says a plain number."""

    uses_samples = False

    def compute(self):
        return {"one": 1.0}


class Choosy(Metric):
    def prepare(self, subject):
        raise IncompatibleError("choosy: nothing is good enough")

    def compute(self):
        return {}


class SameName(Plain):
    def compute(self):
        return {"mean": 3.0}


class Fails(Metric):
    """Fails where it is told to."""

    def __init__(self, at: str = "compute") -> None:
        self.at = at

    def _fail(self, place):
        if place == self.at:
            raise ZeroDivisionError("by nought")

    def prepare(self, subject):
        self._fail("prepare")

    def update(self, samples, labels):
        self._fail("update")

    def compute(self):
        self._fail("compute")
        return {"never": 1.0}


def model_of(process="masked"):
    parts = build_parts(tiny_config(process))
    return build_model(parts), parts.data


def protocol(*metrics, **options):
    return EvaluationProtocol(metrics=metrics, **{"samples": 10, **options})


@pytest.mark.parametrize("process", ["masked", "gaussian"])
def test_every_measurement_says_what_it_is_of(process):
    """The metric's own words, and those common to all: samples, sampler, seed, model."""
    model, data = model_of(process)
    found = evaluate(
        model, data, protocol(f"{HERE}:Watcher", f"{HERE}:Plain", seed=3), of={"run": "r"}
    )
    measurement = found.measurements["mean"]
    assert measurement.of == {
        "metric": f"{HERE}:Watcher",
        "of": "pixels",
        "run": "r",
        "samples": 10,
        "sampler": "ancestral, 4 steps",
        "labels": "as often as in test",
        "seed": 3,
    }
    assert (measurement.standard_error, measurement.better, measurement.floor) == (
        0.5,
        "lower",
        2.0,
    )
    assert found.measurements["one"] == Measurement(
        1.0, of={"metric": f"{HERE}:Plain", "run": "r", "seed": 3}, heading="one"
    )


def test_the_chunks_change_nothing():
    """Samples are keyed by their number: drawn 3 or 10 at a time they are the same."""
    model, data = model_of()
    measurements = [
        evaluate(model, data, protocol(f"{HERE}:Watcher"), batch_size=size)
        .measurements["mean"]
        .value
        for size in (3, 10)
    ]
    assert measurements[0] == measurements[1]


class Skewed(Dataset):
    """Nine in ten test examples are of class 3, sorted by class; train is balanced."""

    def __init__(self, data):
        self._data = data

    @property
    def spec(self):
        return self._data.spec

    def split(self, name):
        if name != "test":
            return self._data.split(name)
        y = torch.where(torch.arange(200) < 20, 1, 3)
        return Rows(torch.zeros(200, *self.spec.shape, dtype=torch.int64), y)


def test_samples_have_labels_as_frequent_as_the_test_split():
    """Not every class equally often: measurements compare with data as they are."""
    labels = labels_as_in_data(Skewed(model_of()[1]), 1000, seed=0, batch_size=64)
    counts = torch.bincount(labels, minlength=10).tolist()
    assert counts[3] == 1000 - counts[1] and abs(counts[3] - 900) < 4 * 9.5


def test_the_label_of_a_sample_does_not_depend_on_the_others():
    """It is keyed by the seed and the sample's number."""
    data = Skewed(model_of()[1])
    many = labels_as_in_data(data, 500, seed=4)
    assert torch.equal(labels_as_in_data(data, 100, seed=4, batch_size=7), many[:100])
    assert not torch.equal(labels_as_in_data(data, 500, seed=5), many)


def test_metrics_are_told_the_labels_that_were_drawn(monkeypatch):
    """Samples are drawn for them, in every chunk."""
    (model, data), seen = model_of(), []
    monkeypatch.setattr(Watcher, "update", lambda self, x, y: seen.append(y))
    monkeypatch.setattr(Watcher, "compute", lambda self: {})
    evaluate(model, Skewed(data), protocol(f"{HERE}:Watcher", samples=30), batch_size=8)
    assert torch.equal(torch.cat(seen), labels_as_in_data(Skewed(data), 30, seed=0))


def test_samples_come_in_chunks_of_the_batch_size(monkeypatch):
    """No metric ever sees more at once, however many there are."""
    model, data = model_of()
    sizes = []
    monkeypatch.setattr(Watcher, "update", lambda self, x, y: sizes.append((len(x), len(y))))
    monkeypatch.setattr(Watcher, "compute", lambda self: {})
    evaluate(model, data, protocol(f"{HERE}:Watcher", samples=11), batch_size=4)
    assert sizes == [(4, 4), (4, 4), (3, 3)]


def test_a_metric_of_the_model_alone_draws_no_samples(monkeypatch):
    """Where nobody needs samples none are drawn."""
    model, data = model_of()
    monkeypatch.setattr(
        "elbowroom.plugins.evaluation.measuring.draw", lambda *_, **__: pytest.fail("drawn")
    )
    assert evaluate(model, data, protocol(f"{HERE}:Plain")).calls_mean is None


def test_a_metric_that_was_named_must_fit():
    """What was asked for and cannot be done is an error."""
    model, data = model_of()
    with pytest.raises(IncompatibleError, match="nothing is good enough"):
        evaluate(model, data, protocol(f"{HERE}:Choosy"))


def test_a_usual_metric_that_does_not_fit_is_left_out_with_its_reason(monkeypatch):
    """The others are measured all the same."""
    model, data = model_of()
    usual = [f"{HERE}:Choosy", f"{HERE}:Plain"]
    monkeypatch.setattr("elbowroom.plugins.evaluation.protocol.usual_metrics", lambda: usual)
    found = evaluate(model, data, protocol())
    assert found.skipped == {f"{HERE}:Choosy": "choosy: nothing is good enough"}
    assert set(found.measurements) == {"one"}


def test_what_is_usual_is_for_the_metrics_to_say(monkeypatch):
    """In their own order; not what derives from one, nor what cannot be loaded."""
    of_tables = ["table-controls", "c2st", "utility", "nearest"]
    found = usual_metrics()
    assert [name for name in found if name not in of_tables] == [
        "bpd",
        "fid",
        "kid",
        "is",
        "neighbours",
    ]
    assert [name for name in found if name in of_tables] == of_tables

    class First(Plain):
        usual = 1

    class Derived(First):
        pass

    class Late(Plain):
        usual = 99

    targets = {"late": Late, "derived": Derived, "gone": "nowhere:Gone", "one": First}
    table = {name: Component("metric", name, Owner("d", "1"), at) for name, at in targets.items()}
    registry = SimpleNamespace(components=lambda kind: table)
    monkeypatch.setattr("elbowroom.plugins.evaluation.protocol.installed", lambda: registry)
    assert usual_metrics() == ["one", "late"]


def test_two_metrics_cannot_say_the_same():
    """A measurement has one meaning; and a metric is named once."""
    model, data = model_of()
    found = evaluate(model, data, protocol(f"{HERE}:Watcher", f"{HERE}:SameName"))
    assert found.measurements["mean"].of["metric"] == f"{HERE}:Watcher"
    assert found.failed == {
        f"{HERE}:SameName": "its measurement 'mean' has the name of another metric's"
    }
    with pytest.raises(ElbowroomError, match="twice"):
        protocol(f"{HERE}:Plain", f"{HERE}:Plain").build()


@pytest.mark.parametrize("at", ["prepare", "update", "compute"])
def test_a_metric_that_fails_loses_nothing_of_the_others(at):
    """Wherever it fails: its failure stands in its place, with the line it comes from."""
    model, data = model_of()
    asked = protocol(f"{{name: '{HERE}:Fails', at: {at}}}", f"{HERE}:Watcher", f"{HERE}:Plain")
    found = evaluate(model, data, asked)
    assert found.measurements.keys() == {"mean", "one"}
    (why,) = found.failed.values()
    assert why.startswith("ZeroDivisionError: by nought (") and "test_evaluate.py, line" in why
    assert found.record()["failed"] == found.failed


def test_a_failed_metric_ends_the_command_with_1_after_the_rest_is_written(run, tmp_path):
    """The table and the file have both, the measurements and the failure."""
    asked = ("--metric", f"{HERE}:Plain", "--metric", f"{HERE}:Fails", "--samples", 4)
    ended = elbowroom("evaluate", run, *asked, "--out", tmp_path / "found")
    assert ended.code == 1
    assert "by nought" in ended.out and "one" in ended.out
    heading = next(line for line in ended.out.splitlines() if "real data" in line)
    told = next(line for line in ended.out.splitlines() if "ZeroDivisionError" in line)
    assert told.index("ZeroDivisionError") == heading.index(" of ") + 1  # in the last column
    record = read_evaluation(tmp_path / "found")
    assert record["figures"].keys() == {"one"} and record["failed"].keys() == {f"{HERE}:Fails"}


def test_metrics_take_options_and_the_common_feature_network():
    """A SPEC may have options; ``features`` goes to those that know it and do not say their own."""
    own = {"name": f"{HERE}:Watcher", "features": "mine"}
    given = f"{{name: '{HERE}:Watcher', offset: 1.5}}"
    (one,) = protocol(given, features="theirs").build().values()
    (other,) = protocol(own, features="theirs").build().values()
    (plain,) = protocol(f"{HERE}:Plain", features="theirs").build().values()
    assert (one.offset, one.features, other.features) == (1.5, "theirs", "mine")
    assert isinstance(plain, Plain)


def test_an_unknown_metric_lists_the_known_ones():
    """A wrong name is the user's to mend."""
    with pytest.raises((ConfigError, PluginError), match="did you mean 'fid'"):
        protocol("fidd").build()


def test_the_model_is_left_as_it_was():
    """Dropout is off while measuring, and back afterwards."""
    model, data = model_of()
    model.train()
    evaluate(model, data, protocol(f"{HERE}:Watcher", samples=4))
    assert model.training


# -- a run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate") / "run"
    train(tiny_config(steps=4, evaluate_every=2), folder)
    return folder


def test_a_run_is_evaluated_into_its_folder(run):
    """figures.json has all of it; the pictures are there and fit what it says of them."""
    report = evaluate_run(run, (), protocol("bpd", "neighbours", samples=20))
    assert report.folder == evaluation_folder(run) == run / "evaluation"
    record = read_evaluation(report.folder)
    assert record["figures"]["bits_per_dim"]["of"]["weights"].startswith("EMA at step")
    assert record["protocol"]["samples"] == 20 and record["parameters"] > 1000
    size = record["reverse"]
    with Image.open(report.folder / "reverse.png") as strip:
        assert strip.size == (size["width"] * size["frames"], size["height"])
    with Image.open(report.folder / "samples.png") as grid:
        assert grid.size == (size["width"], size["height"])
    assert 2 <= size["frames"] <= 33 and len(size["steps"]) == size["frames"]


def test_the_pictures_show_every_class_in_turn(run):
    """They are the first samples that ``sample`` draws, whatever labels the measurements are of."""
    report = evaluate_run(run, (), protocol("neighbours", samples=4, seed=2))
    model, shown = load_run(run).model, Filmstrip(load_run(run).model.process)
    x = torch.cat([chunk.x for chunk in draw(model, shown.count, None, 2, 3)])
    with Image.open(report.folder / "samples.png") as grid:
        seen = torch.from_numpy(np.array(grid.convert("RGB")))
    painted = pixels(x, model.process.data.levels)
    assert torch.equal(seen, shown.side_by_side(painted))


def test_the_averaged_weights_are_evaluated(run, monkeypatch):
    """EMA weights of the checkpoint that was chosen, and no others."""
    asked = []
    from elbowroom.runs.load import load_run

    def spy(*arguments, **options):
        loaded = load_run(*arguments, **options)
        asked.append(loaded)
        return loaded

    monkeypatch.setattr("elbowroom.plugins.evaluation.run.load_run", spy)
    evaluate_run(run, (), protocol("bpd", checkpoint="last"))
    (loaded,) = asked
    ema = loaded.checkpoint.read("ema")
    assert loaded.checkpoint.step == 4
    name, weight = next(iter(loaded.model.named_parameters()))
    assert torch.equal(weight, ema[name])


def test_overrides_have_a_folder_of_their_own(run):
    """Another sampler does not overwrite the evaluation of the run itself."""
    report = evaluate_run(run, ("sampler.steps=2",), protocol("neighbours"))
    assert report.folder != run / "evaluation"
    assert report.measurements["neighbours_mean"]["of"]["sampler"] == "ancestral, 2 steps"
    assert report.record["overrides"] == ["sampler.steps=2"]


def test_what_was_not_written_whole_is_not_read(tmp_path):
    """Half a file, or one of another format, is no evaluation."""
    assert read_evaluation(tmp_path) is None
    (tmp_path / "figures.json").write_text('{"format": 1, "fig')
    assert read_evaluation(tmp_path) is None
    (tmp_path / "figures.json").write_text('{"format": 99}')
    assert read_evaluation(tmp_path) is None


# -- on the command line


def test_the_command_prints_measurements_and_their_protocol(run, tmp_path):
    """A table for people: value, error, what real data gets, what it is of."""
    ran = elbowroom(
        "evaluate", run, "--metric", "bpd", "--metric", "neighbours", "--samples", 12,
        "--out", tmp_path,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    for words in (
        "bits/dim: prior, ",
        "test examples",
        "draws",
        "real data",
        "log₂ 5",
        "12 samples of",
    ):
        assert words in ran.out
    told = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert told["bits_per_dim"]["of"]["given"] == "the label"
    assert "given the label" in " ".join(ran.out.replace("│", " ").split())
    assert " steps, labels as often as in test\n" in ran.out  # once, below the table
    assert ran.out.count("ancestral") == 1
    assert (tmp_path / "figures.json").exists()


def test_the_command_speaks_json(run, tmp_path):
    """The same for programs."""
    ran = elbowroom(
        "evaluate", run, "sampler.steps=3", "--metric", "neighbours", "--samples", 5,
        "--seed", 7, "--out", tmp_path, "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.json["figures"]["neighbours_mean"]["of"]["seed"] == 7
    assert ran.json == {
        "folder": str(tmp_path),
        **json.loads((tmp_path / "figures.json").read_text()),
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "not a run"),
        (("RUN", "--metric", "fidd"), "fidd"),
        (("RUN", "--checkpoint", "999"), "no checkpoint"),
        (("RUN", "--metric", "fid", "--features", "resnet"), "inception"),
        (("RUN", "sampler.stepps=3"), "stepps"),
    ],
)
def test_mistakes_are_told_in_a_sentence(run, arguments, words):
    """Exit code 2, no traceback."""
    ran = elbowroom("evaluate", *(run if word == "RUN" else word for word in arguments))
    assert ran.code == 2 and words in ran.err and "Traceback" not in ran.err


def test_the_help_states_the_batch_size_there_is():
    """Written out there, since asking would cost an import at every start of the command."""
    words = " ".join(elbowroom("evaluate", "--help").out.replace("│", " ").split())
    assert f"Samples per batch. Default: {EVALUATION_BATCH}." in words
