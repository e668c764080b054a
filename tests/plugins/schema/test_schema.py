"""The JSON Schema of configs: what reads as a config passes, what does not is caught."""

from __future__ import annotations

import json

import elbowroom as er
import jsonschema
import pytest
from elbowroom.cli import app
from elbowroom.config.preset import presets
from elbowroom.config.spec import to_plain
from elbowroom.config.yaml_reader import read_yaml
from elbowroom.plugins.schema.json_schema import config_schema
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def validator():
    schema = config_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", presets())
def test_every_preset_passes_and_so_does_what_it_resolves_to(name, validator):
    """As it is written, and with every default filled in."""
    text = presets()[name].text
    assert text.startswith("# yaml-language-server: $schema=elbowroom.schema.json\n")
    assert "yaml-language-server" not in presets()[name].description
    validator.validate(read_yaml(text, name).value)
    config = er.load_config(name, {"data": "digits"})  # one is told its folder later
    validator.validate(json.loads(json.dumps(to_plain(config))))


def test_what_may_be_left_out_says_null_once(validator):
    """An editor lists each way of writing a value; none is there twice."""
    assert validator.schema["properties"]["data"] == {
        "anyOf": [{"$ref": "#/$defs/dataset"}, {"type": "null"}]
    }


@pytest.mark.parametrize(
    "change",
    [
        {"weigthing": "elbo"},
        {"weighting": "sigmod"},
        {"weighting": {"name": "sigmoid", "q": 2}},
        {"train": {"batch_size": 3.7}},
        {"train": {"step": 10}},
        {"train": {"precision": "float16"}},
        {"train": {"betas": [0.9]}},
        {"sampler": {"steps": 4}},
        {"seed": "0"},
        {"process": None},
    ],
    ids=json.dumps,
)
def test_a_slip_is_caught(change, validator):
    """As load_config catches it."""
    good = {"data": "digits", "process": "masked"}
    validator.validate(good)
    assert not validator.is_valid({**good, **change})
    with pytest.raises(er.ElbowroomError):
        er.load_config({**good, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"weighting": "./mine.py:Mine"},
        {"weighting": {"name": "package.module:Mine", "power": 2}},
        {"weighting": "elbowroom/elbo"},
        {"sampler": {"name": "ancestral", "guidance": 2, "grid": "uniform"}},
        {"schedule": None},
    ],
    ids=json.dumps,
)
def test_code_of_ones_own_and_null_pass(change, validator):
    """A reference, a distribution's name, an option that is a component."""
    validator.validate({"data": "digits", "process": "masked", **change})


def test_the_command_prints_it():
    """And nothing else."""
    done = CliRunner().invoke(app, ["schema"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == config_schema()
