"""Real distributions, installed by pip into an environment of their own, found and reported."""

from __future__ import annotations

LIST = """
import json, sys
from elbowroom.registry.components import Registry
registry = Registry.load()
assert "torch" not in sys.modules
print(json.dumps({
    "plugins": {p.distribution: [p.name, p.version, p.error and p.error.cause]
                for p in registry.plugins if p.distribution != "elbowroom"},
    "built-in and broken": [str(p) for p in registry.broken if p.distribution == "elbowroom"],
    "weightings": list(registry.components("weighting")),
    "processes": list(registry.components("process")),
}))
"""

FIND = """
import json, sys
from elbowroom import ElbowroomError
from elbowroom.registry.components import installed
try:
    component = installed().find("weighting", {name!r})
    answer = [component.load().__name__, component.owner.record()]
except ElbowroomError as error:
    answer = [type(error).__name__, str(error)]
print(json.dumps(answer))
"""


def test_installed_plugins_are_listed_and_the_broken_ones_reported(environment):
    """Each plugin is there with its version; each broken one with its own cause, and only those."""
    listed = environment.ask(LIST)
    plugins = listed["plugins"]
    assert plugins["elbowroom-min-snr"] == ["min-snr", "1.0.0", None]
    assert plugins["elbowroom-duplicate-name"] == ["duplicate-name", "0.3", None]
    assert plugins["elbowroom-import-error"][:2] == ["import-error", "0.1"]
    assert "No module named 'a_module_nobody_has'" in plugins["elbowroom-import-error"][2]
    assert plugins["elbowroom-newer-api"][:2] == ["newer-api", "0.2"]
    assert "made for plugin API 99.1" in plugins["elbowroom-newer-api"][2]
    assert plugins["elbowroom-unknown-argument"][:2] == ["unknown-argument", "0.4"]
    assert "run_started() has no argument 'trainer'" in plugins["elbowroom-unknown-argument"][2]
    assert plugins["elbowroom-levels"] == ["levels", "1.0.0", None]
    assert plugins["elbowroom-flips"] == ["flips", "1.0.0", None]
    assert len(plugins) == 8
    assert listed["built-in and broken"] == []
    assert {"masked", "gaussian"} <= set(listed["processes"])
    assert {"elbo", "own-name", "elbowroom-min-snr/min-snr"} <= set(listed["weightings"])
    assert not {"lost", "from-the-future", "never-there"} & set(listed["weightings"])


def test_the_example_is_found_by_its_entry_point_and_loaded(environment):
    """With only the example beside the built-ins, its bare name means its class."""
    name, owner = environment.ask(
        FIND.format(name="min-snr"), ELBOWROOM_PLUGINS="elbowroom,elbowroom-min-snr"
    )
    assert name == "MinSNR"
    assert owner == {"distribution": "elbowroom-min-snr", "version": "1.0.0", "plugin": "min-snr"}


def test_a_duplicate_name_is_an_error_until_a_distribution_is_named(environment):
    """Neither of two installed plugins with one name wins; dist/name chooses."""
    error, message = environment.ask(FIND.format(name="min-snr"))
    assert error == "PluginError"
    assert "elbowroom-min-snr 1.0.0" in message
    assert "elbowroom-duplicate-name 0.3" in message
    chosen = environment.ask(FIND.format(name="elbowroom-min-snr/min-snr"))
    assert chosen[0] == "MinSNR"
    other = environment.ask(FIND.format(name="elbowroom-duplicate-name/min-snr"))
    assert other[0] == "Other"


def test_a_name_of_a_broken_plugin_shows_the_original_cause(environment):
    """Asking for what a broken plugin would have supplied tells why it is not there."""
    error, message = environment.ask(FIND.format(name="lost"))
    assert error == "PluginError"
    assert "import-error (elbowroom-import-error 0.1): ModuleNotFoundError" in message


def test_strict_stops_at_the_first_broken_plugin(environment):
    """ELBOWROOM_STRICT=1 raises at once and names a broken plugin."""
    error, message = environment.ask(FIND.format(name="elbo"), ELBOWROOM_STRICT="1")
    assert error == "PluginError"
    assert message.startswith("plugin import-error (elbowroom-import-error 0.1) is broken: ")


def test_the_examples_own_tests_pass_where_it_is_installed(environment):
    """The example keeps the laws of a weighting, by its own conformance test."""
    folder = environment.folder / "sources" / "elbowroom-min-snr"
    done = environment.run(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(folder / "pyproject.toml")),
        *("--rootdir", str(folder), str(folder / "tests")),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_installed_example_weighs_a_loss(environment):
    """The class behind the entry point computes, with an option, for a process of this library."""
    values = environment.ask("""
import json, torch
from elbowroom import Level
from elbowroom.registry.components import installed
find = installed().find
weighting = find("weighting", "elbowroom-min-snr/min-snr").load()(gamma=2.0)
process, schedule = find("process", "gaussian").load()(), find("schedule", "vp-cosine").load()()
level = Level.of(torch.linspace(0.2, 0.8, 4, dtype=torch.float64), schedule, process)
print(json.dumps([weighting.plain_weight(level).tolist(), level.snr.tolist()]))
""")
    plain, snr = values
    assert [round(w, 12) for w in plain] == [round(min(1.0, 2.0 / s), 12) for s in snr]
