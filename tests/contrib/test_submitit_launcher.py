"""The submitit launcher by submitit's local executor."""

from __future__ import annotations

import sys

import pytest
from elbowroom import ElbowroomError, Ended, Job
from elbowroom.contrib.submitit_launcher import Submitit
from elbowroom.plugins.conformance import check_launcher

try:
    import submitit
except ImportError:
    submitit = None

pytestmark = pytest.mark.extra
needs_submitit = pytest.mark.skipif(
    submitit is None, reason="the extra elbowroom[submitit] is not installed"
)


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "submitit", None)
    job = Job("one", ("-c", ""), tmp_path / "output.txt")
    with pytest.raises(ElbowroomError, match=r"elbowroom\[submitit\]"):
        next(iter(Submitit().run([job], 1)))


@needs_submitit
def test_each_job_is_told_as_it_ends(tmp_path):
    """With its exit code; what it printed is kept."""
    jobs = [
        Job("well", ("-c", "print('done')"), tmp_path / "well" / "output.txt"),
        Job("ill", ("-c", "import sys; sys.exit(7)"), tmp_path / "ill" / "output.txt"),
    ]
    found = [one for one in Submitit(cluster="local").run(jobs, 2) if one is not None]
    assert sorted(found, key=lambda one: one.name) == [Ended("ill", 7), Ended("well", 0)]
    assert (tmp_path / "well" / "output.txt").read_text() == "done\n"


@needs_submitit
@pytest.mark.slow
def test_it_keeps_the_laws_of_a_launcher():
    """It passes the conformance kit: at most so many at once, and what is stopped saves itself."""
    check_launcher(Submitit(cluster="local"))


@needs_submitit
def test_what_slurm_takes_back_is_handed_in_again():
    """The same job with the same arguments: a point goes on from its last checkpoint."""
    from elbowroom.contrib.submitit_launcher import run_job

    again = run_job.checkpoint(("-c", ""), "output.txt", ".", 1)
    assert again.function is run_job and again.args == (("-c", ""), "output.txt", ".", 1)
