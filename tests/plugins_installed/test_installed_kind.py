"""A third party's kind, section, command and components work without a change to core."""

from __future__ import annotations

import json

CONFIG = """\
data: {name: flipped-digits, by: mirror}
process: masked
denoiser: {name: uvit, width: 16, depth: 1, channels: 8}
sampler: {name: ancestral, steps: 2}
train: {steps: 2, batch_size: 8, evaluate_every: null}
augment: {by: {name: mirror, axis: 1}, share: 0.5}
"""


def test_the_kind_is_listed_with_its_components(environment):
    """``plugins`` shows the kind, and the components by name."""
    found = json.loads(environment.run("-m", "elbowroom", "plugins", "--json").stdout)
    assert set(found["components"]["augmentation"]) == {"identity", "mirror"}
    assert found["components"]["augmentation"]["mirror"]["distribution"] == "elbowroom-flips"


def test_the_section_is_read_strictly_and_explained(environment):
    """Its components are resolved, its errors have a path, and explain lists it."""
    path = environment.folder / "flips.yaml"
    path.write_text(CONFIG)
    ran = environment.run("-m", "elbowroom", "explain", str(path), "--json")
    found = json.loads(ran.stdout)
    assert found["config"]["augment"] == {"by": {"name": "mirror", "axis": 1}, "share": 0.5}
    assert found["components"]["augmentation"]["distribution"] == "elbowroom-flips"
    wrong = environment.run(
        *("-m", "elbowroom", "explain", str(path), "augment.by=mirrow"), check=False
    )
    assert wrong.returncode == 2
    assert "augment.by" in wrong.stderr and "did you mean 'mirror'" in " ".join(
        wrong.stderr.split()
    )


def test_the_command_runs_and_the_schema_has_the_kind(environment):
    """The command finds a component of the kind; the JSON Schema defines it."""
    assert environment.run("-m", "elbowroom", "flips", "mirror").stdout.split() == list("1032")
    schema = json.loads(environment.run("-m", "elbowroom", "schema").stdout)
    assert "augmentation" in schema["$defs"] and "augment" in schema["properties"]


def test_the_kind_brings_its_laws_and_its_template(environment):
    """``check_component`` runs its laws; ``new-plugin`` writes a package of the kind."""
    check = "from elbowroom.plugins.conformance import check_component as check\n"
    mirror = "from elbowroom_flips.augmentation import Augmentation, Mirror\n"
    environment.run("-c", check + mirror + "check('augmentation', Mirror)")
    bad = "class Bad(Augmentation):\n    def __call__(self, x): return x[:, :1]\n"
    ran = environment.run("-c", check + mirror + bad + "check('augmentation', Bad)", check=False)
    assert "changes the shape" in ran.stderr
    environment.run("-m", "elbowroom", "new-plugin", "my-shift", "--kind", "augmentation")
    folder = environment.folder / "elbowroom-my-shift"
    assert "Augmentation" in (folder / "src/elbowroom_my_shift/augmentation.py").read_text()


def test_the_pytest_plugin_checks_every_component_of_a_distribution(environment):
    """One test with the fixture ``elbowroom_component`` is one test a component."""
    test = environment.folder / "test_laws_of_flips.py"
    test.write_text("def test_laws(elbowroom_component):\n    elbowroom_component.check()\n")
    ran = environment.run(
        *("-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", str(test)),
        *("--elbowroom-distribution", "elbowroom-flips", "-k", "augmentation or dataset"),
    )
    assert "3 passed" in ran.stdout, ran.stdout


def test_the_components_are_used_in_a_comparison(environment):
    """A comparison varies an option whose type is the third party's contract."""
    path, out = environment.folder / "flips.yaml", environment.folder / "comparison"
    path.write_text(CONFIG)
    environment.run(
        *("-m", "elbowroom", "compare", str(path), "--vary", "data.by=identity,mirror"),
        *("--metric", "{name: bpd, limit: 4}", "--out", str(out)),
    )
    points = json.loads((out / "results.json").read_text())["points"]
    assert [point["status"] for point in points] == ["finished", "finished"]
