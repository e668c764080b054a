"""The command line where third-party plugins are really installed, good ones and broken ones."""

from __future__ import annotations

import json
import math

import pytest

CONFIG = """\
data: digits
process: masked
weighting: {name: elbowroom-min-snr/min-snr, gamma: 2}
"""


def test_plugins_lists_the_installed_one_and_reports_the_broken(environment):
    """`elbowroom plugins --json` names the distribution of each, and each failure's cause."""
    found = json.loads(environment.run("-m", "elbowroom", "plugins", "--json").stdout)
    names = {name for name in found["components"]["weighting"] if name.endswith("min-snr")}
    assert "elbowroom-min-snr/min-snr" in names or "min-snr" in names
    assert found["broken"] and all(plugin["error"] for plugin in found["broken"])
    assert {"masked", "gaussian"} <= set(found["components"]["process"])
    shown = environment.run("-m", "elbowroom", "plugins").stdout
    assert "broken" in shown


@pytest.mark.parametrize("process", ["masked", "gaussian"])
def test_the_installed_weighting_is_named_in_a_config_and_used(environment, process):
    """A config names it for either process; explain knows its owner and certifies it."""
    path = environment.folder / "config.yaml"
    path.write_text(CONFIG)
    ran = environment.run("-m", "elbowroom", "explain", str(path), f"process={process}", "--json")
    found = json.loads(ran.stdout)
    assert found["components"]["weighting"]["distribution"] == "elbowroom-min-snr"
    assert found["components"]["weighting"]["version"]
    assert found["config"]["weighting"]["gamma"] == 2
    assert "isotonic_distance" in found["certificate"]
    ran = environment.run(
        *("-m", "elbowroom", "weighting", "elbowroom-min-snr/min-snr", "--process", process),
        *("--project", "--json"),
    )
    values = json.loads(ran.stdout)
    due = [min(1, 5 / math.exp(lam)) for lam in values["log_snr"]]
    assert values["plain_weight"] == pytest.approx(due)
    assert values["projected"]["certificate"]["is_bound"] is True


def test_an_unknown_name_shows_the_broken_plugins_causes(environment):
    """What may have been meant is told: exit code 2, the causes, no traceback."""
    ran = environment.run("-m", "elbowroom", "weighting", "nowhere", check=False)
    assert ran.returncode == 2
    assert "broken plugins" in " ".join(ran.stderr.split()) and "Traceback" not in ran.stderr
