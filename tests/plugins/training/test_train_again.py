"""The same call begins a job and begins it again: a run that is there is gone on with."""

from __future__ import annotations

import shutil
import threading
import time

import elbowroom as er
import pytest
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.training.run import train
from elbowroom.runs.folder import RunFolder

from tests.helpers.tiny_run import curve, found, same, tiny_config

QUIET = {"console", "tensorboard"}


def stopped_at_its_first_checkpoint(folder):
    """What is left of a run that was killed after it saved once."""
    for checkpoint in found(folder)[1:]:
        shutil.rmtree(checkpoint.path)


@pytest.fixture
def whole(tmp_path):
    """A run from beginning to end; nothing was there when it was called."""
    train(tiny_config(keep=9), tmp_path / "whole", without=QUIET, auto_resume=True)
    return tmp_path / "whole"


def test_a_run_that_has_begun_is_gone_on_with(whole, tmp_path):
    """From its last checkpoint, to the weights and the curve of one that was never stopped."""
    shutil.copytree(whole, tmp_path / "again")
    stopped_at_its_first_checkpoint(tmp_path / "again")
    result = train(tiny_config(keep=9), tmp_path / "again", without=QUIET, auto_resume=True)
    assert (result.reason, result.step) == ("finished", 12)
    assert same(found(whole)[-1], found(tmp_path / "again")[-1])
    assert curve(RunFolder(whole).rows()) == curve(RunFolder(tmp_path / "again").rows())


def test_a_run_that_is_through_is_left_as_it_is(whole):
    """A job that is started once more ends well and changes nothing."""
    before = found(whole)[-1].path.stat().st_mtime_ns
    assert train(tiny_config(keep=9), whole, without=QUIET, auto_resume=True).reason == "finished"
    assert found(whole)[-1].path.stat().st_mtime_ns == before


def test_a_run_of_another_config_is_refused(whole):
    """The keys that differ are named; without being asked to go on, any run is refused."""
    with pytest.raises(ElbowroomError, match="seed: 0 in the run, 1 now"):
        train(tiny_config(keep=9, seed=1), whole, without=QUIET, auto_resume=True)
    with pytest.raises(ElbowroomError, match="has a run already"):
        train(tiny_config(keep=9), whole, without=QUIET)


def test_the_one_before_is_waited_for(whole):
    """A process that still holds the folder, as one that saves itself does, is given time."""
    held, left = threading.Event(), []

    def hold():
        with RunFolder(whole).locked():
            held.set()
            time.sleep(0.5)
            left.append(True)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    train(tiny_config(keep=9), whole, without=QUIET, auto_resume=True)
    assert left == [True]
    holder.join()


@pytest.mark.filterwarnings("ignore:data were made in Python")
def test_a_model_with_data_of_its_own_goes_on(tmp_path):
    """Data without a name are taken from the model that is given again."""
    data = er.assemble(tiny_config()).parts.dataset()

    def trained():
        model = er.assemble(tiny_config(keep=9), data=data)
        er.train(model, tmp_path / "run", without=QUIET, auto_resume=True)
        return model

    first = trained()
    stopped_at_its_first_checkpoint(tmp_path / "run")
    again = trained().state_dict()
    assert all((value == again[name]).all() for name, value in first.state_dict().items())
