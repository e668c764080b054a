"""Frontiers: what no other does as well for less, and plots of it."""

from __future__ import annotations

from xml.etree import ElementTree

import attrs
import elbowroom
import pytest
from elbowroom.plugins.compare.frontier_plots import draw, write_frontiers
from elbowroom.plugins.compare.frontiers import (
    COMPUTE,
    frontiers,
    pareto,
    step_operations,
)
from elbowroom.plugins.compare.operations import step_flops
from elbowroom.plugins.compare.report import page
from hypothesis import given, strategies as st

from tests.helpers.reporting import NASTY, changed, results
from tests.helpers.tiny_run import tiny_config

SPOTS = st.lists(st.tuples(st.integers(0, 9), st.integers(-5, 5)), max_size=25)


def dominates(one, other, better):
    """As good for less, or better for as little."""
    sign = 1 if better == "lower" else -1
    no_worse = one[0] <= other[0] and sign * one[1] <= sign * other[1]
    return no_worse and one != other


@given(SPOTS, st.sampled_from(["lower", "higher"]))
def test_the_frontier_is_what_nothing_dominates(spots, better):
    """All of it and nothing else, by rising cost; the rest is dominated by what is on it."""
    found = pareto(spots, better)
    free = [k for k, one in enumerate(spots) if not any(dominates(o, one, better) for o in spots)]
    assert sorted(found) == free
    costs = [spots[k][0] for k in found]
    assert costs == sorted(costs)
    for k in set(range(len(spots))) - set(found):
        assert any(dominates(spots[j], spots[k], better) for j in found)


@given(SPOTS)
def test_the_frontier_does_not_depend_on_units(spots):
    """Any rising function of cost or value, and a change of sign with the way, keep it."""
    same = [(2.0**cost, value**3 + value) for cost, value in spots]
    turned = [(cost, -value) for cost, value in spots]
    assert pareto(spots, "lower") == pareto(same, "lower") == pareto(turned, "higher")


def compared(folder, calls=(16.0, 64.0, 16.0, 64.0), key="sampler.steps", **options):
    """Two processes with two numbers of steps each."""
    made = results(folder, ("a16", "a64", "b16", "b64"), **options)
    made.vary = {"process": ["a", "b"], key: ["16", "64"]}
    for model, used in zip(made.models, calls, strict=True):
        label = model.label
        model.values = {"process": label[0], key: label[1:]}
        model.budget["network calls per sample"] = used
        of = dict(model.measurements["bits_per_dim"].of)
        del of["samples"]  # which no sampler changes
        changed(model, "bits_per_dim", of=of)
    return made


def test_samples_are_weighed_against_network_calls(tmp_path):
    """A line for each model along its steps; bits/dim, which need no samples, have no panel."""
    (found,) = frontiers(compared(tmp_path))
    assert found.cost == "calls"
    assert [panel.measurement for panel in found.panels] == ["fid_train", "is"]
    fid = found.panels[0]
    assert [(line.label, len(line.points)) for line in fid.lines] == [("a", 2), ("b", 2)]
    # FID falls from model to model: of 16 calls b is best, of 64 b again
    assert [spot.label for spot in fid.frontier] == ["b16", "b64"]


def test_a_comparison_of_other_things_has_no_frontier(tmp_path):
    """That two processes differ a little in calls is no question of samplers."""
    assert frontiers(compared(tmp_path, key="weighting")) == []
    assert frontiers(compared(tmp_path / "same", calls=(16.0,) * 4)) == []


def test_training_compute_is_steps_times_operations(tmp_path):
    """Milestones are points on the way; without them each model is one."""
    made = compared(tmp_path, key="train.steps")
    for k, model in enumerate(made.models):
        model.step_flops, model.budget["training steps"] = 10.0, (16, 64)[k % 2]
    (found,) = frontiers(made)
    bits = found.panels[0]
    assert found.cost == "compute" and bits.measurement == "bits_per_dim"
    assert [spot.cost for spot in bits.lines[0].points] == [160.0, 640.0]
    first = made.models[0]
    bits = first.measurements["bits_per_dim"]
    first.milestones = {"bits_per_dim": {8: bits, 16: bits}}
    spots = frontiers(made)[0].panels[0].lines[0].points
    assert [spot.cost for spot in spots] == [80.0, 160.0, 640.0]


def test_what_is_vacuous_is_on_no_frontier(tmp_path):
    """It is drawn, and to be better than it is no merit."""
    made = compared(tmp_path)
    for model in made.models[2:]:
        changed(model, "fid_train", vacuous=True)
    fid = frontiers(made)[0].panels[0]
    assert {spot.label for spot in fid.frontier} == {"a16", "a64"}
    assert [spot.vacuous for spot in fid.lines[1].points] == [True, True]


def test_operations_are_counted_where_training_differs():
    """By milestones, or by what is varied; what cannot be counted has none."""
    plain, judged = tiny_config(), tiny_config(milestones=[4])
    assert step_operations(["weighting", "sampler.steps"], [plain, None]) == [None, None]
    other = elbowroom.load_config(judged, ("sampler.steps=9",))
    without = attrs.evolve(judged, denoiser=None)
    due = step_flops(judged)
    assert step_operations([], [judged, other, without, None]) == [due, due, None, None]
    assert step_operations(["train.steps"], [plain]) == [due]
    assert COMPUTE.is_varied(["denoiser.width"]) and not COMPUTE.is_varied(["denoisers"])


# -- plots


def test_plots_are_files_and_names_in_them_are_text(tmp_path):
    """A name is shown as it is, whatever TeX or XML would make of it."""
    made = compared(tmp_path, seeds=2)
    name = f"_$x^2$ {NASTY}"
    for model in made.models:
        model.values["process"] = name + model.values["process"]
    paths = write_frontiers(made)
    assert list(paths) == ["frontier-calls.svg"]
    texts = [
        "".join(node.itertext()).strip()
        for node in ElementTree.parse(paths["frontier-calls.svg"]).iter()
    ]
    assert {name + "a", name + "b", "frontier", "network calls per sample"} <= set(texts)


def test_the_same_results_give_the_same_plot(tmp_path):
    """No date, no random names: files can be kept under version control."""
    (one,) = frontiers(compared(tmp_path))
    assert draw(one) == draw(one)


@pytest.mark.parametrize("known", [True, False])
def test_the_report_shows_the_plots_that_are_there(tmp_path, known):
    """Inside the page, and no empty section where there are none."""
    made = compared(tmp_path)
    if known:
        write_frontiers(made)
    text = page(made)
    assert ('id="frontiers"' in text) == known
    assert ('src="data:image/svg+xml;base64,' in text) == known
