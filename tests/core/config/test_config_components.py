"""Components in a config: their constructor is the schema, read strictly."""

from __future__ import annotations

import enum
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional

import attrs
import numpy as np
import pytest
from elbowroom.config.sections import ComponentSpec, named_component, parse_spec
from elbowroom.contracts.process import Signature
from elbowroom.contracts.schedule import Schedule
from elbowroom.contracts.weighting import Weighting
from elbowroom.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from elbowroom import Process


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


@attrs.frozen
class Window:
    low: float = 0.0
    high: float = attrs.field(default=1.0)

    @high.validator
    def _above(self, _, value):
        if not value > self.low:
            raise ValueError(f"high {value} must be above low {self.low}")


@attrs.frozen
class Plain(Weighting):
    def __call__(self, level):
        return level.log_snr


@attrs.frozen
class Rich(Weighting):
    """One option of each type."""

    whole: int = attrs.field(default=1, validator=attrs.validators.ge(0))
    real: float = 0.5
    flag: bool = False
    word: str = "a"
    file: Path = Path("x")
    maybe: int | None = None
    old_maybe: Optional[float] = None  # noqa: UP045  # what older plugins write
    choice: Literal["on", "off", 3] = "on"
    colour: Colour = Colour.RED
    either: float | int | str = 1
    many: list[int] = attrs.Factory(list)
    pair: tuple[float, float] = (0.0, 1.0)
    tail: tuple[int, ...] = ()
    table: dict[str, float] = attrs.Factory(dict)
    window: Window = attrs.Factory(Window)
    of: Weighting | None = None
    several: list[Weighting] = attrs.Factory(list)
    endless: float = math.inf
    _hidden: int = 3
    process: Process | None = None
    state: int = attrs.field(default=7, init=False)

    def __call__(self, level):
        return level.log_snr


@attrs.frozen
class Wrap(Weighting):
    of: Weighting
    only: Plain = attrs.Factory(Plain)

    def __call__(self, level):
        return self.of(level)


@attrs.frozen
class Free(Weighting):
    how: Any = None

    def __call__(self, level):
        return level.log_snr


@attrs.frozen
class Converted(Weighting):
    """Options whose constructor says nothing of what it takes."""

    items: tuple[float, ...] = attrs.field(default=(), converter=tuple)
    words: list[str] = attrs.field(factory=list, converter=list)
    other: tuple[int, ...] = attrs.field(default=(), converter=lambda text: tuple(map(int, text)))

    def __call__(self, level):
        return level.log_snr


class Network:
    """Stands for a denoiser: a written constructor, a signature from the framework."""

    def __init__(self, signature: Signature, *, width: int = 8, depth: int, rest: float = 0.1):
        if width % 2:
            raise ValueError(f"width {width} must be even")
        self.signature, self.width, self.depth = signature, width, depth


class Open:
    def __init__(self, scheduler: str = "DDIM", **options: float):
        self.scheduler, self.options = scheduler, options


class Strange:
    def __init__(self, fn: "Unknown" = print, ok: int = 1):  # noqa: F821, UP037  # the point
        self.fn, self.ok = fn, ok


class Misnamed:
    def __init__(self, name: str):
        self.name = name


class Shelf:
    """A registry of a few classes."""

    class hook:  # pluggy's relay, without plugins
        @staticmethod
        def adapt(kind, given):
            return None

    @attrs.frozen
    class Component:
        kind: str
        name: str
        target: type
        owner: str = "tests"

        def load(self):
            return self.target

    classes = {  # noqa: RUF012  # a constant
        "plain": Plain,
        "rich": Rich,
        "wrap": Wrap,
        "free": Free,
        "converted": Converted,
        "network": Network,
        "open": Open,
        "strange": Strange,
        "misnamed": Misnamed,
    }

    def find(self, kind, name, base=None):
        module, _, cls = name.partition(":")
        if module == __name__ and cls in globals():
            return self.Component(kind, name, globals()[cls])
        if name not in self.classes:
            raise PluginError(f"unknown {kind} {name!r}")
        return self.Component(kind, name, self.classes[name])

    def presets(self):
        return {}


def spec(given, kind="weighting"):
    return named_component(kind, given, registry=Shelf(), path=kind)


def rich(**options):
    return spec({"name": "rich", **options})


def problems(given, kind="weighting"):
    with pytest.raises(ConfigError) as caught:
        spec(given, kind)
    return str(caught.value).splitlines()


def test_a_name_and_a_mapping_mean_the_same():
    """A component is a name, or a mapping with that name."""
    assert spec("plain") == spec({"name": "plain"})
    assert spec("plain").build() == Plain()


def test_the_resolved_form_has_every_default():
    """``given`` names every option a config can express, and reads back to an equal spec."""
    resolved = rich().given
    assert next(iter(resolved)) == "name"
    assert resolved["colour"] == "red"
    assert resolved["file"] == "x"
    assert resolved["pair"] == [0.0, 1.0]
    assert resolved["window"] == {"low": 0.0, "high": 1.0}
    assert resolved["hidden"] == 3
    assert "state" not in resolved
    assert spec(resolved) == rich()
    assert spec(resolved).build() == Rich()


@pytest.mark.parametrize(
    ("option", "value", "kept"),
    [
        ("whole", 3, 3),
        ("whole", np.int64(3), 3),
        ("real", 3, 3.0),
        ("real", np.float32(0.5), 0.5),
        ("flag", True, True),
        ("word", "on", "on"),
        ("file", "a/b", Path("a/b")),
        ("maybe", None, None),
        ("maybe", 4, 4),
        ("old_maybe", 1, 1.0),
        ("choice", "off", "off"),
        ("choice", 3, 3),
        ("colour", "red", Colour.RED),
        ("colour", 2, Colour.BLUE),
        ("either", 2, 2),
        ("either", 2.5, 2.5),
        ("either", "x", "x"),
        ("many", [1, 2], [1, 2]),
        ("pair", [1, 2], (1.0, 2.0)),
        ("tail", [1, 2, 3], (1, 2, 3)),
        ("table", {"a": 1}, {"a": 1.0}),
        ("window", {"high": 2}, Window(0.0, 2.0)),
        ("of", "plain", Plain()),
        ("of", {"name": "wrap", "of": "plain"}, Wrap(Plain())),
        ("of", Plain(), Plain()),
        ("several", ["plain", {"name": "plain"}], [Plain(), Plain()]),
        ("endless", math.inf, math.inf),
        ("hidden", 4, 4),
    ],
)
def test_each_annotation_takes_its_values(option, value, kept):
    """A value of the right type reaches the component with exactly the annotated type."""
    read = rich(**{option: value})
    built = getattr(read.build(), "_hidden" if option == "hidden" else option)
    assert built == kept
    assert type(built) is type(kept)
    assert spec(read.given) == read


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("whole", 3.7, "weighting.whole: got 3.7; allowed: an integer"),
        ("whole", 3.0, "got 3.0"),
        ("whole", True, "got true; allowed: an integer"),
        ("whole", "5", "got '5'; allowed: an integer, without quotes"),
        ("whole", None, "got null"),
        ("whole", -1, "got -1; it must be >= 0"),
        ("real", "5", "allowed: a number, without quotes"),
        ("real", "five", "got 'five'; allowed: a number"),
        ("real", False, "got false"),
        ("real", math.nan, "got .nan; allowed: a finite number"),
        ("real", math.inf, "got .inf; allowed: a finite number"),
        ("real", 10**400, "too large"),
        ("endless", -math.inf, "finite"),
        ("flag", 1, "got 1; allowed: true or false"),
        ("flag", "yes", "got 'yes'; allowed: true or false"),
        ("word", 3, "got 3; allowed: text, in quotes"),
        ("word", "\ud800", "not UTF-8"),
        ("file", "", "allowed: a path"),
        ("maybe", 1.5, "got 1.5; allowed: an integer or null"),
        ("choice", "of", "allowed: one of 'on', 'off', 3 (did you mean 'off'?)"),
        ("choice", 3.0, "got 3.0"),
        ("colour", "rde", "did you mean 'red'?"),
        ("either", None, "allowed: a number or an integer or text"),
        ("many", "12", "allowed: a list (an integer each)"),
        ("many", [1, "2"], "weighting.many[1]: got '2'"),
        ("pair", [1], "a list of 2 (a number, a number)"),
        ("pair", {"a": 1}, "a list of 2"),
        ("table", {"a": "b"}, "weighting.table.a: got 'b'"),
        ("table", [1], "allowed: a mapping"),
        ("window", {"hihg": 2}, "unknown key 'hihg' (did you mean 'high'?); allowed: low, high"),
        ("window", {"low": 5}, "weighting.window.high: high 1.0 must be above low 5.0"),
        ("window", 3, "a mapping with low, high"),
        ("of", "plian", "weighting.of: unknown weighting 'plian'"),
        ("of", {"name": "wrap"}, "weighting.of.of: missing; needed is a weighting"),
        ("of", {"k": 1}, "weighting.of: got a mapping without 'name'"),
        ("of", {"name": 3}, "weighting.of.name: got 3"),
        ("of", 3, "weighting.of: got 3; allowed: a weighting"),
        ("several", ["plain", 3], "weighting.several[1]: got 3"),
        ("state", 3, "unknown key 'state'"),
        ("_hidden", 3, "unknown key '_hidden' (did you mean 'hidden'?)"),
        (3, 3, "unknown key 3"),
    ],
)
def test_everything_else_is_refused_in_one_line(option, value, said):
    """A wrong value says the path, what was given and what is allowed."""
    (line,) = problems({"name": "rich", option: value})
    assert said in line


def test_all_problems_are_told_at_once():
    """One error gathers every problem, each on a line of its own."""
    assert len(problems({"name": "rich", "whole": -1, "flag": 1, "wrod": "x"})) == 3


@pytest.mark.parametrize("given", [None, 3, [], {}, "", "a\0b", {"name": ""}, object(), b"plain"])
def test_what_is_no_component_is_refused(given):
    """Anything but a name, a mapping with a name or an instance is a ConfigError."""
    assert len(problems(given)) == 1


def test_a_nested_component_must_be_of_the_annotated_class():
    """An option annotated with a concrete class refuses other components of its kind."""
    (line,) = problems({"name": "wrap", "of": "plain", "only": "rich"})
    assert "a weighting that is a Plain" in line
    assert spec({"name": "wrap", "of": "plain", "only": "plain"}).build() == Wrap(Plain())


def test_a_written_constructor_is_a_schema_too():
    """Keyword parameters are options; the signature comes from the framework."""
    read = spec({"name": "network", "depth": 2}, "denoiser")
    assert read.given == {"name": "network", "width": 8, "depth": 2, "rest": 0.1}
    signature = Signature((8, 8, 1), 17, 17, None, needs_level=False)
    built = read.build(signature)
    assert built.signature is signature
    assert built.depth == 2
    assert problems("network", "denoiser") == ["denoiser.depth: missing; needed is an integer"]
    assert "unknown key 'signature'" in problems(
        {"name": "network", "depth": 1, "signature": 3}, "denoiser"
    )[0]  # fmt: skip


def test_a_constructor_that_refuses_names_the_component():
    """A ValueError while building becomes a ConfigError with the path, its cause kept."""
    read = spec({"name": "network", "depth": 1, "width": 3}, "denoiser")
    with pytest.raises(ConfigError, match="denoiser 'network': width 3 must be even") as caught:
        read.build(None)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_converter_to_a_collection_takes_what_the_field_holds():
    """Items are read by the field's annotation; another converter may take what it likes."""
    given = {"name": "converted", "items": [1, 2.5], "words": ["a"], "other": "12"}
    assert spec(given).build() == Converted((1.0, 2.5), ["a"], "12")
    assert problems({"name": "converted", "items": 3, "words": [1]}) == [
        "weighting.items: got 3; allowed: a list (a number each)",
        "weighting.words[0]: got 1; allowed: text, in quotes",
    ]
    assert problems({"name": "converted", "items": ["a"]}) == [
        "weighting.items[0]: got 'a'; allowed: a number"
    ]


def test_open_options_are_no_options():
    """``**options`` has no names to check a config against: an author writes a mapping instead."""
    (line,) = problems({"name": "open", "order": 2}, "sampler")
    assert "unknown key 'order'; allowed: scheduler" in line


def test_an_annotation_nobody_can_read_harms_only_its_option():
    """An unreadable type is an error when the option is given, and its default is used else."""
    read = spec({"name": "strange", "ok": 2}, "sampler")
    assert read.given == {"name": "strange", "ok": 2}
    assert read.build().fn is print
    assert "which a config cannot express" in problems({"name": "strange", "fn": 1}, "sampler")[0]


def test_an_option_called_name_is_its_authors_mistake():
    """A class whose option would collide with the component's name is refused with the reason."""
    assert "must rename it" in problems({"name": "misnamed"}, "sampler")[0]


def test_an_instance_is_described_by_its_class_and_options():
    """An instance made in Python builds to itself and is written as its class's reference."""
    instance = Wrap(Rich(whole=4))
    read = spec(instance)
    assert read.build() is instance
    assert read.given["name"] == f"{Wrap.__module__}:Wrap"
    assert read.given["of"]["whole"] == 4


def test_instances_without_plain_options_equal_only_themselves():
    """What cannot be written down has no resolved form, and is not mistaken for another."""
    one, other = Free(lambda: 1), Free(lambda: 1)
    assert spec(one).given is None
    assert spec(one) == spec(one)
    assert spec(one) != spec(other)


def test_an_instance_of_another_kind_is_refused():
    """A schedule is no weighting."""

    class Flat(Schedule):
        def log_snr(self, t):
            return t

    assert "allowed: a weighting" in problems(Flat())[0]
    assert isinstance(spec(Flat(), "schedule"), ComponentSpec)


def test_specs_are_names_or_inline_mappings():
    """The command line's SPEC is a name as it stands, or a YAML mapping."""
    assert parse_spec(" elbo ") == "elbo"
    assert parse_spec("./my.py:Mine") == "./my.py:Mine"
    assert parse_spec("{name: sigmoid, k: 2e0}") == {"name": "sigmoid", "k": 2.0}
    assert parse_spec("name: sigmoid") == {"name": "sigmoid"}
    for bad in ["", "  ", "[1, 2]", "{name: ", "{a: !!x b}"]:
        with pytest.raises(ConfigError):
            parse_spec(bad)
