"""What old-weighting promises."""

import pytest
import torch
from elbowroom import Level
from elbowroom.certificate import certify
from elbowroom.conformance import check_weighting
from elbowroom.registry import registry

from elbowroom_old_weighting.weighting import OldWeighting


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_it_keeps_the_laws_of_a_weighting(power: float) -> None:
    """It passes elbowroom's conformance kit for every power."""
    check_weighting(OldWeighting(power))


@pytest.mark.parametrize("name", ["gaussian", "masked"])
def test_the_objective_is_a_bound(name: str) -> None:
    """It never falls towards the noise, whatever the process."""
    process = registry().find("process", name).load()()
    schedule = registry().find("schedule", process.natural_schedule).load()()
    assert certify(OldWeighting(), schedule, process).is_bound


def test_the_value_is_that_of_the_formula() -> None:
    """At lambda = 0 half of the signal is left, so w is a half to the power."""
    process = registry().find("process", "masked").load()()
    level = Level.at(torch.zeros(1, dtype=torch.float64), process)
    assert float(OldWeighting(3.0)(level)) == pytest.approx(1 / 8)
