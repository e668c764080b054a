"""The doctor: what it sees in plugins that are well, broken, slow or in each other's way."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import pytest
from elbowroom.plugins.doctor.doctor import Report, examine


class Site:
    """A folder of installed distributions, on the import path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, distribution: str, module: str, source: str, **more: str) -> None:
        """One module, announced by an entry point of its own name; ``more`` are other modules."""
        info = self.folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[elbowroom]\n{module} = {module}\n")
        for name, text in {module: source, **more}.items():
            head = "from elbowroom import hookimpl\n"
            (self.folder / f"{name}.py").write_text(head + textwrap.dedent(text))

    def examine(self, **options: bool) -> Report:
        """What the doctor says about these alone."""
        found = metadata.distributions(path=[str(self.folder)])
        return examine([entry for one in found for entry in one.entry_points], **options)


@pytest.fixture
def site(tmp_path, monkeypatch) -> Site:
    before = set(sys.modules)
    # a busy machine is not the plugin's fault
    monkeypatch.setattr("elbowroom.plugins.doctor.doctor.SLOW", 60.0)
    monkeypatch.syspath_prepend(tmp_path)
    yield Site(tmp_path)
    for name in set(sys.modules) - before:
        if name.startswith("doctored_"):
            del sys.modules[name]


def said(report: Report, level: str) -> list[str]:
    return [f"{one.about}: {one.text}" for one in report.findings if one.level == level]


WELL = """
PLUGIN_API = (1, 0)

@hookimpl
def weightings():
    return {"well": "doctored_well_parts:Well"}
"""
PARTS = """
from elbowroom import Weighting

class Well(Weighting):
    def __call__(self, level):
        return level.snr
"""


def test_a_plugin_that_is_well_has_no_findings(site):
    """Its time, API version and names are told, and nothing else."""
    site.install("dist-well", "doctored_well", WELL, doctored_well_parts=PARTS)
    report = site.examine()
    (one,) = report.plugins
    assert report.findings == ()
    assert report.healthy
    assert one.registers == {"weighting": ["well"]}
    assert one.api == (1, 0)
    assert one.seconds > 0
    assert "doctored_well_parts" not in sys.modules


def test_loading_on_request_imports_every_component(site):
    """load=True imports what is only named, and times it."""
    site.install("dist-well", "doctored_well", WELL, doctored_well_parts=PARTS)
    ((component, seconds),) = site.examine(load=True).loaded.items()
    assert component.name == "well"
    assert seconds > 0
    assert "doctored_well_parts" in sys.modules


@pytest.mark.parametrize(
    ("parts", "target", "why"),
    [
        (PARTS, "doctored_nowhere:Well", "no module 'doctored_nowhere'"),
        (PARTS, "doctored_lost_parts:Wel", "has no 'Wel'"),
        ("class Well(:\n", "doctored_lost_parts:Well", "has no 'Well'"),
        (PARTS, "doctored_lost_parts.deeper:Well", "no module"),
    ],
)
def test_a_name_that_leads_nowhere_is_found_without_importing(site, parts, target, why):
    """A missing module, a missing class and a module that is no Python are errors."""
    source = f"@hookimpl\ndef weightings():\n    return {{'lost': {target!r}}}\n"
    site.install("dist-lost", "doctored_lost", source, doctored_lost_parts=parts)
    report = site.examine()
    (error,) = said(report, "error")
    assert error.startswith("weighting lost of doctored_lost (dist-lost 1.0): names")
    assert why in error
    assert not report.healthy


@pytest.mark.parametrize(
    "parts",
    [
        "from elbowroom.contracts.weighting import Weighting as Well\n",
        "if True:\n    Well = object\n",
        "from elbowroom.contracts.weighting import *\n",
        "def __getattr__(name): ...\n",
    ],
)
def test_a_name_that_may_be_there_is_no_error(site, parts):
    """Imported, conditional and computed names are given the benefit of the doubt."""
    site.install("dist-well", "doctored_well", WELL, doctored_well_parts=parts)
    assert site.examine().findings == ()


def test_loading_holds_a_class_against_its_contract(site):
    """What only running can tell, load=True tells: here a class of no kind."""
    site.install("dist-well", "doctored_well", WELL, doctored_well_parts="class Well: ...\n")
    assert site.examine().healthy
    (error,) = said(site.examine(load=True), "error")
    assert "does not derive from elbowroom.Weighting" in error


def test_a_broken_plugin_is_told_with_its_cause(site):
    """The others are examined all the same."""
    site.install("dist-broken", "doctored_broken", "import a_module_nobody_has\n")
    site.install("dist-well", "doctored_well", WELL, doctored_well_parts=PARTS)
    report = site.examine()
    (error,) = said(report, "error")
    assert error.startswith("doctored_broken (dist-broken 1.0): ModuleNotFoundError")
    assert [one.name for one in report.plugins] == ["doctored_broken", "doctored_well"]
    assert "a_module_nobody_has" in report.record()["plugins"][0]["traceback"]


def test_a_name_of_two_distributions_is_a_warning(site):
    """Both are named, with what a config must write."""
    for name in ("one", "two"):
        source = WELL.replace("doctored_well_parts", f"doctored_{name}_parts")
        site.install(
            f"dist-{name}", f"doctored_{name}", source, **{f"doctored_{name}_parts": PARTS}
        )
    (warning,) = said(site.examine(), "warning")
    assert warning == (
        "weighting well: is supplied by dist-one 1.0 and dist-two 1.0: "
        "configs must write dist-one/well or dist-two/well"
    )


def test_a_plugin_that_imports_a_heavy_library_is_told_apart(site, monkeypatch):
    """Only the plugin that asked for it first is warned."""
    import elbowroom.plugins.doctor.doctor

    monkeypatch.setattr(elbowroom.registry.plugin, "HEAVY", ("doctored_heavy",))
    heavy = f"import doctored_heavy\n{WELL}"
    site.install("dist-a", "doctored_a", heavy, doctored_heavy="", doctored_well_parts=PARTS)
    site.install("dist-b", "doctored_b", heavy.replace('"well"', '"other"'))
    report = site.examine()
    (warning,) = said(report, "warning")
    assert warning.startswith("doctored_a (dist-a 1.0): imports doctored_heavy")


def test_slow_imports_are_warnings(site, monkeypatch):
    """What costs everybody time is told."""
    monkeypatch.setattr("elbowroom.plugins.doctor.doctor.SLOW", 0.1)
    site.install(
        "dist-slow",
        "doctored_slow",
        f"import time\ntime.sleep(0.15)\n{WELL}",
        doctored_well_parts=PARTS,
    )
    (slow,) = said(site.examine(), "warning")
    assert re.search(r"doctored_slow \(dist-slow 1.0\): takes \d+\.\d\d s to import", slow)


def test_hooks_without_a_mark_and_no_hooks_are_warnings(site):
    """What looks like a slip is told."""
    site.install("dist-slip", "doctored_slip", "def weightings():\n    return {}\n")
    site.install("dist-watch", "doctored_watch", "@hookimpl\ndef run_ended(event): ...\n")
    slip, nothing = said(site.examine(), "warning")
    assert "doctored_slip (dist-slip 1.0): weightings() is not marked" in slip
    assert "doctored_slip (dist-slip 1.0): has no hooks" in nothing


def test_a_missing_preset_is_an_error_and_a_newer_minor_a_note(site):
    """Presets are looked for; a plugin for a later minor of the API may still work."""
    source = """
    PLUGIN_API = (1, 7)

    @hookimpl
    def presets():
        there = "elbowroom.plugins.datasets:presets/digits.yaml"
        return {"gone": "elbowroom:presets/gone.yaml", "there": there}
    """
    site.install("dist-presets", "doctored_presets", source)
    report = site.examine()
    (error,) = said(report, "error")
    assert error.startswith("preset gone of doctored_presets")
    (note,) = said(report, "note")
    assert "made for plugin API 1.7" in note
    assert report.plugins[0].registers == {"preset": ["gone", "there"]}


def command(*arguments: str, **environ: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_command_says_all_of_it_without_torch(site, tmp_path):
    """Both 'plugins' and 'doctor' answer, --json is JSON, and 1 means broken."""
    done = command("-m", "elbowroom", "doctor", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert told["healthy"]
    assert {"masked", "gaussian"} <= {one["name"] for one in told["plugins"]}
    assert not any(one["imports"] for one in told["plugins"])

    site.install("dist-broken", "doctored_broken", "import a_module_nobody_has\n")
    broken = command("-m", "elbowroom", "doctor", PYTHONPATH=str(tmp_path))
    assert broken.returncode == 1
    assert "a_module_nobody_has" in broken.stdout

    listed = command("-m", "elbowroom", "plugins", "--json")
    assert "components" in json.loads(listed.stdout)
    program = (
        "import sys; from elbowroom.plugins.doctor.doctor import examine; examine(); "
        "print('torch' in sys.modules)"
    )
    assert command("-c", program).stdout == "False\n"
