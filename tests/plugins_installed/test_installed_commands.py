"""The command line where third-party plugins are really installed, good ones and broken ones."""

from __future__ import annotations

import json
import math
import re

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


def test_a_third_partys_command_is_in_help_and_runs(environment):
    """It is listed beside ours, takes our options, and answers."""
    told = environment.run("-m", "elbowroom", "--help").stdout
    assert "levels" in told and "log-SNR of a schedule" in told
    found = json.loads(environment.run("-m", "elbowroom", "levels", "cosine", "--json").stdout)
    assert found["clean"] > 0 > found["noise"]
    wrong = environment.run("-m", "elbowroom", "levels", "cosin", check=False)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: unknown schedule 'cosin' (did you mean 'cosine'?)")


def test_another_command_of_our_name_does_not_replace_ours(environment):
    """Ours keeps its name; the other is called by its distribution, and fails in a sentence."""
    assert "grid of configs" in environment.run("-m", "elbowroom", "compare", "--help").stdout
    name = "elbowroom-odd-commands/compare"
    theirs = environment.run("-m", "elbowroom", name, check=False)
    assert (theirs.returncode, theirs.stderr) == (2, "error: this one only complains\n")


def test_a_command_that_cannot_be_imported_harms_no_other(environment):
    """It stands in help as broken; whoever calls it reads why."""
    told = environment.run("-m", "elbowroom", "--help", COLUMNS="200").stdout
    assert re.search(r"lost +Broken: command 'lost' of elbowroom-odd-commands", told)
    called = environment.run("-m", "elbowroom", "lost", check=False)
    assert called.returncode == 2 and "a_module_nobody_has" in called.stderr


def test_a_commands_python_form_is_a_name_of_elbowroom(environment):
    """elbowroom.NAME is the function a command names; a command without one adds no name."""
    program = """
import json, elbowroom
print(json.dumps([elbowroom.odd(), elbowroom.compare.__module__, hasattr(elbowroom, "levels")]))
"""
    assert environment.ask(program) == ["odd", "elbowroom.plugins.compare.run", False]
