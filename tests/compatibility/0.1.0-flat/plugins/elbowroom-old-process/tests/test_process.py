"""What old-process promises."""

from elbowroom.conformance import check_process
from elbowroom.registry import registry

from elbowroom_old_process.process import OldProcess


def test_it_keeps_the_laws_of_a_process() -> None:
    """It passes elbowroom's conformance kit under its natural schedule."""
    check_process(OldProcess())


def test_it_keeps_them_under_another_schedule() -> None:
    """A process reads lambda, never t: any schedule serves it."""
    check_process(OldProcess(), registry().find("schedule", "linear").load()())
