"""Files that hosting, citation and release tools read."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from tests.helpers.built_wheel import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")


def declared(key: str) -> str:
    """A string of pyproject.toml; Python 3.10 has no tomllib."""
    found = re.search(rf'^{key} = "(.*)"$', PYPROJECT, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.extra
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_satisfy_the_schema(path):
    """The schema of GitHub's workflows that check-jsonschema ships."""
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema"]
    command += ["--builtin-schema", "vendor.github-workflows", str(path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_use_files_and_extras_that_exist(path):
    """Each script, test, extra and called workflow of a step is in the tree."""
    text = path.read_text("utf-8")
    for place in re.findall(r"(?<![\w/.])((?:\.ci|tests|docs|\.github)/[\w./-]+)", text):
        assert (ROOT / place).exists(), place
    for extras in re.findall(r"--editable \"\.\[([\w,]+)\]\"", text):
        for extra in extras.split(","):
            assert re.search(rf"^{extra} = \[", PYPROJECT, re.MULTILINE), extra
    jobs = yaml.safe_load(text)["jobs"]
    for job in jobs.values():
        needs = job.get("needs", [])
        assert {needs} <= set(jobs) if isinstance(needs, str) else set(needs) <= set(jobs)


def test_workflows_may_write_only_where_they_publish():
    """The token reads by default; trusted publishing and the site ask for an identity."""
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text("utf-8"))
        assert workflow["permissions"] == {"contents": "read"}
        wide = {name for name, job in workflow["jobs"].items() if "permissions" in job}
        assert wide <= {"publish", "deploy"}


def test_every_supported_python_is_tested():
    """The matrix, the classifiers and requires-python name the same versions."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    assert declared("requires-python") == f">={tested[0]}"


def test_issue_forms_ask_something():
    """A form has a name, a description and questions with labels and distinct ids."""
    forms = (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")
    for path in (path for path in forms if path.name != "config.yml"):
        form = yaml.safe_load(path.read_text("utf-8"))
        assert form["name"] and form["description"]
        assert all(question["attributes"]["label"] for question in form["body"])
        ids = [question["id"] for question in form["body"]]
        assert len(ids) == len(set(ids))


def test_the_citation_names_the_paper_and_this_version():
    """The fields that the Citation File Format requires, and pyproject's version and licence."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["version"] == declared("version")
    assert citation["license"] == declared("license")
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors"} <= set(paper)
    assert [author["family-names"] for author in paper["authors"]] == ["Shi", "Titsias"]
    assert paper["title"] in (ROOT / "docs" / "theory.md").read_text("utf-8")


def test_the_changelog_has_this_version():
    """Its first heading is the version of pyproject.toml."""
    changelog = (ROOT / "docs" / "changelog.md").read_text("utf-8")
    heading = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    assert heading is not None
    assert heading[1] == declared("version")
