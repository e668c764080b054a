"""What holds for every test.

None is judged by how busy the machine is or by where it was started (a shell that puts a command
into the background has it ignore Ctrl-C), and none touches what the user's own trainings left.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def own_state(tmp_path_factory):
    """No test reads or writes what the user's own trainings left word of."""
    before = os.environ.get("ELBOWROOM_STATE")
    os.environ["ELBOWROOM_STATE"] = str(tmp_path_factory.mktemp("state"))
    yield
    if before is None:
        del os.environ["ELBOWROOM_STATE"]
    else:
        os.environ["ELBOWROOM_STATE"] = before
