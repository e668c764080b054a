"""The config as a whole: sources, sections, overrides, presets, and the way back to plain data."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import attrs
import pytest
from elbowroom.config.sections import (
    Config,
    dump_yaml,
    load_config,
    parse_spec,
    presets,
    to_plain,
)
from elbowroom.config.yaml_reader import read_yaml
from elbowroom.contracts.weighting import Weighting
from elbowroom.errors import ConfigError, ElbowroomError, PluginError
from elbowroom.plugins.training.section import Train
from elbowroom.registry.component import Owner
from elbowroom.registry.components import installed
from elbowroom.registry.trust import Origin, UntrustedCodeError
from hypothesis import given, settings, strategies as st

MASKED = {"process": "masked"}


@attrs.frozen
class Scaled(Weighting):
    """A weighting of this file, for instances."""

    factor: object = 2.0

    def __call__(self, level):
        return self.factor * level.log_snr


def said(source, overrides=(), **options):
    with pytest.raises(ConfigError) as caught:
        load_config(source, overrides, **options)
    return str(caught.value)


def write(folder: Path, text: str) -> Path:
    path = folder / "my.yaml"
    path.write_text(textwrap.dedent(text))
    return path


# -- sections


def test_the_smallest_config_names_a_process():
    """Only the process is required; the rest has the documented defaults."""
    config = load_config(MASKED)
    assert config.weighting.name == "elbo"
    assert config.objective.times.name == "stratified"
    assert (config.data, config.schedule, config.denoiser, config.sampler) == (None,) * 4
    assert config.train == Train()
    assert config.train.optimiser.path == "train.optimiser"
    assert said({}) == (
        "process: missing; needed is a process: a name, or a mapping with 'name' and its options"
    )


def test_one_word_swaps_the_process():
    """The same config with another process differs in that component alone."""
    masked, gaussian = load_config("digits"), load_config("digits", ["process=gaussian"])
    assert gaussian.process.name == "gaussian"
    assert attrs.evolve(gaussian, process=masked.process) == masked


@pytest.mark.parametrize("field", [f.name for f in attrs.fields(Train)])
def test_every_training_option_is_checked(field):
    """A mapping where a value belongs is refused for each option, by its path."""
    assert f"train.{field}: got" in said({**MASKED, "train": {field: {"a": 1}}})


@pytest.mark.parametrize(
    ("train", "problem"),
    [
        ({"steps": 0}, "train.steps: got 0; it must be >= 1"),
        ({"batch_size": 3.7}, "train.batch_size: got 3.7; allowed: an integer"),
        ({"learning_rate": 0}, "train.learning_rate: got 0.0; it must be > 0"),
        ({"betas": [0.9, 1]}, "train.betas: "),
        ({"betas": [0.9]}, "train.betas: got [0.9]; allowed: a list of 2"),
        ({"ema": 1}, "train.ema: got 1.0; it must be < 1"),
        ({"label_dropout": 1.5}, "it must be <= 1"),
        ({"clip_norm": 0}, "it must be > 0"),
        ({"precision": "float16"}, "allowed: 'float32' or 'bfloat16'"),
        ({"evaluate_every": 0}, "it must be >= 1"),
        ({"lerning_rate": 1}, "unknown key 'lerning_rate' (did you mean 'learning_rate'?)"),
        ([], "train: got []; allowed: a mapping with steps"),
        (None, "train: got null"),
    ],
)
def test_training_options_out_of_range_say_what_is_allowed(train, problem):
    """A bad value of the train section says path, value and range."""
    assert problem in said({**MASKED, "train": train})


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"process": "gausian"}, "did you mean 'gaussian'?"),
        ({"process": None}, "process: got null"),
        ({**MASKED, "weighting": None}, "weighting: got null"),
        ({**MASKED, "seed": -1}, "seed: got -1; it must be >= 0"),
        ({**MASKED, "seed": 2**64}, "seed: "),
        ({**MASKED, "wieghting": "elbo"}, "did you mean 'weighting'?"),
        ({**MASKED, "objective": {"steps": 0}}, "objective.steps: got 0"),
        ({**MASKED, "objective": {"times": "x"}}, "objective.times: unknown time sampler 'x'"),
        ({**MASKED, "objective": {"normalise": "sum"}}, "unknown normaliser 'sum'"),
        ({**MASKED, "schedule": {"name": "cosine", "eps": 0.7}}, "schedule.eps: got 0.7; it must"),
        ({**MASKED, "weighting": "nobody/elbo"}, "weighting: weighting 'elbo' of nobody"),
    ],
)
def test_bad_sections_say_what_is_allowed(config, problem):
    """A bad section or component says its path and the nearest name."""
    assert problem in said(config)


# -- files


def test_problems_in_a_file_have_its_name_and_line(tmp_path):
    """Each problem is told with file, line and path."""
    path = write(
        tmp_path,
        """\
        process: maskd
        train:
          steps: 10
          batch_size: 1e3
        """,
    )
    first, second = said(path).splitlines()
    assert first.startswith(f"{path}:1: process: unknown process 'maskd' (did you mean 'masked'?)")
    assert second == f"{path}:4: train.batch_size: got 1000.0; allowed: an integer"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b"- a\n- b\n", "allowed: a mapping with data, process"),
        (b"just text", "allowed: a mapping with data, process"),
        (b"process: masked\nprocess: gaussian", "my.yaml:2: the key 'process' is given twice"),
        (b"process: [", "not YAML"),
        (b"process: \xff", "byte 9 is 0xff"),
        (b"1: 2", "unknown key 1"),
    ],
)
def test_files_that_are_no_config_say_why(tmp_path, content, problem):
    """Empty, broken, huge and foreign files are one clear error each."""
    path = tmp_path / "my.yaml"
    path.write_bytes(content)
    assert problem in said(str(path))


def test_a_name_that_is_nothing_names_the_nearest_preset(tmp_path, monkeypatch):
    """Neither preset nor file: the error says what was tried and what there is."""
    monkeypatch.chdir(tmp_path)
    message = said("digts")
    assert "did you mean 'digits'?" in message
    assert str(tmp_path / "digts") in message
    assert "is a directory" in said(str(tmp_path))
    for strange in ["", "a\0b", "x" * 5000, "digits.yaml"]:
        assert said(strange)


def test_component_files_are_relative_to_the_config(tmp_path, monkeypatch):
    """``./mine.py:Mine`` is found beside the config, or beside the person who overrides."""
    code = (
        "from elbowroom import Weighting\nclass Mine(Weighting):\n    def __call__(self, level):\n"
    )
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder in "ab":
        (tmp_path / folder / "mine.py").write_text(f"{code}        return {folder!r}\n")
    path = write(tmp_path / "a", "process: masked\nweighting: ./mine.py:Mine\n")
    monkeypatch.chdir(tmp_path / "b")
    config = load_config(path)
    assert config.weighting.build()(None) == "a"
    assert load_config(path, ["weighting=./mine.py:Mine"]).weighting.build()(None) == "b"
    assert load_config(to_plain(config)) == config  # from any folder
    instance = config.weighting.build()
    assert load_config({**MASKED, "weighting": instance}).weighting.given == config.weighting.given


def test_a_missing_supplier_of_a_run_is_named():
    """A run whose component came from a package not installed here names the package."""
    recorded = {"weighting": Owner("elbowroom-far", "2.0")}
    origin = Origin(owners=recorded)
    message = said({**MASKED, "weighting": "far"}, origin=origin)
    assert "pip install 'elbowroom-far==2.0'" in message
    for override in ["weighting=elbo", "weighting.name=elbo"]:  # no longer what the run used
        config = load_config(MASKED | {"weighting": "far"}, [override], origin=origin)
        assert config.weighting.name == "elbo"


def test_an_option_of_a_component_is_not_its_name(tmp_path):
    """An override of an option admits no code that a run names."""
    mine = tmp_path / "mine.py"
    mine.write_text("raise SystemExit('executed')")
    config = {**MASKED, "weighting": {"name": f"{mine}:Mine", "k": 1}}
    for override in ["weighting.k=2", "seed=1"]:
        with pytest.raises(UntrustedCodeError):
            load_config(config, [override], origin=Origin())


# -- overrides


@pytest.mark.parametrize(
    ("overrides", "read"),
    [
        (["train.steps=7"], lambda c: c.train.steps == 7),
        (["train.learning_rate=1e-4"], lambda c: c.train.learning_rate == 1e-4),
        (["train.betas=[0.5, 0.6]"], lambda c: c.train.betas == (0.5, 0.6)),
        (["sampler.steps=32"], lambda c: c.sampler.options["steps"] == 32),
        (["denoiser.width=64"], lambda c: c.denoiser.options["depth"] == 3),
        (["process=gaussian"], lambda c: c.process.name == "gaussian"),
        (["process=gaussian", "process.predict=eps"],
         lambda c: c.process.given["predict"] == "eps"),
        (["weighting={name: sigmoid, k: 2}"], lambda c: c.weighting.options == {"k": 2.0}),
        (["weighting={name: isotonic, of: sigmoid}", "weighting.of.k=3"],
         lambda c: c.weighting.given["of"] == {"name": "sigmoid", "k": 3.0}),
        (["weighting=sigmoid", "weighting.k=1", "weighting=sigmoid"],
         lambda c: c.weighting.options == {"k": 0.0}),
        (["sampler=null"], lambda c: c.sampler is None),
        (["schedule=cosine", "schedule.eps=0"], lambda c: c.schedule.options["eps"] == 0.0),
        (["objective.times=uniform"], lambda c: c.objective.times.name == "uniform"),
        (["seed = 3"], lambda c: c.seed == 3),
        ({"train.steps": 7, "process": "gaussian"}, lambda c: c.train.steps == 7),
    ],
)  # fmt: skip
def test_overrides_reach_their_place(overrides, read):
    """An override changes the value it names, and nothing beside it."""
    assert read(load_config("digits", overrides))


def test_an_option_of_a_default_component_can_be_overridden():
    """A component nobody wrote down can be told its options."""
    config = load_config(MASKED, ["weighting=sigmoid", "objective.times=logit-normal"])
    assert load_config(MASKED, ["objective.times.name=logit-normal", "weighting.name=sigmoid"]) == (
        config
    )


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("train.batch_size=3.7", "override train.batch_size=3.7: train.batch_size: got 3.7"),
        ("train.batch_sise=3", "did you mean 'batch_size'?"),
        ("trian.steps=3", "override trian.steps=3: trian: unknown key 'trian' (did you mean"),
        ("process.predit=v", "override process.predit=v: process.predit: unknown key"),
        ("schedule.eps=0", "got a mapping without 'name'; which schedule is it?"),
        ("seed.x=1", "override seed.x=1: seed"),
        ("train.steps", "an override is key=value"),
        ("train.steps=", "no value"),
        ("=3", "is no path"),
        ("train..steps=3", "is no path"),
        ("train.steps=[", "override train.steps=[: not YAML"),
        ("train.betas.0=3", "train.betas"),
    ],
)
def test_bad_overrides_are_named(override, problem):
    """A problem an override brought is told with the override, not with the file."""
    assert problem in said({**MASKED, "seed": 1}, [override])


def test_a_config_can_be_overridden_again():
    """A config already read takes overrides like a file."""
    config = load_config("digits")
    assert load_config(config) == config
    assert load_config(config, ["sampler.steps=32"]) == load_config("digits", ["sampler.steps=32"])


# -- back to plain data


def test_a_resolved_config_is_json_and_yaml():
    """The resolved config survives both formats and reads back equal."""
    config = load_config("digits", ["weighting={name: isotonic, of: edm}", "schedule=polynomial"])
    assert load_config(json.loads(json.dumps(to_plain(config)))) == config
    assert load_config(read_yaml(dump_yaml(config), "x").value) == config


def test_an_instance_goes_through_or_says_why_it_cannot():
    """Instances serve in memory; writing one down works where its options are plain."""
    plain, opaque = Scaled(3.0), Scaled(lambda: 1)
    config = load_config({**MASKED, "weighting": plain})
    assert config.weighting.build() is plain
    assert load_config(to_plain(config)) == config
    config = load_config({**MASKED, "weighting": opaque}, ["seed=3"])
    assert config.weighting.build() is opaque
    assert load_config(config, ["seed=4"]).weighting.build() is opaque
    with pytest.raises(ConfigError, match="cannot be written down: weighting"):
        to_plain(config)


def test_overrides_keep_instances_they_do_not_touch():
    """An instance stays the very same under overrides elsewhere, and is rebuilt by its own."""
    instance = Scaled(3.0)
    config = load_config({**MASKED, "weighting": {"name": "isotonic", "of": instance}})
    changed = load_config(config, ["objective.steps=4", "train.steps=5"])
    assert changed.weighting.build().of is instance
    assert (changed.objective.steps, changed.train.steps) == (4, 5)
    assert load_config(config, ["weighting.of.factor=4.0"]).weighting.build().of == Scaled(4.0)
    opaque = load_config({**MASKED, "weighting": Scaled(len)})
    assert "which has no 'factor' to change" in said(opaque, ["weighting.factor=4.0"])


def options_of_training():
    unit = st.floats(0, 1, exclude_max=True)
    count = st.integers(1, 10**9)
    return st.fixed_dictionaries(
        {},
        optional={
            "steps": count,
            "batch_size": count,
            "learning_rate": st.floats(0, 1e3, exclude_min=True),
            "betas": st.tuples(unit, unit).map(list),
            "weight_decay": st.floats(0, 10) | st.integers(0, 10),
            "clip_norm": st.none() | st.floats(1e-6, 1e6),
            "ema": unit,
            "precision": st.sampled_from(["float32", "bfloat16"]),
            "compile": st.booleans(),
            "evaluate_every": st.none() | count,
        },
    )


weightings = st.recursive(
    st.sampled_from(["elbo", "simple", "iddpm", {"name": "edm"}, "elbowroom/fm"])
    | st.floats(-20, 20).map(lambda k: {"name": "sigmoid", "k": k}),
    lambda inner: inner.map(lambda of: {"name": "isotonic", "of": of}),
    max_leaves=3,
)
configs = st.fixed_dictionaries(
    {"process": st.sampled_from(["masked", "gaussian", {"name": "gaussian", "predict": "eps"}])},
    optional={
        "weighting": weightings,
        "schedule": st.none()
        | st.floats(0, 0.5, exclude_max=True).map(lambda eps: {"name": "cosine", "eps": eps}),
        "objective": st.fixed_dictionaries(
            {}, optional={"steps": st.none() | st.integers(1, 5000), "times": st.just("uniform")}
        ),
        "train": options_of_training(),
        "seed": st.integers(0, 2**64 - 1),
    },
)


@given(configs)
@settings(max_examples=60)
def test_the_resolved_config_reads_back_equal(source):
    """load(plain(load(c))) = load(c), through data and through YAML text; and plain is settled."""
    config = load_config(source)
    plain = to_plain(config)
    assert load_config(plain) == config
    assert to_plain(load_config(plain)) == plain
    assert load_config(read_yaml(dump_yaml(config), "x").value) == config


# -- nothing but clear errors

_words = st.sampled_from(
    ["name", "process", "masked", "gaussian", "weighting", "isotonic", "of", "sigmoid", "k",
     "train", "steps", "betas", "objective", "times", "seed", "data", "schedule", "", ".", "a:b",
     "./x.py:Y", "elbowroom/elbo", "os:system", "a\0b", "..", "sampler"]
)  # fmt: skip
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | _words | st.text(max_size=4)
_trees = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_words | st.integers(), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(st.dictionaries(_words, _trees, max_size=5))
@settings(max_examples=150)
def test_any_mapping_is_a_config_or_a_clear_error(source):
    """Random mappings raise nothing but ConfigError and PluginError."""
    try:
        config = load_config(source)
    except (ConfigError, PluginError):
        return
    assert isinstance(config, Config)


@given(st.lists(st.tuples(st.lists(_words, max_size=3).map(".".join), st.text(max_size=8))))
@settings(max_examples=100)
def test_any_override_is_applied_or_a_clear_error(pairs):
    """Random overrides raise nothing but ConfigError and PluginError."""
    try:
        config = load_config(MASKED, [f"{key}={value}" for key, value in pairs])
    except (ConfigError, PluginError):
        return
    assert isinstance(config, Config)


@given(content=st.binary(max_size=80))
@settings(max_examples=60)
def test_any_file_is_a_config_or_a_clear_error(tmp_path_factory, content):
    """Random bytes in a file raise nothing but ConfigError and PluginError."""
    path = tmp_path_factory.mktemp("any") / "any.yaml"
    path.write_bytes(content)
    with pytest.raises((ConfigError, PluginError)):
        load_config(path)


@given(st.text(max_size=30) | _words.map(lambda word: f"{{name: {word}}}"))
def test_any_spec_is_parsed_or_a_clear_error(text):
    """Random SPECs raise nothing but ConfigError."""
    try:
        parsed = parse_spec(text)
    except ConfigError:
        return
    assert isinstance(parsed, str | dict)


# -- presets


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_loads_and_says_what_it_is(name):
    """Each preset is a complete, valid config with a description."""
    assert presets()[name].description
    own_data = name in {"text", "table"} or name.startswith("images")
    config = load_config(name, ["data.path=."] if own_data else ())
    assert load_config(to_plain(config)) == config


def test_plugins_bring_presets(tmp_path, monkeypatch):
    """A plugin's preset is found by the name the registry gives; a broken one harms nobody."""
    package = tmp_path / "far_presets"
    (package / "configs").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "configs" / "far.yaml").write_text("# From afar\nprocess: masked\nseed: 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    owner = Owner("elbowroom-far", "1.0")

    class WithFar:
        find = installed().find
        components = installed().components

        def presets(self):
            location = "far_presets:configs/far.yaml"
            return {
                **installed().presets(),
                "far": (owner, location),
                "elbowroom-far/digits": (owner, location),
                "gone": (owner, "far_presets:configs/none.yaml"),
                "lost": (owner, "no_such_package:a.yaml"),
            }

    shelf = WithFar()
    found = presets(shelf)
    assert found["far"].description == "From afar"
    assert found["digits"].owner.distribution == "elbowroom"
    assert load_config("elbowroom-far/digits", registry=shelf).seed == 5
    for broken in ["gone", "lost"]:
        assert "cannot be read" in found[broken].description
        assert f"preset '{broken}' of elbowroom-far 1.0" in said(broken, registry=shelf)


# -- costs nothing


def test_reading_a_config_needs_no_torch_until_a_component_does():
    """Importing the config, and listing presets, leaves torch alone."""
    code = (
        "import sys, elbowroom.config.sections as c; c.presets(); c.parse_spec('a');"
        "raise SystemExit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_errors_are_for_people():
    """A config's error is one the command line prints without a traceback."""
    with pytest.raises(ElbowroomError):
        load_config({"process": "nothing"})
