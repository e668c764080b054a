"""Names of classes belong to the data and go with it: labels, grids, reports, checkpoints."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest
import torch
from elbowroom import DataSpec, assemble, load, sample, train
from elbowroom.contracts.dataset import join_names
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.compare.point import Evaluated, Point
from elbowroom.plugins.compare.report.samples import samples
from elbowroom.plugins.compare.results import Model, Results
from elbowroom.plugins.datasets.cifar10 import Cifar10
from elbowroom.plugins.datasets.fashion_mnist import FashionMnist
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.evaluation.run import evaluate_run
from elbowroom.plugins.sampling.drawing import labels_of
from elbowroom.plugins.sampling.picture import pixels, tiled
from elbowroom.plugins.sampling.write import sample_run
from hypothesis import given, strategies as st
from PIL import Image

from tests.helpers.command import elbowroom

ANIMALS = DataSpec((4, 4, 1), 2, 4, ("cat", "dog", "10", "<b>owl</b>"))


def test_names_are_no_part_of_the_form():
    """A spec is what it was for all who do not ask: positions, equality, hash."""
    assert attrs.evolve(ANIMALS, names=None) == ANIMALS
    assert hash(DataSpec((4, 4, 1), 2, 4)) == hash(ANIMALS)
    assert DataSpec((4, 4, 1), 2, 4).names is None


@pytest.mark.parametrize(("classes", "names"), [(3, ("a", "b")), (None, ("a",)), (2, ("a", "a"))])
def test_every_class_has_a_name_of_its_own(classes, names):
    """Or none has one."""
    with pytest.raises(ValueError, match="names"):
        DataSpec((4,), 2, classes, names)


def test_what_is_written_down_is_read_again():
    """Through JSON."""
    again = DataSpec.recorded(json.loads(json.dumps(attrs.asdict(ANIMALS))))
    assert again == ANIMALS and again.names == ANIMALS.names


@given(st.lists(st.text(min_size=1), unique=True, min_size=1, max_size=8))
def test_a_name_means_its_label_and_a_number_too(names):
    """Whatever the names are; a name that is a number comes before the number."""
    spec = DataSpec((1,), 2, len(names), tuple(names))
    for label, name in enumerate(names):
        assert spec.label_of(name) == spec.label_of(label) == label
        assert spec.class_name(label) == name
        if str(label) not in names:
            assert spec.label_of(str(label)) == label


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("catt", "did you mean 'cat'"),
        ("owl", "did you mean '<b>owl</b>'"),
        ("zebra", "0 to 3, or their names: cat, dog, 10, <b>owl</b>"),
        ("7", "no class 7: .*0 to 3"),
        (4, "no class 4"),
        (-1, "no class -1"),
        (1.5, "no class 1.5"),
    ],
)
def test_unknown_classes_are_answered_with_near_ones(given, words):
    """A slip costs one look."""
    with pytest.raises(ElbowroomError, match=words):
        ANIMALS.label_of(given)


def test_long_lists_are_cut():
    """A thousand names are not printed."""
    assert join_names([str(k) for k in range(15)], 3) == "0, 1, 2 and 12 more"


def test_well_known_data_has_its_names():
    """In the order of their labels."""
    assert Cifar10().spec.names[3] == "cat" and len(Cifar10(size=8).spec.names) == 10
    assert FashionMnist().spec.names[9] == "Ankle boot"


def test_a_grid_has_captions_below_its_pictures():
    """Each picture keeps its place; what is too long is cut, and nothing breaks on odd names."""
    colours = pixels(torch.arange(4 * 64).reshape(4, 8, 8, 1) % 17, 17)
    plain = tiled(colours, 2)
    words = tiled(colours, 2, ["cat", "a very long name indeed", "\n", "猫"])
    assert words.shape[1] == plain.shape[1] and words.shape[0] > plain.shape[0]
    gap = 40 // 8 // 2
    assert words[gap : gap + 40, gap : gap + 40].equal(plain[gap : gap + 40, gap : gap + 40])
    below = words[gap + 40 : gap + 53]
    assert below.float().std() > 0  # something is written there


# -- a run on a folder


@pytest.fixture(scope="module")
def folder_run(tmp_path_factory):
    place = tmp_path_factory.mktemp("names")
    for k, name in enumerate(("10", "2", "cat")):
        (place / "data" / name).mkdir(parents=True)
        for i in range(8):
            shade = np.full((4, 4), 60 * k + i, np.uint8)
            Image.fromarray(shade).save(place / "data" / name / f"{i}.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELBOWROOM_CACHE", str(place / "cache"))
        config = {
            "data": {"name": "image-folder", "path": str(place / "data"), "channels": 1},
            "process": "masked",
            "weighting": "simple",
            "denoiser": {"name": "dit", "width": 8, "depth": 1},
            "sampler": {"name": "ancestral", "steps": 2},
            "train": {"steps": 2, "batch_size": 4, "evaluate_every": 2},
        }
        train(assemble(config), place / "run", without=["console"])
        evaluate_run(place / "run", protocol=EvaluationProtocol(metrics=("neighbours",), samples=8))
    return place


def test_a_class_is_drawn_by_its_name(folder_run):
    """From Python and from the command line, without the data at hand."""
    model = load(folder_run / "run")
    assert model.process.data.names == ("2", "10", "cat")
    assert labels_of(model, 3, ["cat", "10", 0]).tolist() == [2, 1, 0]
    by_name = sample(model, 4, labels="cat")
    assert by_name.x.equal(sample(model, 4, labels=2).x)
    assert by_name.labels.tolist() == [2] * 4
    done = elbowroom(
        "sample", folder_run / "run", "--class", "cat", "--count", "2", "--out", folder_run / "out"
    )
    assert done.code == 0, done.err
    with np.load(folder_run / "out" / "samples.npz") as drawn:
        assert drawn["labels"].tolist() == [2, 2]
        assert json.loads(str(drawn["about"]))["names"] == ["2", "10", "cat"]
    wrong = elbowroom("sample", folder_run / "run", "--class", "cta")
    assert wrong.code == 2 and "did you mean 'cat'" in wrong.err


def test_a_grid_of_samples_names_the_classes(folder_run):
    """A line of words more than the pictures alone."""
    report = sample_run(folder_run / "run", count=4, out=folder_run / "grid")
    with Image.open(report.paths["grid"]) as grid, Image.open(report.paths["animation"]) as film:
        assert grid.height > grid.width and film.height == film.width


def test_explain_lists_the_classes(folder_run, monkeypatch):
    """In words and as JSON."""
    monkeypatch.setenv("ELBOWROOM_CACHE", str(folder_run / "cache"))
    path = folder_run / "run" / "config.yaml"
    told = elbowroom("explain", path)
    assert "3 classes: 2, 10, cat" in told.out
    record = elbowroom("explain", path, "--json").json
    said = {"shape": [4, 4, 1], "levels": 256, "classes": 3, "names": ["2", "10", "cat"]}
    assert record["data"] == {**said, "tokens": None, "sizes": None, "parts": []}


def test_reports_name_the_classes_of_their_pictures(folder_run):
    """Below the grid and the way from noise."""
    measurements = json.loads((folder_run / "run" / "evaluation" / "figures.json").read_text())
    rows = measurements["reverse"]["classes"]
    assert {name for row in rows for name in row} <= {"2", "10", "cat"}
    assert rows[0][:4] == ["2", "10", "cat", "2"]
    run = folder_run / "run"
    point = Point("p", run, folder_run / "job", None, EvaluationProtocol(), status="finished")
    point.evaluated = Evaluated.of_record(measurements)
    model = Model("masked", {}, [point])
    shown = samples(Results("x", folder_run, {}, {}, [point], [model]))
    for card in (shown["grids"][0], shown["reels"][0]):
        assert card.columns == rows[0] or ", ".join(rows[0]) in card.classes
