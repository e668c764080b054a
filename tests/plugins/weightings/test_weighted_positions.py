"""Weights of positions: what they multiply, what they leave alone, what is certified."""

from __future__ import annotations

import pytest
import torch
from elbowroom import DataSpec, IncompatibleError, Noise
from elbowroom.objective.loss import Objective
from elbowroom.plugins.conformance import check_weighting
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.paper.certificate import certify
from elbowroom.plugins.schedules.masking import Cosine
from elbowroom.plugins.time_samplers.uniform import Stratified
from elbowroom.plugins.weightings.isotonic import Isotonic
from elbowroom.plugins.weightings.paper import IDDPM, Elbo, Sigmoid
from elbowroom.plugins.weightings.positions import Positions
from elbowroom.plugins.weightings.uncertainty import Uncertainty
from hypothesis import given, strategies as st

SPEC = DataSpec((5, 3), levels=4)
MASKED, GAUSSIAN = Masked().bind(SPEC), Gaussian(predict="v").bind(SPEC)
X = torch.arange(8 * 15).reshape(8, 5, 3) % 4
OF = Sigmoid()


def losses(weighting, process=MASKED, x=X):
    objective = Objective.prepared(process, Cosine(), weighting, Stratified())
    output = 0.1 * torch.arange(4.0) if process is MASKED else torch.tensor(0.3)

    def predict(z, level):
        wide = output.expand(*z.shape, 4) if process is MASKED else output.expand_as(z)
        return process.read(wide, z, level)

    return objective(predict, process.encode(x), Noise.of(0, len(x)))


def positions(*weights, of=OF):
    return Positions(of=of, weights=weights)


def test_conforms():
    check_weighting(positions(1.0))


@pytest.mark.parametrize("process", [MASKED, GAUSSIAN], ids=["masked", "gaussian"])
def test_the_parts_of_positions_add_up(process):
    """Even weights are the weighting itself; channel by channel the losses add up to it."""
    whole = losses(OF, process).per_example
    torch.testing.assert_close(losses(positions(2.0), process).per_example, whole)
    alone = [losses(positions(*row), process).per_example for row in torch.eye(3).tolist()]
    torch.testing.assert_close(sum(alone) / 3, whole)


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=3))
def test_the_loss_lies_between_what_the_certificate_says(weights):
    """The least and the most counting positions bound it by the loss of even ones, each example."""
    given, even = losses(positions(*weights)).per_example, losses(OF).per_example
    least, most = certify(positions(*weights), Cosine(), MASKED).positions
    assert (given >= least * even * (1 - 1e-5)).all()
    assert (given <= most * even * (1 + 1e-5)).all()


@pytest.mark.parametrize("process", [MASKED, GAUSSIAN], ids=["masked", "gaussian"])
def test_nested_weights_multiply(process):
    """Positions of positions have the product of both weights, in the loss and certified."""
    nested, once = positions(1, 2, 3, of=positions(2, 0.5, 0.5)), positions(4, 2, 3)
    due = losses(once, process).per_example
    torch.testing.assert_close(losses(nested, process).per_example, due)
    certified = [certify(one, Cosine(), MASKED).positions for one in (nested, once)]
    assert certified[0] == pytest.approx(certified[1])


def test_the_likelihood_is_reported_without_them():
    assert torch.equal(losses(positions(1, 2, 3)).elbo, losses(OF).elbo)


def test_the_certificate_says_what_it_can():
    """A bound by a factor; none where a position counts nothing."""
    seen = certify(positions(1, 2, 3), Cosine(), MASKED)
    assert seen.is_bound and "positions count 0.5 to 1.5" in seen.verdict
    none = certify(positions(0, 1, 1), Cosine(), MASKED)
    assert not none.is_bound and "some positions count nothing" in none.verdict
    assert certify(OF, Cosine(), MASKED).positions is None


@pytest.mark.parametrize("around", [Isotonic, lambda of: Uncertainty(of=of)])
def test_weightings_of_others_keep_them(around):
    """A repaired or a learned weighting weighs the positions of the one it is made of."""
    inner = positions(1, 2, 3, of=IDDPM())
    even, given = losses(around(IDDPM())).per_example, losses(around(inner)).per_example
    assert not torch.allclose(even, given)


def test_wrong_weights_are_refused():
    for wrong in ((), (1, -1), (0, 0), (float("nan"),), (float("inf"), 1)):
        with pytest.raises(ValueError, match="weights"):
            positions(*wrong)
    for call in (losses, lambda weighting: certify(weighting, Cosine(), MASKED)):
        with pytest.raises(IncompatibleError, match=r"shape \[2\].* has the shape \[5, 3\]"):
            call(Positions(of=Elbo(), weights=(1, 2)))
