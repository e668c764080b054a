"""Weightings that learn inside others: trained, adapted, saved and certified with them."""

from __future__ import annotations

import attrs
import pytest
from elbowroom import IncompatibleError, Weighting
from elbowroom.config.explain import explain_config
from elbowroom.config.sections import load_config
from elbowroom.contracts.weighting import check_submodules
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.compare.loss_curves import weighting_of
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.masking import Cosine
from elbowroom.plugins.training.run import train
from elbowroom.plugins.weightings.balanced import Balanced
from elbowroom.plugins.weightings.isotonic import Isotonic
from elbowroom.plugins.weightings.paper import Elbo, Sigmoid
from elbowroom.plugins.weightings.uncertainty import Uncertainty
from elbowroom.runs.folder import RunFolder

from tests.helpers.tiny_run import same, tiny_config, trained_and_cut

NESTED = {
    "positions of uncertainty": (
        {"name": "positions", "of": "uncertainty", "weights": [1]},
        {"weighting.of.u"},
    ),
    "positions of balanced": (
        {"name": "positions", "of": "balanced", "weights": [1]},
        {"weighting.of.sums"},
    ),
    "uncertainty of balanced": (
        {"name": "uncertainty", "of": "balanced"},
        {"weighting.u", "weighting.of.sums"},
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_what_is_learned_inside_is_learned_saved_and_resumed(tmp_path, name):
    """Every state inside moves in training, is in checkpoints, and a stop leaves no trace."""
    weighting, states = NESTED[name]
    config = load_config(tiny_config(steps=9, save_every=4, log_every=7), {"weighting": weighting})
    last, resumed = trained_and_cut(config, tmp_path)
    assert same(last, resumed)
    saved = last.read("model")
    assert all(saved[state].abs().sum() > 0 for state in states)


def test_every_logged_step_of_a_trained_weighting_has_its_certificate(tmp_path):
    """The log has no certificate of a fixed weighting."""
    for weighting, certified in (({"name": "uncertainty"}, True), ({"name": "sigmoid"}, False)):
        config = load_config(
            tiny_config(steps=9, save_every=4, log_every=7, keep=9), {"weighting": weighting}
        )
        folder = tmp_path / weighting["name"]
        train(config, folder, without={"console", "tensorboard"})
        logged = [row for row in RunFolder(folder).rows() if "loss" in row]
        assert [row["step"] for row in logged] == [7, 9]
        for row in logged:
            assert (row.keys() >= {"is_bound", "negative_share"}) == certified


@attrs.frozen(eq=False)
class Halved(Weighting):
    """A stranger's weighting, made from another and no module."""

    of: Weighting

    def __call__(self, level):
        return self.of(level) / 2


@pytest.mark.parametrize(
    "weighting",
    [
        Isotonic(Balanced()),
        Halved(Uncertainty()),
        Halved(Halved(Balanced())),
        Uncertainty(of=Halved(Balanced())),
        Uncertainty(of=Isotonic(Uncertainty())),
    ],
    ids=["repair", "wrapper", "twice", "inside a module", "repair inside"],
)
def test_what_could_not_learn_is_refused(weighting):
    """Nothing is trained in silence for nothing."""
    with pytest.raises(IncompatibleError, match="changes with training, and does not follow it"):
        check_submodules(weighting.prepare(Cosine(), Masked()))


def test_wrappers_of_what_does_not_learn_are_no_matter():
    """A wrapper need not be a module for that."""
    for weighting in (Halved(Sigmoid()), Isotonic(Sigmoid()), Uncertainty(of=Halved(Elbo()))):
        check_submodules(weighting.prepare(Cosine(), Masked()))


class Several(Weighting):
    """A stranger's, with others in a list, and itself among its attributes."""

    def __init__(self, *parts: Weighting) -> None:
        self.parts, self.me = list(parts), self

    def __call__(self, level):
        return self.parts[0](level)

    def prepare(self, schedule, process, steps=None):
        """What follows its parts: a module of them, where there is but one."""
        return self.parts[0] if len(self.parts) == 1 else self


def test_lists_are_looked_into_and_what_is_used_counts():
    """Not the form before it is prepared, which may keep nothing."""
    with pytest.raises(IncompatibleError, match="Several is made from Balanced"):
        check_submodules(Several(Elbo(), Balanced()).prepare(Cosine(), Masked()))
    check_submodules(Several(Elbo(), Sigmoid()).prepare(Cosine(), Masked()))
    check_submodules(Several(Balanced()).prepare(Cosine(), Masked()))


def test_training_refuses_before_anything_is_written(tmp_path):
    config = load_config(tiny_config(), {"weighting": {"name": "isotonic", "of": "balanced"}})
    with pytest.raises(IncompatibleError, match="IsotonicRamps is made from Balanced"):
        train(config, tmp_path / "run", without={"console", "tensorboard"})
    assert not (tmp_path / "run").exists()


def test_importance_sampling_beside_what_is_learned(tmp_path):
    """Its density is that of the beginning, and no step goes back through it."""
    options = {"weighting": "uncertainty", "objective": {"times": "importance"}}
    config = load_config(tiny_config(steps=3), options)
    assert train(config, tmp_path / "run", without={"console", "tensorboard"}).step == 3


def test_explain_says_what_is_learned():
    """And does not take what a weighting is before training for what it will be."""
    config = load_config(
        tiny_config(), {"weighting": "uncertainty", "objective": {"times": "adaptive"}}
    )
    explained = explain_config(config)
    assert explained.learning == ("weighting", "time_sampler")
    assert explained.record()["certificate"]["verdict"].startswith(
        "a bound as it is now, and changes with train"
    )
    plain = explain_config(tiny_config())
    assert plain.learning == () and plain.record()["certificate"]["verdict"].startswith("a bound: ")


@pytest.mark.parametrize(
    "options",
    [
        {"objective": {"times": {"name": "adaptive", "bins": 0}}},
        {"objective": {"times": {"name": "adaptive", "uniform": 2}}},
        {"objective": {"times": {"name": "adaptive", "memory": -1}}},
        {"weighting": {"name": "isotonic", "of": "balanced"}},
    ],
)
def test_explain_refuses_what_training_would(options):
    """An objective that cannot be trained is not explained."""
    with pytest.raises(ElbowroomError):
        explain_config(load_config(tiny_config(), options))


def test_a_comparison_judges_every_logged_moment(tmp_path):
    """The verdict is not that of the weighting before training."""
    weighting = {"name": "uncertainty", "of": "iddpm"}
    config = load_config(tiny_config(steps=9), {"weighting": weighting})
    train(config, tmp_path / "run", without={"console", "tensorboard"})
    run = RunFolder(tmp_path / "run")
    logged = [row["is_bound"] for row in run.rows() if "is_bound" in row]
    told = weighting_of(run.config(), [run])
    assert told.is_bound is False
    assert f"a bound at {int(sum(logged))} of {len(logged)} logged steps" in told.verdict
    assert sum(logged) < len(logged)
    assert weighting_of(tiny_config(), []).verdict.startswith("a bound: ")
