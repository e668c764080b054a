"""Weightings that learn inside others: trained, adapted, saved and certified with them."""

from __future__ import annotations

import attrs
import elbowroom as er
import pytest
import torch
from elbowroom import IncompatibleError, Level, Weighting
from elbowroom.config.explain import explain_config
from elbowroom.config.sections import load_config
from elbowroom.conformance import check_weighting
from elbowroom.contracts.weighting import check_within_reach
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.compare.loss_curves import weighting_of
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.masking import Cosine
from elbowroom.plugins.weightings.balanced import Balanced
from elbowroom.plugins.weightings.isotonic import Isotonic
from elbowroom.plugins.weightings.moving import Moving
from elbowroom.plugins.weightings.paper import Elbo, Sigmoid
from elbowroom.plugins.weightings.positions import Positions
from elbowroom.plugins.weightings.uncertainty import Uncertainty
from elbowroom.runs.checkpoint import CheckpointError, load_weights
from elbowroom.runs.folder import RunFolder
from elbowroom.training.run import train

from tests.helpers.tiny_run import found, same, tiny_config, trained_and_cut

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
    "moving from balanced to uncertainty": (
        {"name": "moving", "begin": "balanced", "end": "uncertainty", "over": 4},
        {"weighting.updates", "weighting.begin.sums", "weighting.end.u"},
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


def test_every_checkpoint_is_certified(tmp_path):
    """Also one between two lines of the log; of a weighting that stays as it is nothing is said."""
    for weighting, certified in (({"name": "uncertainty"}, True), ({"name": "sigmoid"}, False)):
        config = load_config(
            tiny_config(steps=9, save_every=4, log_every=7, keep=9), {"weighting": weighting}
        )
        folder = tmp_path / weighting["name"]
        train(config, folder, without={"console", "tensorboard"})
        states = [checkpoint.state for checkpoint in found(folder)]
        assert [state.step for state in states] == [4, 8, 9]
        for state in states:
            assert (state.certificate is not None) == certified
            if state.certificate:
                assert set(state.certificate) == {"is_bound", "negative_share"}


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
        Moving(begin=Isotonic(Uncertainty()), end=Elbo(), over=3),
    ],
    ids=["repair", "wrapper", "twice", "inside a module", "repair in moving"],
)
def test_what_could_not_learn_is_refused(weighting):
    """Nothing is trained in silence for nothing."""
    with pytest.raises(IncompatibleError, match="changes with training, and does not follow it"):
        check_within_reach(weighting.prepared(Cosine(), Masked()))


def test_wrappers_of_what_does_not_learn_are_no_matter():
    """A wrapper need not be a module for that."""
    for weighting in (Halved(Sigmoid()), Isotonic(Sigmoid()), Uncertainty(of=Halved(Elbo()))):
        check_within_reach(weighting.prepared(Cosine(), Masked()))


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
        check_within_reach(Several(Elbo(), Balanced()).prepared(Cosine(), Masked()))
    check_within_reach(Several(Elbo(), Sigmoid()).prepared(Cosine(), Masked()))
    check_within_reach(Several(Balanced()).prepared(Cosine(), Masked()))


def test_training_refuses_before_anything_is_written(tmp_path):
    config = load_config(tiny_config(), {"weighting": {"name": "isotonic", "of": "balanced"}})
    with pytest.raises(IncompatibleError, match="IsotonicRamps is made from Balanced"):
        train(config, tmp_path / "run", without={"console", "tensorboard"})
    assert not (tmp_path / "run").exists()


def test_runs_from_before_what_is_learned_inside_was_kept_can_be_sampled(tmp_path):
    """A checkpoint without it: nothing but training asks for it."""
    weighting = NESTED["positions of uncertainty"][0]
    train(
        load_config(tiny_config(steps=2), {"weighting": weighting}),
        tmp_path / "run",
        without={"console", "tensorboard"},
    )
    model, last = er.load(tmp_path / "run"), found(tmp_path / "run")[-1]
    kept = {n: t for n, t in last.read("ema").items() if not n.startswith("weighting.")}
    assert len(kept) < len(last.read("ema"))

    class Older:
        path = last.path

        def read(self, part):
            return kept

    load_weights(model, Older())
    kept.pop(next(name for name in kept if name.startswith("denoiser.")))
    with pytest.raises(CheckpointError, match=r"lacks denoiser\."):
        load_weights(model, Older())


def test_moving_conforms_with_parts_that_learn():
    check_weighting(Moving(begin=Balanced(), end=Uncertainty(), over=20))


def test_moving_has_the_penalty_of_its_parts_at_their_scale():
    """A part's weight and penalty are multiplied by the same, so what it learns is the same."""
    process, schedule = Masked(), Cosine()
    part = Uncertainty(of=Sigmoid())
    with torch.no_grad():
        part.u.uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
    level = Level.of(torch.linspace(0.05, 0.95, 9).double(), schedule, process)
    for begin, end, updates in ((part, Elbo(), 0), (Elbo(), part, 5), (part, part, 2)):
        moving = Moving(begin=begin, end=end, over=5).prepared(schedule, process)
        moving.updates.fill_(updates)
        ratio = moving(level) / part(level)
        torch.testing.assert_close(moving.penalty(level), ratio * part.penalty(level))
    assert Moving(begin=Elbo(), end=Elbo(), over=5).penalty(level) == 0


def test_moving_weighs_positions_as_its_parts_do():
    """Both the same, or it is refused with the way out."""
    inner = Positions(of=Elbo(), weights=(1, 3))
    same_, other = Positions(of=Sigmoid(), weights=(2, 6)), Sigmoid()
    found = Moving(begin=inner, end=same_, over=2).over_positions((5, 2))
    torch.testing.assert_close(found, torch.tensor([0.5, 1.5]).double())
    assert Moving(begin=other, end=other, over=2).over_positions((5, 2)) is None
    with pytest.raises(IncompatibleError, match=r"of: \{name: moving"):
        Moving(begin=inner, end=other, over=2).over_positions((5, 2))


@pytest.mark.parametrize(
    "options",
    [
        {"weighting": "uncertainty"},
        {"process": "gaussian", "schedule": {"name": "learned", "of": "vp-cosine"}},
    ],
    ids=["weighting", "schedule"],
)
def test_importance_sampling_beside_what_is_learned(tmp_path, options):
    """Its density is that of the beginning, and no step goes back through it."""
    times = {"objective": {"times": "importance"}}
    config = load_config(tiny_config(steps=3), {"weighting": "sigmoid"} | options | times)
    assert train(config, tmp_path / "run", without={"console", "tensorboard"}).step == 3


def test_explain_says_what_is_learned():
    """And does not take what a weighting is before training for what it will be."""
    config = load_config(
        tiny_config(), {"weighting": "uncertainty", "objective": {"times": "adaptive"}}
    )
    explained = explain_config(config)
    assert explained.learning == ("weighting", "time_sampler")
    assert explained.certificate.verdict.startswith("a bound as it is now, and changes with train")
    plain = explain_config(tiny_config())
    assert plain.learning == () and plain.certificate.verdict.startswith("a bound: ")


@pytest.mark.parametrize(
    "options",
    [
        {"objective": {"times": {"name": "adaptive", "bins": 0}}},
        {"objective": {"times": {"name": "adaptive", "uniform": 2}}},
        {"objective": {"times": {"name": "adaptive", "memory": -1}}},
        {"schedule": {"name": "learned", "of": "cosine"}},
        {"weighting": {"name": "isotonic", "of": "balanced"}},
    ],
)
def test_explain_refuses_what_training_would(options):
    """An objective that cannot be trained is not explained."""
    with pytest.raises(ElbowroomError):
        explain_config(load_config(tiny_config(), options))


def test_a_comparison_judges_every_logged_moment(tmp_path):
    """The verdict is not that of the weighting before training."""
    moving = {"name": "moving", "begin": "iddpm", "end": "sigmoid", "over": 6}
    config = load_config(tiny_config(steps=9), {"weighting": moving})
    train(config, tmp_path / "run", without={"console", "tensorboard"})
    run = RunFolder(tmp_path / "run")
    logged = [row["is_bound"] for row in run.rows() if "is_bound" in row]
    told = weighting_of(run.config(), [run])
    assert told["is_bound"] is False
    assert f"one at {int(sum(logged))} of the {len(logged)} moments" in told["verdict"]
    assert 0 < sum(logged) < len(logged)
    assert weighting_of(tiny_config(), [])["verdict"].startswith("a bound: ")
