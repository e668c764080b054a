"""Code of strangers: a run is data, and what it refers to runs only where its user says so."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import elbowroom as er
import pytest
import yaml
from elbowroom.config.sections import load_config, to_plain
from elbowroom.errors import ConfigError, PluginError
from elbowroom.files.digest import sealed
from elbowroom.registry.component import Owner
from elbowroom.registry.trust import remember, remembered
from elbowroom.training.run import resume, train

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import tiny_config

EVIL = """\
from pathlib import Path
Path(__file__).with_suffix(".was-run").touch()
from elbowroom import Weighting
class Evil(Weighting):
    def __call__(self, level):
        return level.log_snr * 0 + 1
"""
MINE = EVIL.replace("Evil", "Mine")


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    """A run that names nothing but registered components."""
    out = tmp_path_factory.mktemp("plain") / "run"
    train(tiny_config(steps=2, save_every=2, warmup=1), out, without=["console"])
    return out


@pytest.fixture
def stranger(plain_run, tmp_path):
    """A run from somebody else, whose config was edited; evil.py lies beside it."""
    run = tmp_path / "given" / "run"
    shutil.copytree(plain_run, run)
    (run.parent / "evil.py").write_text(EVIL)
    return run


def edit(run: Path, name: object, section: str = "weighting") -> None:
    """The config and the record of the last checkpoint say ``name``."""
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config[section] = name
    path.write_text(yaml.safe_dump(config))
    for state in run.glob("checkpoints/*/state.json"):
        record = json.loads(state.read_text())
        record["config"] = config
        state.write_text(json.dumps(sealed(record)))


def record(run: Path, place: str, owner: Owner | None) -> None:
    path = run / "provenance.json"
    said = json.loads(path.read_text())
    said["components"].pop(place, None)
    if owner is not None:
        said["components"][place] = owner.record()
    path.write_text(json.dumps(said))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def was_run(folder: Path) -> bool:
    return any(folder.rglob("*.was-run"))


COMMANDS = {
    "sample": lambda run, out: ("sample", run, "--count", 2, "--out", out),
    "evaluate": lambda run, out: ("evaluate", run, "--samples", 2, "--metric", "bpd", "--out", out),
    "export": lambda run, out: ("export", run, out),
    "resume": lambda run, out: ("train", "--resume", run, "train.steps=3", "--without", "console"),
}
FORMS = (
    "../evil.py:Evil",
    {"name": "../evil.py:Evil"},
    {"name": "isotonic", "of": "../evil.py:Evil"},
    {"name": "isotonic", "of": {"name": "isotonic", "of": {"name": "../evil.py:Evil"}}},
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("recorded", ["as it was", "forged", "none"])
def test_no_command_runs_code_that_a_strangers_run_names(
    stranger, tmp_path, command, form, recorded
):
    """Exit code 2 and one sentence, nothing executed and nothing written."""
    evil = stranger.parent / "evil.py"
    edit(stranger, form)
    place = "weighting" + ".of" * str(form).count("'of'")
    if recorded == "forged":
        record(stranger, place, Owner(path=str(evil), sha256=sha256(evil)))
    elif recorded == "none":
        (stranger / "provenance.json").unlink()
    before = {path: path.stat().st_mtime_ns for path in stranger.rglob("*")}
    ran = elbowroom(*COMMANDS[command](stranger, tmp_path / "out"))
    assert ran.code == 2, ran.err
    assert "evil.py" in ran.err
    assert not was_run(tmp_path)
    assert not (tmp_path / "out").exists()
    assert before == {path: path.stat().st_mtime_ns for path in stranger.rglob("*")}


@pytest.mark.parametrize("command", COMMANDS)
def test_trusted_code_runs_and_is_shown_with_its_hash(stranger, tmp_path, command):
    """--trust runs what the run recorded, saying which file it is."""
    evil = stranger.parent / "evil.py"
    edit(stranger, {"name": f"{evil}:Evil"})
    record(stranger, "weighting", Owner(path="/elsewhere/evil.py", sha256=sha256(evil)))
    refused = elbowroom(*COMMANDS[command](stranger, tmp_path / "out"))
    assert refused.code == 2
    assert f"{evil} (sha256 {sha256(evil)})" in refused.err
    assert "--trust" in refused.err
    ran = elbowroom(*COMMANDS[command](stranger, tmp_path / "out"), "--trust")
    assert ran.code == 0, ran.err
    assert f"trusting {evil} (sha256 {sha256(evil)})" in ran.err
    assert was_run(tmp_path)


@pytest.mark.parametrize(
    "recorded", [Owner("elbowroom", "0.1.0", "weightings"), Owner(path="e", sha256="0" * 64), None]
)
def test_trust_is_for_what_was_recorded(stranger, tmp_path, recorded):
    """Another supplier, another hash, or none at all: --trust does not help."""
    edit(stranger, "../evil.py:Evil")
    record(stranger, "weighting", recorded)
    with pytest.raises(ConfigError, match=r"recorded|did not record"):
        er.load(stranger, trust=True)
    assert not was_run(tmp_path)


def test_code_inside_the_run_is_not_trusted_ever(stranger):
    """A run's own folder executes nothing, whatever is said."""
    inside = stranger / "evil.py"
    inside.write_text(EVIL)
    edit(stranger, "./evil.py:Evil")
    record(stranger, "weighting", Owner(path=str(inside), sha256=sha256(inside)))
    with pytest.raises(ConfigError, match="never executed"):
        er.load(stranger, trust=True)
    assert not was_run(stranger)


def test_a_folder_called_like_an_override_is_a_folder(stranger, tmp_path, monkeypatch):
    """Only overrides are the user's word, however the run's folder is called."""
    named = tmp_path / "override x"
    stranger.rename(named)
    edit(named, f"{tmp_path}/given/evil.py:Evil")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"evil\.py"):
        er.load("override x")
    with pytest.raises(ConfigError, match=r"evil\.py"):
        er.load("override x", ("weighting.unknown=3",))
    assert not was_run(tmp_path)


# -- modules


@pytest.mark.parametrize("name", ["evil:Evil", "evil_package.part:Evil", "evil_space.part:Evil"])
def test_a_module_beside_the_run_is_not_imported(stranger, tmp_path, name):
    """Started by ``python -m``, which imports from the working folder, it executes nothing."""
    for package, around in (("evil_package", True), ("evil_space", False)):
        folder = stranger.parent / package
        folder.mkdir()
        (folder / "part.py").write_text(EVIL)
        if around:
            (folder / "__init__.py").write_text(EVIL)
    edit(stranger, name)
    record(stranger, "weighting", None)
    done = subprocess.run(
        [sys.executable, "-m", "elbowroom", "sample", "run", "--count", "1"],
        cwd=stranger.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "not trained with here" in done.stderr
    assert not was_run(tmp_path)


@pytest.mark.parametrize("name", ["antigravity:X", "this:X", "xml.dom.minidom:Node", "no_such:X"])
def test_no_importable_module_is_imported_because_a_run_names_it(stranger, name):
    """Any module of the system is code, too."""
    edit(stranger, name)
    record(stranger, "weighting", None)
    sys.modules.pop(name.partition(":")[0], None)
    before = set(sys.modules)
    for trust in (False, True):
        with pytest.raises(ConfigError, match="weighting"):
            er.load(stranger, trust=trust)
    assert name.partition(":")[0] not in set(sys.modules) - before


def test_a_reference_to_what_a_plugin_supplies_is_that_component(stranger):
    """What was made in Python from a registered class is recorded by its module, and is no code."""
    from elbowroom.plugins.weightings.paper import Sigmoid

    edit(stranger, to_plain(load_config("digits", {"weighting": Sigmoid(k=2.0)}))["weighting"])
    assert er.load(stranger).parts.config.weighting.component.owner.distribution == "elbowroom"


# -- one's own


def own_run(tmp_path: Path) -> tuple[Path, Path]:
    file, run = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(MINE)
    config = load_config(tiny_config(steps=2, save_every=2), {"weighting": f"{file}:Mine"})
    train(config, run, without=["console"])
    return file, run


def test_what_was_trained_with_here_needs_no_word(tmp_path):
    """Sampling and resuming one's own run go on as ever, in another process too."""
    file, run = own_run(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "elbowroom", "train", "--resume", str(run), "train.steps=3",
         "--without", "console"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert remembered(Owner(path=str(file), sha256=sha256(file)))


def test_a_changed_file_is_not_what_was_recorded(tmp_path):
    """A later edit is refused, and an override takes it; from then on it is the run's own."""
    file, run = own_run(tmp_path)
    file.write_text(MINE + "# mended\n")
    for trust in (False, True):
        with pytest.raises(ConfigError, match="is not what the run recorded"):
            er.load(run, trust=trust)
        with pytest.raises(ConfigError, match="is not what the run recorded"):
            resume(run, ("train.steps=3",), without=["console"], trust=trust)
    assert er.load(run, (f"weighting={file}:Mine",))
    changes = ("train.steps=3", f"weighting={file}:Mine")
    assert resume(run, changes, without=["console"]).step == 3
    assert er.load(run)


def test_memory_is_of_path_and_content(tmp_path, monkeypatch):
    """The same bytes elsewhere, or other bytes there, are not what was trained with."""
    monkeypatch.setenv("ELBOWROOM_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("elbowroom.registry.trust._session", set())
    known = Owner(path=str(tmp_path / "a.py"), sha256="ab")
    remember([known, Owner("elbowroom", "0.1", "x"), Owner(path="builtins")])
    assert remembered(known)
    assert not remembered(Owner(path=str(tmp_path / "b.py"), sha256="ab"))
    assert not remembered(Owner(path=str(tmp_path / "a.py"), sha256="cd"))
    assert not remembered(Owner(path="builtins"))
    assert len(list((tmp_path / "state").rglob("*.json"))) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"path": 1}'])
def test_a_damaged_memory_is_forgotten_and_made_again(tmp_path, monkeypatch, content):
    """A broken note trusts nothing and stops nothing."""
    monkeypatch.setenv("ELBOWROOM_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("elbowroom.registry.trust._session", set())
    known = Owner(path=str(tmp_path / "a.py"), sha256="ab")
    remember([known])
    (note,) = (tmp_path / "state").rglob("*.json")
    note.write_bytes(content)
    monkeypatch.setattr("elbowroom.registry.trust._session", set())
    assert not remembered(known)
    remember([known])
    monkeypatch.setattr("elbowroom.registry.trust._session", set())
    assert remembered(known)


def test_where_nothing_can_be_kept_training_goes_on(tmp_path, monkeypatch):
    """A state folder that cannot be written is told, and costs the memory alone."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ELBOWROOM_STATE", str(tmp_path / "file" / "state"))
    monkeypatch.setattr("elbowroom.registry.trust._session", set())
    known = Owner(path=str(tmp_path / "a.py"), sha256="ab")
    remember([known])
    assert remembered(known)  # for this process


def test_notes_of_many_processes_are_all_kept(tmp_path):
    """Ranks and points write at the same time; none is lost."""
    program = (
        "import sys; from elbowroom.registry.component import Owner\n"
        "from elbowroom.registry.trust import remember\n"
        "remember(Owner(path=f'/x/{i}.py', sha256=sys.argv[1]) for i in range(40))"
    )
    environment = {**os.environ, "ELBOWROOM_STATE": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(n)], env=environment) for n in (1, 2)
    ]
    assert [one.wait() for one in started] == [0, 0]
    assert len(list(tmp_path.rglob("*.json"))) == 80
    assert not list(tmp_path.rglob("*partial*"))


# -- services


def test_a_service_can_forbid_references_altogether(stranger, tmp_path, monkeypatch):
    """ELBOWROOM_TRUST=0: in configs, in runs, for own and for trusted code, in one sentence."""
    monkeypatch.setenv("ELBOWROOM_TRUST", "0")
    evil = stranger.parent / "evil.py"
    for name in (f"{evil}:Evil", "evil:Evil"):
        with pytest.raises(ConfigError, match="ELBOWROOM_TRUST=0 forbids code named by reference"):
            load_config("digits", {"weighting": name})
    edit(stranger, f"{evil}:Evil")
    record(stranger, "weighting", Owner(path=str(evil), sha256=sha256(evil)))
    remember([Owner(path=str(evil), sha256=sha256(evil))])
    with pytest.raises(ConfigError, match="ELBOWROOM_TRUST=0"):
        er.load(stranger, trust=True)
    assert not was_run(tmp_path)
    assert load_config("digits").weighting.name
    monkeypatch.setenv("ELBOWROOM_TRUST", "yes")
    with pytest.raises(ConfigError, match="it must be 0, or not set"):
        load_config("digits", {"weighting": f"{evil}:Evil"})


def test_a_refusal_is_one_of_plugins(stranger):
    """Whoever calls the registry itself gets the same answer."""
    from elbowroom.registry.components import installed
    from elbowroom.registry.trust import Origin, Vetting

    with pytest.raises(PluginError, match="not trained with here"):
        installed().find(
            "weighting", "../evil.py:Evil", stranger, vetting=Vetting(Origin(folder=stranger))
        )


def test_an_override_vouches_for_what_it_names_alone(stranger, tmp_path):
    """Replacing one reference of a stranger's run lets no other of its references run."""
    file, _ = own_run(tmp_path)
    edit(stranger, f"{file}:Mine")
    edit(stranger, "../evil.py:Evil", "schedule")
    evil = stranger.parent / "evil.py"
    record(stranger, "weighting", Owner(path=str(file), sha256=sha256(file)))
    record(stranger, "schedule", Owner(path=str(evil), sha256=sha256(evil)))
    with pytest.raises(ConfigError, match=r"evil\.py"):
        resume(stranger, ("schedule=cosine", "train.steps=3"), without=["console"])
    with pytest.raises(ConfigError, match=r"evil\.py"):
        er.load(stranger, ("schedule=cosine",))
    assert not (tmp_path / "given" / "evil.was-run").exists()


# -- what a folder may hold beside code


@pytest.mark.parametrize("name", [".lock", "log.jsonl"])
def test_a_run_writes_through_no_link(stranger, tmp_path, name):
    """A link in a stranger's run would have a file of yours emptied or written to."""
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    (stranger / name).unlink(missing_ok=True)
    (stranger / name).symlink_to(mine)
    ran = elbowroom("train", "--resume", stranger, "train.steps=3", "--without", "console")
    assert mine.read_text() == "precious"
    assert ran.code == (2 if name == ".lock" else ran.code), ran.err


# -- comparisons


def test_the_points_of_ones_own_comparison_need_no_word(tmp_path):
    """Jobs, finished points and a second call go on with ./my.py:Class; a changed file is told."""
    (tmp_path / "mine.py").write_text(MINE)
    plain = to_plain(tiny_config(steps=2, save_every=2, warmup=1))
    (tmp_path / "my.yaml").write_text(yaml.safe_dump({**plain, "weighting": "./mine.py:Mine"}))
    asked = ("compare", tmp_path / "my.yaml", "--metric", "bpd", "--samples", 2,
             "--out", tmp_path / "out", "--json")  # fmt: skip
    for _ in range(2):
        ran = elbowroom(*asked)
        assert ran.code == 0, ran.err
    assert [point["status"] for point in ran.json["points"]] == ["finished"]
    (tmp_path / "mine.py").write_text(MINE + "# another\n")
    changed = elbowroom(*asked)
    assert changed.code == 1
    assert "is not what the run recorded" in changed.json["points"][0]["reason"]


def test_a_finished_point_from_elsewhere_runs_no_code(tmp_path, stranger, plain_run):
    """A folder that pretends to be a point of one's comparison is refused unread."""
    config = tmp_path / "plain.yaml"
    config.write_text((plain_run / "config.yaml").read_text())
    edit(stranger, "../../../given/evil.py:Evil")
    point = tmp_path / "out" / "points" / "seed-0"
    point.parent.mkdir(parents=True)
    stranger.rename(point)
    ran = elbowroom("compare", config, "--out", tmp_path / "out", "--metric", "bpd", "--json")
    assert ran.code == 1
    assert "evil.py" in ran.json["points"][0]["reason"]
    assert not was_run(tmp_path)


def test_jobs_import_nothing_from_a_strangers_folder(tmp_path):
    """Where the command would not import from the working folder, its jobs do not either."""
    from elbowroom.plugins.compare.running import _same_imports

    program = (
        "import sys; sys.path.remove('')\n"
        "from elbowroom.plugins.compare.running import _same_imports\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program + "print(_same_imports())"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ("()" if sys.version_info < (3, 11) else "('-P',)")
    assert isinstance(_same_imports(), tuple)
