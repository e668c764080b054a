"""The registry: plugins out of real metadata on a temporary import path."""

from __future__ import annotations

import inspect
import itertools
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import attrs
import pluggy
import pytest
from elbowroom import ConfigError, PluginError, Schedule
from elbowroom.registry.component import NAME, import_target
from elbowroom.registry.components import Owner, Registry, installed, reset_registry
from elbowroom.registry.discovery import normalised
from elbowroom.registry.hooks import PLUGIN_API, Hooks
from elbowroom.registry.kinds import CORE, KINDS
from hypothesis import given, strategies as st

MODULE_NUMBERS = itertools.count()

GOOD = """
    from elbowroom import Weighting, hookimpl

    class Good(Weighting):
        def __call__(self, level):
            return level.t

    @hookimpl
    def weightings():
        return {"good": Good}
"""


class Site:
    """A folder on the import path, with distributions in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: list[str] = []

    def add(
        self,
        distribution: str,
        source: str = GOOD,
        *,
        version: str = "1.0",
        name: str | None = None,
        module: str | None = None,
        info: str = "dist-info",
    ) -> str:
        """Installs a distribution with one plugin; returns its module."""
        if module is None:
            module = f"plugin_of_a_test_{next(MODULE_NUMBERS)}"
            (self.folder / f"{module}.py").write_text(textwrap.dedent(source))
            self.modules.append(module)
        points = f"[elbowroom]\n{name or distribution} = {module}\n"
        self.add_metadata(distribution, version, points, info)
        return module

    def add_metadata(self, distribution: str, version: str, points: str, info: str) -> None:
        folder = self.folder / f"{distribution.replace('-', '_')}-{version}.{info}"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (folder / ("METADATA" if info == "dist-info" else "PKG-INFO")).write_text(text)
        (folder / "entry_points.txt").write_text(points)

    def load(self, **environ: str) -> Registry:
        """The registry of this folder's distributions alone."""
        found = metadata.distributions(path=[str(self.folder)])
        return Registry.load([p for d in found for p in d.entry_points], environ)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty folder at the head of the import path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    site = Site(tmp_path)
    yield site
    for module in site.modules:
        sys.modules.pop(module, None)


def cause_of(registry: Registry, plugin: str) -> str:
    (found,) = [one for one in registry.plugins if one.name == plugin]
    assert found.error is not None, f"{plugin} is not broken"
    return found.error.cause


# -- what is found


def test_an_announced_plugin_is_found_with_its_owner(site):
    """A component knows the distribution, version and entry point that supplied it."""
    site.add("dist-a", version="2.5", name="entry")
    component = site.load().find("weighting", "good")
    assert component.owner == Owner("dist-a", "2.5", "entry")
    assert component.load().__name__ == "Good"


def test_plugins_are_found_among_what_is_installed(site):
    """Without arguments the registry sees this library's plugins and any other installed one."""
    site.add("dist-a")
    names = {plugin.name: plugin.distribution for plugin in Registry.load(environ={}).plugins}
    assert names["dist-a"] == "dist-a"
    assert names["masked"] == "elbowroom"


def test_no_built_in_plugin_is_broken_and_each_of_its_components_loads():
    """Every built-in component comes in by the common door and keeps its kind's contract."""
    loaded = Registry.load(environ={"ELBOWROOM_PLUGINS": "elbowroom"})
    assert {str(p): str(p.error) for p in loaded.broken} == {}
    for kind in KINDS:
        for name, component in loaded.components(kind).items():
            assert component.owner.distribution == "elbowroom"
            assert callable(loaded.find(kind, name).load())


def test_a_lazy_component_is_imported_only_when_loaded(site):
    """A "module:Class" string costs nothing until the component is used."""
    module = site.add(
        "dist-a",
        """
        from elbowroom import hookimpl

        @hookimpl
        def schedules():
            return {"lazy": "lazy_part_of_a_test:Lazy"}
        """,
    )
    (site.folder / "lazy_part_of_a_test.py").write_text(
        "from elbowroom import Schedule\n"
        "class Lazy(Schedule):\n    def log_snr(self, t):\n        return -t\n"
    )
    site.modules.append("lazy_part_of_a_test")
    component = site.load().find("schedule", "lazy")
    assert module in sys.modules
    assert "lazy_part_of_a_test" not in sys.modules
    assert issubclass(component.load(), Schedule)


def test_a_plugin_may_be_an_object_in_a_module(site):
    """An entry point may name an instance whose methods are the hooks."""
    site.add(
        "dist-a",
        """
        from elbowroom import Weighting, hookimpl

        class Good(Weighting):
            def __call__(self, level):
                return level.t

        class Plugin:
            PLUGIN_API = 1
            @hookimpl
            def weightings(self):
                return {"good": Good}

        plugin = Plugin()
        """,
    )
    (info,) = site.folder.glob("*.dist-info")
    points = (info / "entry_points.txt").read_text().strip()
    (info / "entry_points.txt").write_text(points + ":plugin\n")
    loaded = site.load()
    assert loaded.find("weighting", "good").load().__name__ == "Good"
    assert loaded.plugins[0].api == (1, 0)


def test_every_registering_hook_has_a_kind():
    """The kinds and the hooks that return components are the same list."""
    observers = {name for name in vars(Hooks) if "event" in str(vars(Hooks)[name].__doc__)}
    returning = {
        name
        for name, hook in vars(Hooks).items()
        if not name.startswith("_") and hook.__annotations__.get("return") == "Components"
    }
    assert {kind.hook for kind in CORE} == returning
    assert not returning & observers


@pytest.mark.parametrize("kind", KINDS)
def test_every_contract_is_a_class(kind):
    """Each contract can be imported and is a class of that kind's name."""
    contract = import_target(KINDS[kind].contract)
    assert isinstance(contract, type)
    assert contract.__name__.lower() == kind.replace("_", "")


# -- broken plugins


BREAKAGES = {
    "missing import": ("import a_module_nobody_has", "ModuleNotFoundError: No module named 'a_mod"),
    "syntax": ("def weightings(:", "SyntaxError"),
    "exit": ("raise SystemExit(3)", "SystemExit: 3"),
    "assertion": ("x = 1\nassert x == 2, 'one is not two'", "AssertionError: one is not two"),
    "null bytes": ("x = '\0'", "null bytes"),
    "newer major": ("PLUGIN_API = 2", "made for plugin API 2.0, but elbowroom"),
    "newer major pair": ("PLUGIN_API = (2, 3)", "made for plugin API 2.3"),
    "text version": (
        "PLUGIN_API = '1'",
        "PLUGIN_API is '1'; it must be a number or (major, minor)",
    ),
    "true version": ("PLUGIN_API = True", "PLUGIN_API is True"),
    "long version": ("PLUGIN_API = (1, 0, 0)", "PLUGIN_API is (1, 0, 0)"),
    "negative version": ("PLUGIN_API = (-1, 0)", "PLUGIN_API is (-1, 0)"),
    "list version": ("PLUGIN_API = [1, 0]", "PLUGIN_API is [1, 0]"),
    "unknown hook": (
        "@hookimpl\ndef weigthings(): return {}",
        "unknown hook 'weigthings' (did you mean 'weightings'?)",
    ),
    "unknown argument": (
        "@hookimpl\ndef run_ended(event, trainer): pass",
        "hook run_ended() has no argument 'trainer': write it as run_ended(event)",
    ),
    "argument to a registering hook": (
        "@hookimpl\ndef weightings(registry): return {}",
        "hook weightings() has no argument 'registry': write it as weightings()",
    ),
    "keyword only": (
        "@hookimpl\ndef run_ended(*, event): pass",
        "hook run_ended() cannot take 'event' by keyword only",
    ),
    "a wrapper": (
        "@hookimpl(wrapper=True)\ndef weightings():\n    yield\n    return []",
        "weightings() is a wrapper",
    ),
    "a wrapper that is none": (
        "@hookimpl\ndef run_started(event): raise AssertionError('called')\n"
        "@hookimpl(hookwrapper=True)\ndef step_logged(event): pass",
        "PluginValidationError",
    ),
    "a raising hook": (
        "@hookimpl\ndef weightings(): return {}['x']",
        "KeyError: 'x'",
    ),
    "a list": ("@hookimpl\ndef weightings(): return ['x']", "must return a mapping of names, not"),
    "nothing": ("@hookimpl\ndef weightings(): pass", "must return a mapping of names, not None"),
    "a number for a class": (
        "@hookimpl\ndef weightings(): return {'x': 3}",
        "gives 'x' as 3; it must be a class or",
    ),
    "an instance for a class": (
        "@hookimpl\ndef weightings(): return {'x': object()}",
        "it must be a class or",
    ),
    "a string without a class": (
        "@hookimpl\ndef weightings(): return {'x': 'module.Class'}",
        "gives 'x' as 'module.Class'",
    ),
    "a number for a name": ("@hookimpl\ndef weightings(): return {3: int}", "names something 3"),
    "a name with a slash": (
        "@hookimpl\ndef weightings(): return {'a/b': int}",
        "names something 'a/b'",
    ),
    "one name twice": (
        "@hookimpl\ndef weightings(): return {'x': int}\n"
        "@hookimpl(specname='weightings')\ndef more(): return {'x': str}",
        "weightings() is there twice, and both times names 'x'",
    ),
    "a preset outside its package": (
        "@hookimpl\ndef presets(): return {'x': 'package:../secret.yaml'}",
        "inside the package",
    ),
    "a preset without a package": (
        "@hookimpl\ndef presets(): return {'x': 'file.yaml'}",
        "gives 'x' as 'file.yaml'",
    ),
    "asking for the registry": (
        "from elbowroom import installed\ninstalled()",
        "asked for the registry while plugins are being loaded",
    ),
}


@pytest.fixture
def lenient(monkeypatch):
    """No variable of the surroundings says which plugins are loaded, or how."""
    for name in ("ELBOWROOM_STRICT", "ELBOWROOM_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    reset_registry()
    yield
    reset_registry()


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_plugin_is_reported_and_harms_nothing_else(site, breakage, tmp_path):
    """Whatever is wrong with one plugin, its cause is recorded and the others load."""
    source, expected = BREAKAGES[breakage]
    site.add("dist-bad", "from elbowroom import hookimpl\n" + source, version="0.7")
    site.add("dist-good")
    loaded = installed()
    assert expected in cause_of(loaded, "dist-bad")
    assert [str(plugin) for plugin in loaded.broken] == ["dist-bad (dist-bad 0.7)"]
    assert "Traceback" in loaded.broken[0].error.traceback
    assert loaded.broken[0].components == ()
    assert loaded.find("weighting", "good").load().__name__ == "Good"
    left = {one.plugin_name for one in loaded.hook.run_started.get_hookimpls()}
    assert not any("dist-bad" in name for name in left)  # no observer is left behind


@pytest.mark.parametrize("breakage", sorted(BREAKAGES.keys() - {"asking for the registry"}))
def test_strict_raises_at_once(site, breakage):
    """With ELBOWROOM_STRICT=1 the first broken plugin is an error that names it and the cause."""
    source, expected = BREAKAGES[breakage]
    site.add("dist-bad", "from elbowroom import hookimpl\n" + source, version="0.7")
    with pytest.raises(PluginError) as raised:
        site.load(ELBOWROOM_STRICT="1")
    assert str(raised.value).startswith("plugin dist-bad (dist-bad 0.7) is broken: ")
    assert expected in str(raised.value)


def test_a_half_registered_plugin_is_taken_back(site, monkeypatch):
    """A registration that fails on the way leaves no observer of the plugin behind."""
    register = pluggy.PluginManager.register

    def half_way(manager, plugin, name):
        register(manager, plugin, name)
        raise pluggy.PluginValidationError(plugin, "too late")

    source = """
        from elbowroom import hookimpl

        @hookimpl
        def run_started(event):
            raise AssertionError("called")
    """
    site.add("dist-bad", source)
    monkeypatch.setattr(pluggy.PluginManager, "register", half_way)
    loaded = site.load()
    assert "too late" in cause_of(loaded, "dist-bad")
    loaded.hook.run_started(event=None)


CTRL_C = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)"


def test_an_interrupt_is_no_breakage(site):
    """Ctrl-C while a plugin loads stops the program; it is not recorded as the plugin's fault."""
    site.add("dist-bad", CTRL_C)
    with pytest.raises(KeyboardInterrupt):
        site.load()


@pytest.mark.parametrize(
    "stop",
    [
        "raise SystemExit(0)",
        "raise GeneratorExit",
        "class Mine(BaseException): pass\nraise Mine('enough')",
    ],
)
def test_what_a_plugin_raises_to_stop_everything_stops_that_plugin_only(site, stop):
    """SystemExit and its like are the plugin's failure, reported with its line."""
    module = site.add("dist-bad", stop)
    site.add("dist-good")
    loaded = site.load()
    assert loaded.find("weighting", "good")
    assert f"({site.folder / module}.py, line " in cause_of(loaded, "dist-bad")
    with pytest.raises(PluginError, match="dist-bad"):
        site.load(ELBOWROOM_STRICT="1")


@pytest.mark.parametrize("stop", ["GeneratorExit", "SystemExit"])
def test_a_component_that_stops_everything_is_told_by_name(site, tmp_path, stop):
    """Components that are imported when used, by name, by module and by file."""
    site.modules.append("er_stopper")
    (site.folder / "er_stopper.py").write_text(f"raise {stop}\n")
    site.add(
        "dist-bad",
        """
        from elbowroom import hookimpl

        @hookimpl
        def weightings():
            return {"stopper": "er_stopper:Mine"}
        """,
    )
    loaded = site.load()
    with pytest.raises(PluginError, match=f"'stopper' of dist-bad .*{stop}"):
        loaded.find("weighting", "stopper").load()
    for name in ("er_stopper:Mine", f"{site.folder / 'er_stopper.py'}:Mine"):
        with pytest.raises(PluginError, match=stop):
            loaded.find("weighting", name).load()


def test_ctrl_c_stops_the_import_of_a_component_too(site):
    """By name, by module and by file."""
    site.modules.append("er_slow")
    (site.folder / "er_slow.py").write_text(CTRL_C)
    loaded = site.load()
    for name in ("er_slow:Mine", f"{site.folder / 'er_slow.py'}:Mine"):
        with pytest.raises(KeyboardInterrupt):
            loaded.find("weighting", name)


def test_what_a_component_prints_on_import_does_not_reach_the_output(site, capsys):
    """By name, by module and by file."""
    source = "print('hello')\n" + textwrap.dedent(GOOD)
    site.modules.append("er_loud")
    (site.folder / "er_loud.py").write_text(source)
    loaded = site.load()
    for name in ("er_loud:Good", f"{site.folder / 'er_loud.py'}:Good"):
        loaded.find("weighting", name).load()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("hello") == 2


def test_the_cause_says_where(site):
    """The cause of a failing import names the author's file and line."""
    module = site.add("dist-bad", "\n\nimport a_module_nobody_has")
    cause = cause_of(site.load(), "dist-bad")
    assert cause.endswith(f"({site.folder / module}.py, line 3)")


def test_an_entry_point_to_nothing_is_that_plugins_error(site):
    """A missing module or attribute, or a value that is no reference, breaks one plugin only."""
    site.add("no-module", module="a_module_nobody_has")
    site.add("no-attribute", module="json:nothing")
    site.add("no-sense", module="not a module!")
    site.add("good")
    loaded = site.load()
    missing = "ModuleNotFoundError: No module named 'a_module_nobody_has'"
    assert cause_of(loaded, "no-module") == missing  # no line of ours, which would help nobody
    assert "AttributeError" in cause_of(loaded, "no-attribute")
    assert cause_of(loaded, "no-sense")
    assert loaded.find("weighting", "good")


def test_unreadable_metadata_of_one_distribution_does_not_hide_the_others(site):
    """A malformed entry_points.txt is reported as that distribution's fault."""
    site.add_metadata("dist-bad", "3.1", "[elbowroom]\nthis line has no sign\n", "dist-info")
    site.add("dist-good")
    loaded = Registry.load(environ={})
    assert loaded.find("weighting", "good")
    assert loaded.find("process", "masked")
    if loaded.broken:  # newer Pythons skip such lines
        assert "its entry_points.txt cannot be read" in cause_of(loaded, "dist-bad")
        assert loaded.broken[0].version == "3.1"


def test_what_a_plugin_prints_does_not_reach_the_output(site, capsys):
    """A plugin that prints on import cannot spoil a command's JSON."""
    site.add("dist-a", "print('hello from a plugin')\n" + textwrap.dedent(GOOD))
    site.load()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "hello from a plugin" in printed.err


def test_an_older_minor_and_the_same_major_are_welcome(site):
    """A plugin of this major loads whatever its minor; its API is recorded."""
    major, minor = PLUGIN_API
    site.add("older", f"PLUGIN_API = {major}")
    site.add("newer", f"PLUGIN_API = ({major}, {minor + 7})")
    site.add("silent", "")
    loaded = site.load()
    apis = {plugin.name: plugin.api for plugin in loaded.plugins}
    assert loaded.broken == ()
    assert apis == {"older": (major, 0), "newer": (major, minor + 7), "silent": None}


def test_an_optional_hook_of_a_later_version_is_left_alone(site):
    """A hook marked optional may be unknown here."""
    site.add(
        "dist-a",
        """
        from elbowroom import hookimpl

        @hookimpl(optionalhook=True)
        def hook_of_the_future(something):
            pass
        """,
    )
    assert site.load().broken == ()


def test_a_forgotten_mark_is_noted(site):
    """A function named like a hook but not marked is pointed out when a name is missing."""
    site.add("dist-a", "def weightings():\n    return {'forgotten': int}")
    loaded = site.load()
    assert loaded.broken == ()
    with pytest.raises(PluginError, match=r"weightings\(\) is not marked with @elbowroom.hookimpl"):
        loaded.find("weighting", "forgotten")


# -- names


def test_an_unknown_name_is_answered_with_the_nearest_and_all_others(site):
    """The error of a misspelt name helps to spell it."""
    site.add("dist-a")
    with pytest.raises(PluginError) as raised:
        site.load().find("weighting", "goood")
    assert str(raised.value) == (
        "unknown weighting 'goood' (did you mean 'good'?); known weightings: good"
    )


def test_an_unknown_name_lists_the_broken_plugins_with_their_causes(site):
    """Since nobody knows what a broken plugin would have supplied, a missing name shows it."""
    site.add("dist-bad", "import a_module_nobody_has", version="0.7")
    with pytest.raises(PluginError) as raised:
        site.load().find("weighting", "lost")
    assert "dist-bad (dist-bad 0.7): ModuleNotFoundError" in str(raised.value)


def test_a_name_of_another_kind_is_pointed_out(site):
    """Asking for a process by the name of a weighting says so."""
    site.add("dist-a")
    with pytest.raises(PluginError, match="'good' is the name of a weighting"):
        site.load().find("process", "good")


def test_an_unknown_kind_lists_the_kinds(site):
    """There is no kind but those with a hook."""
    with pytest.raises(PluginError, match=r"unknown kind 'wheighting' \(did you mean 'weighting'"):
        site.load().find("wheighting", "good")


def test_of_two_plugins_with_one_name_neither_wins(site):
    """A name supplied twice is an error naming both distributions; dist/name chooses."""
    site.add("dist-a", version="1.1")
    site.add("dist-b", version="2.2")
    loaded = site.load()
    assert loaded.broken == ()
    with pytest.raises(PluginError) as raised:
        loaded.find("weighting", "good")
    assert str(raised.value) == (
        "weighting 'good' is supplied by dist-a 1.1 and dist-b 2.2: "
        "write dist-a/good or dist-b/good to say which"
    )
    chosen = loaded.find("weighting", "dist-b/good")
    assert chosen.owner.distribution == "dist-b"
    assert chosen.load() is not loaded.find("weighting", "dist-a/good").load()
    assert list(loaded.components("weighting")) == ["dist-a/good", "dist-b/good"]


def test_a_built_in_is_never_silently_replaced(site):
    """A third party that takes a built-in's name makes it ambiguous; it does not get it."""
    site.add(
        "intruder",
        """
        from elbowroom import Process, hookimpl

        @hookimpl
        def processes():
            return {"masked": Process}
        """,
    )
    loaded = Registry.load(environ={})
    with pytest.raises(PluginError, match="elbowroom/masked or intruder/masked"):
        loaded.find("process", "masked")
    assert loaded.find("process", "elbowroom/masked").owner.distribution == "elbowroom"
    assert loaded.find("process", "gaussian").owner.distribution == "elbowroom"


def test_a_distributions_name_is_compared_as_indexes_do(site):
    """Dist_A/good and dist-a/good are the same."""
    site.add("Dist_A")
    site.add("dist-b")
    assert site.load().find("weighting", "dist-a/good").owner.distribution == "Dist_A"


def test_a_distribution_that_is_not_there_is_named(site):
    """dist/name of an absent distribution lists those present; of a broken one, its cause."""
    site.add("dist-a")
    site.add("dist-bad", "import a_module_nobody_has")
    loaded = site.load()
    with pytest.raises(PluginError, match=r"did you mean 'dist-a'\?\).*: dist-a, dist-bad"):
        loaded.find("weighting", "dist-aa/good")
    with pytest.raises(PluginError, match=r"(?s)dist-bad 1.0 supplies no.*a_module_nobody_has"):
        loaded.find("weighting", "dist-bad/good")
    with pytest.raises(PluginError, match="supplies no weighting 'bad'; its weightings: good"):
        loaded.find("weighting", "dist-a/bad")


def test_two_records_of_one_distribution_are_no_collision(site, tmp_path_factory, monkeypatch):
    """An editable install beside stale metadata supplies its names once."""
    module = site.add("dist-a", version="2.0")
    site.add("dist_a", version="1.0", module=module, name="dist-a", info="egg-info")
    assert site.load().find("weighting", "good")
    assert len(site.load().plugins) == 1
    second = tmp_path_factory.mktemp("second")
    monkeypatch.syspath_prepend(str(second))
    Site(second).add("Dist.A", version="0.9", module=module, name="dist-a")
    installed = Registry.load(environ={})
    assert installed.broken == ()
    assert installed.find("weighting", "good").owner.version == "0.9"


def test_one_module_announced_by_two_distributions_is_one_plugin(site):
    """The second announcement of a module is reported, the first works."""
    module = site.add("dist-a")
    site.add("dist-b", module=module)
    loaded = site.load()
    assert loaded.find("weighting", "good").owner.distribution == "dist-a"
    assert "is announced already, as dist-a/dist-a" in cause_of(loaded, "dist-b")


def test_one_distribution_means_one_thing_by_a_name(site):
    """Two plugins of one distribution with one name are that distribution's error."""
    first = site.add("dist-a")
    second = site.add("dist-b")
    (info,) = site.folder.glob("dist_a-*")
    (info / "entry_points.txt").write_text(f"[elbowroom]\na = {first}\nb = {second}\n")
    for stale in site.folder.glob("dist_b-*/*"):
        stale.unlink()
    loaded = site.load()
    assert "supplied already by plugin 'a' of the same distribution" in cause_of(loaded, "b")
    assert loaded.find("weighting", "good").owner.plugin == "a"


@given(st.text(max_size=12))
def test_a_valid_name_can_always_be_told_from_a_reference_and_a_distribution(text):
    """No name that may be registered means anything else in a config."""
    if NAME.fullmatch(text):
        assert not set("/:=, \n") & set(text)


@given(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", fullmatch=True))
def test_normalising_twice_is_normalising_once(name):
    """A distribution's compared name is a fixed point, whatever its case and separators."""
    assert normalised(normalised(name)) == normalised(name) == normalised(name.upper())
    assert normalised(name.replace("_", ".")) == normalised(name)


# -- the environment


def test_plugins_restricts_what_is_loaded(site):
    """ELBOWROOM_PLUGINS admits plugins by entry point, distribution or both, and nothing else."""
    site.add("dist-a", name="a")
    site.add("dist-b", "raise AssertionError('must not be imported')", name="b")
    site.add("dist-c", GOOD.replace('"good"', '"better"'), name="c")
    for value in ("a,c", " a , c ,", "dist-a,dist-c", "dist-a/a,dist-c/c"):
        loaded = site.load(ELBOWROOM_PLUGINS=value, ELBOWROOM_STRICT="1")
        assert [plugin.name for plugin in loaded.plugins] == ["a", "c"], value
        assert loaded.left_out == ("b",)
    with pytest.raises(PluginError, match="ELBOWROOM_PLUGINS leaves out: b"):
        loaded.find("weighting", "of-b")


def test_an_empty_list_restricts_nothing(site):
    """ELBOWROOM_PLUGINS= is as if it were not set."""
    site.add("dist-a")
    assert len(site.load(ELBOWROOM_PLUGINS="").plugins) == 1


def test_a_plugin_that_is_not_there_cannot_be_admitted(site):
    """An unknown name in ELBOWROOM_PLUGINS is an error that lists what exists."""
    site.add("dist-a", name="a-plugin")
    with pytest.raises(ConfigError) as raised:
        site.load(ELBOWROOM_PLUGINS="a-plugni")
    assert str(raised.value) == (
        "ELBOWROOM_PLUGINS names 'a-plugni', which is not installed (did you mean 'a-plugin'?); "
        "plugins: a-plugin; distributions: dist-a"
    )


def test_strict_is_zero_or_one(site):
    """Any other value of ELBOWROOM_STRICT is refused, and 0 is not strict."""
    site.add("dist-bad", "import a_module_nobody_has")
    assert site.load(ELBOWROOM_STRICT="0").broken
    with pytest.raises(ConfigError, match="ELBOWROOM_STRICT is 'yes'; it must be 0 or 1"):
        site.load(ELBOWROOM_STRICT="yes")


# -- loading components


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("'a_module_nobody_has:X'", "No module named 'a_module_nobody_has'"),
        ("'json:Nothing'", "module 'json' has no attribute 'Nothing'"),
        ("'json:dumps'", "must be a class"),
        ("int", "is 'int', which does not derive from elbowroom.Weighting"),
        ("'json:JSONDecoder'", "does not derive from elbowroom.Weighting"),
        ("Weighting", "is abstract: it does not define __call__"),
    ],
)
def test_a_component_that_cannot_be_used_names_its_distribution_and_cause(site, value, message):
    """What is wrong with one component is said when it is loaded, with its owner."""
    site.add(
        "dist-a",
        f"""
        from elbowroom import Weighting, hookimpl

        @hookimpl
        def weightings():
            return {{"odd": {value}}}
        """,
        version="4.2",
    )
    component = site.load().find("weighting", "odd")
    with pytest.raises(PluginError) as raised:
        component.load()
    assert str(raised.value).startswith("weighting 'odd' of dist-a 4.2 ")
    assert message in str(raised.value)


def test_every_kind_has_a_contract():
    """What a plugin supplies is checked against its kind's class, whatever the kind."""
    for kind in KINDS.values():
        due = kind.is_class and kind.name != "section"  # any attrs class will do
        assert inspect.isabstract(import_target(kind.contract)) == due


# -- presets and observers


def test_presets_are_named_with_their_owner(site):
    """A plugin may bring configs, named as components are, and a component of the same name."""
    source = """
        from elbowroom import hookimpl

        @hookimpl
        def presets():
            return {"p": "package:presets/p.yaml"}

        @hookimpl
        def launchers():
            return {"p": int}
    """
    site.add("dist-a", source)
    loaded = site.load()
    owner, location = loaded.presets()["p"]
    assert (owner.distribution, location) == ("dist-a", "package:presets/p.yaml")
    site.add("dist-b", source)
    assert list(site.load().presets()) == ["dist-a/p", "dist-b/p"]


def test_observers_are_called_through_the_hook(site):
    """A plugin's observer gets the event."""
    site.add(
        "dist-a",
        """
        from elbowroom import hookimpl

        @hookimpl
        def step_logged(event):
            event.append("seen")
        """,
    )
    event: list[str] = []
    site.load().hook.step_logged(event=event)
    assert event == ["seen"]


# -- provenance


def test_an_owner_survives_its_record():
    """What a run writes down about an owner reads back the same, and later fields are ignored."""
    for owner in (Owner("d", "1", "p"), Owner(path="/x.py", sha256="ab"), Owner()):
        assert Owner.of_record(owner.record()) == owner
        assert Owner.of_record({**owner.record(), "later": 1}) == owner


def test_a_run_gets_its_component_from_whom_it_recorded(site):
    """A recorded owner decides between two suppliers, and is never replaced by another."""
    site.add("dist-a")
    site.add("dist-b")
    loaded = site.load()

    found = loaded.find("weighting", "good", recorded=Owner("dist-b", "1.0", "dist-b"))
    assert found.owner.distribution == "dist-b"
    with pytest.raises(PluginError) as raised:
        loaded.find("weighting", "good", recorded=Owner("dist-gone", "0.3", "x"))
    assert "the run used dist-gone 0.3: pip install 'dist-gone==0.3'" in str(raised.value)
    with pytest.raises(PluginError, match=r"was supplied by dist-a 1\.0 when it ran"):
        loaded.find("weighting", "dist-b/good", recorded=Owner("dist-a", "1.0", "dist-a"))


def test_plugins_and_components_are_frozen(site):
    """Nobody can change what the registry knows."""
    site.add("dist-a")
    loaded = site.load()
    for thing in (loaded.plugins[0], loaded.find("weighting", "good"), loaded.plugins[0].owner):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            thing.name = "other"


# -- the process-wide registry, and its cost


@pytest.mark.usefixtures("lenient")
def test_the_registry_is_loaded_once(site):
    """The default registry is kept until it is reset."""
    first = installed()
    site.add("dist-a")
    assert installed() is first
    reset_registry()
    assert installed().find("weighting", "good").owner.distribution == "dist-a"


def test_listing_imports_no_torch_and_is_fast():
    """Listing every component of every plugin takes 0.1 s of CPU, without torch (which takes 2)."""
    program = """
import sys, time
begin = time.process_time()
from elbowroom.registry.components import KINDS, installed
registry = installed()
found = {kind: list(registry.components(kind)) for kind in KINDS}
seconds = time.process_time() - begin
heavy = {"torch", "numpy", "sklearn", "matplotlib", "diffusers"} & set(sys.modules)
assert not heavy, heavy
assert "masked" in found["process"], found
print(seconds)
"""
    command = [sys.executable, "-c", program]
    tries = [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    assert min(tries) < 0.5, tries  # a busy machine's caches are cold
