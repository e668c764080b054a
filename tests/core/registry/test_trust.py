"""Runs of others: code that a run names is executed only if the user names or trusts it."""

from __future__ import annotations

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
from elbowroom.errors import ConfigError, ElbowroomError
from elbowroom.files.digest import sealed
from elbowroom.plugins.training.run import resume, train
from elbowroom.registry.trust import UntrustedCodeError

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import tiny_config

EVIL = """\
from pathlib import Path
Path(__file__).with_suffix(".was-run").touch()
import os
from elbowroom import Weighting
class Evil(Weighting):
    def __call__(self, level):
        return level.log_snr * 0 + 1
"""
NET = """\
import os
from torch import nn
class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.width = width
        self.embed, self.head = nn.Embedding(6, width), nn.Linear(width, 5)
    def forward(self, z, log_snr, cond):
        return self.head(self.embed(z))
"""


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    """A run that names registered components only."""
    out = tmp_path_factory.mktemp("plain") / "run"
    train(tiny_config(steps=2, save_every=2, warmup=1), out, without=["console"])
    return out


@pytest.fixture
def stranger(plain_run, tmp_path):
    """A run of somebody else, with evil.py next to it."""
    run = tmp_path / "given" / "run"
    shutil.copytree(plain_run, run)
    (run.parent / "evil.py").write_text(EVIL)
    return run


@pytest.fixture
def own(tmp_path):
    """A run trained with ./my.py:Net and width 6, and that file."""
    file, run = tmp_path / "my.py", tmp_path / "own"
    file.write_text(NET)
    net = {"denoiser": {"name": f"{file}:Net", "width": 6}}
    train(load_config(tiny_config(steps=2, save_every=2), net), run, without=["console"])
    return file, run


def edit(run: Path, given: object, section: str = "weighting") -> None:
    """Put ``given`` into the config and the record of the last checkpoint."""
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config[section] = given
    path.write_text(yaml.safe_dump(config))
    for state in run.glob("checkpoints/*/state.json"):
        record = json.loads(state.read_text())
        record["config"] = config
        state.write_text(json.dumps(sealed(record)))


def was_run(folder: Path) -> bool:
    return any(folder.rglob("*.was-run"))


COMMANDS = {
    "sample": lambda run, out: ("sample", run, "--count", 2, "--out", out),
    "evaluate": lambda run, out: ("evaluate", run, "--samples", 2, "--metric", "bpd", "--out", out),
    "export": lambda run, out: ("export", run, out),
    "resume": lambda run, out: ("train", "--resume", run, "train.steps=3", "--without", "console"),
    "weighting": lambda run, out: ("weighting", "elbo", "--run", run),
}
FORMS = {
    "text": lambda name: name,
    "nested": lambda name: {"name": "isotonic", "of": {"name": "isotonic", "of": {"name": name}}},
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", FORMS)
def test_no_command_executes_code_that_a_run_names(stranger, tmp_path, command, form):
    """Exit code 2 and a message with both ways to proceed; nothing is executed or written."""
    edit(stranger, FORMS[form](f"{stranger.parent}/evil.py:Evil"))
    before = {path: path.stat().st_mtime_ns for path in stranger.rglob("*")}
    ran = elbowroom(*COMMANDS[command](stranger, tmp_path / "out"))
    assert ran.code == 2, ran.err
    assert "evil.py:Evil" in ran.err
    assert "=./my.py:Class" in ran.err
    assert "--trust" in ran.err
    assert not was_run(tmp_path)
    assert not (tmp_path / "out").exists()
    assert before == {path: path.stat().st_mtime_ns for path in stranger.rglob("*")}
    trusted = elbowroom(*COMMANDS[command](stranger, tmp_path / "out"), "--trust")
    assert trusted.code == 0, trusted.err
    assert was_run(tmp_path)


ATTACKS = (
    "__main__:os.popen",
    "__main__:torch.os.popen",
    "os:popen",
    "torch.hub:os.popen",
    "FILE:os.popen",
    "subprocess:Popen",
)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("trust", [False, True])
def test_no_function_or_imported_name_is_a_component(stranger, own, monkeypatch, name, trust):
    """Not even with trust, and not after training with a file that imports os."""
    import os

    import torch

    for key, module in (("os", os), ("torch", torch)):  # as in a script that imports them
        monkeypatch.setattr(sys.modules["__main__"], key, module, raising=False)
    marker = stranger / "PWN"
    name = name.replace("FILE", str(own[0]))
    option = "args" if "Popen" in name else "cmd"
    edit(stranger, {"name": name, option: f"touch {marker}"}, "denoiser")
    with pytest.raises(ElbowroomError) as raised:
        er.load(stranger, trust=trust)
    assert name in str(raised.value)
    assert trust or f"touch {marker}" in str(raised.value)
    assert not marker.exists()


@pytest.mark.parametrize("name", ["antigravity:X", "this:X", "evil:Evil", "evil_package.part:Evil"])
def test_no_module_is_imported_because_a_run_names_it(stranger, tmp_path, monkeypatch, name):
    """Installed or in the working folder."""
    (stranger.parent / "evil_package").mkdir()
    (stranger.parent / "evil_package" / "__init__.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(stranger.parent))
    edit(stranger, name)
    with pytest.raises(UntrustedCodeError):
        er.load(stranger)
    assert name.partition(":")[0] not in sys.modules
    assert not was_run(tmp_path)


def test_a_guide_executes_no_code_that_its_run_names(stranger, plain_run, tmp_path):
    """Autoguidance loads another run: the same rule, and the same --trust."""
    edit(stranger, {"name": "../evil.py:Evil"})
    guidance = f"sampler.guidance={{name: autoguidance, run: {stranger}}}"
    words = ("sample", plain_run, guidance, "--count", 1, "--out", tmp_path / "out")
    ran = elbowroom(*words)
    assert ran.code == 2
    assert "evil.py:Evil" in ran.err
    assert not was_run(tmp_path)
    assert elbowroom(*words, "--trust").code == 0
    assert was_run(tmp_path)


def test_a_folder_called_like_an_override_is_a_folder(stranger, tmp_path, monkeypatch):
    """Only overrides are the user's own, whatever the run's folder is called."""
    named = tmp_path / "override x"
    stranger.rename(named)
    edit(named, f"{tmp_path}/given/evil.py:Evil")
    monkeypatch.chdir(tmp_path)
    for overrides in ((), ("weighting.unknown=3",)):
        with pytest.raises(UntrustedCodeError):
            er.load("override x", overrides)
    assert not was_run(tmp_path)


def test_an_override_admits_what_it_names_alone(stranger, tmp_path):
    """Other references of the run stay refused, also in options that the override keeps."""
    edit(stranger, "../evil.py:Evil", "schedule")
    edit(stranger, {"name": "isotonic", "of": "../evil.py:Evil"})
    for overrides in (("weighting=elbo",), ("schedule=cosine",), ("weighting.name=isotonic",)):
        with pytest.raises(UntrustedCodeError):
            er.load(stranger, overrides)
    edit(stranger, {"name": "simple"})
    with pytest.raises(UntrustedCodeError):
        resume(stranger, config=tiny_config(steps=2, save_every=2, warmup=1))
    assert not was_run(tmp_path)


def test_a_reference_to_a_registered_class_is_that_component(stranger):
    """It needs no trust."""
    from elbowroom.plugins.weightings.paper import Sigmoid

    edit(stranger, to_plain(load_config("digits", {"weighting": Sigmoid(k=2.0)}))["weighting"])
    assert er.load(stranger).parts.config.weighting.component.owner.distribution == "elbowroom"


# -- code of one's own


def test_the_user_names_the_code_or_trusts_the_run(own, tmp_path, monkeypatch):
    """Each time: by the file, by the class in Python, or by trust; recorded options are kept."""
    file, run = own
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UntrustedCodeError, match='"width": 6'):
        er.load(run)
    namespace: dict[str, type] = {"__name__": "__main__"}
    exec(NET, namespace)  # a class of the user's script
    monkeypatch.setattr(sys.modules["__main__"], "Net", namespace["Net"], raising=False)
    for model in (
        er.load(run, ("denoiser=./my.py:Net",)),
        er.load(run, denoiser=namespace["Net"]),
        er.load(run, denoiser=namespace["Net"](width=6)),
        er.load(run, trust=True),
    ):
        assert model.denoiser.width == 6
    with pytest.raises(UntrustedCodeError):
        er.load(run)
    words = ("sample", run, "--count", 1, "--out")
    assert elbowroom(*words, tmp_path / "a", "denoiser=./my.py:Net").code == 0
    assert elbowroom(*words, tmp_path / "b", "--trust").code == 0
    assert elbowroom("train", "--resume", run, "train.steps=3", "denoiser=./my.py:Net").code == 0
    file.rename(tmp_path / "moved.py")
    assert er.load(run, ("denoiser=./moved.py:Net",)).denoiser.width == 6


def test_another_process_takes_an_override_too(own, tmp_path):
    """Nothing is kept between processes."""
    words = [sys.executable, "-m", "elbowroom", "sample", str(own[1]), "--count", "1"]
    done = [
        subprocess.run(more, cwd=tmp_path, capture_output=True, text=True, check=False).returncode
        for more in (words, [*words, "denoiser=./my.py:Net"])
    ]
    assert done == [2, 0]


def test_a_service_can_forbid_references(stranger, monkeypatch, tmp_path):
    """ELBOWROOM_TRUST=0: in configs, overrides and trusted runs."""
    monkeypatch.setenv("ELBOWROOM_TRUST", "0")
    evil = f"{stranger.parent / 'evil.py'}:Evil"
    with pytest.raises(ConfigError, match="ELBOWROOM_TRUST=0 forbids code named by reference"):
        load_config("digits", {"weighting": evil})
    edit(stranger, evil, "denoiser")
    with pytest.raises(ConfigError, match="ELBOWROOM_TRUST=0"):
        er.load(stranger, trust=True)
    assert not was_run(tmp_path)
    monkeypatch.setenv("ELBOWROOM_TRUST", "yes")
    with pytest.raises(ConfigError, match="it must be 0, or not set"):
        load_config("digits", {"weighting": evil})


# -- what else a folder may contain


@pytest.mark.parametrize("name", [".lock", "log.jsonl", "samples", "evaluation", "x/deep"])
@pytest.mark.parametrize("command", ["sample", "evaluate", "resume"])
def test_a_run_with_a_link_that_leads_out_is_refused(stranger, tmp_path, command, name):
    """A command would write to where it leads."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("precious")
    link = stranger / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(mine / "file" if "." in name else mine)
    words = [word for word in COMMANDS[command](stranger, "") if word not in ("--out", "")]
    ran = elbowroom(*words)
    assert ran.code == 2
    assert "is a link that leads out of the run" in ran.err
    assert [path.read_text() for path in mine.iterdir()] == ["precious"]


@pytest.mark.parametrize("name", ["provenance.json", "log.jsonl", "pipe"])
def test_a_run_with_a_pipe_is_refused(stranger, name):
    """Reading it would wait forever."""
    (stranger / name).unlink(missing_ok=True)
    os.mkfifo(stranger / name)
    with pytest.raises(er.RunError, match="neither a file nor a folder"):
        er.load(stranger)


@pytest.mark.parametrize("name", ["../../../mine", "/etc/passwd", "..", "a/b"])
def test_a_checkpoint_has_no_file_outside_of_it(stranger, name):
    """Its files are opened, and linked when a comparison reuses training."""
    (state,) = stranger.glob("checkpoints/*/state.json")
    record = json.loads(state.read_text())
    record["files"][name], record["sha256"][name] = 1, "0" * 64
    state.write_text(json.dumps(sealed(record)))
    with pytest.warns(UserWarning, match="outside itself|is not whole"):
        ran = elbowroom("sample", stranger, "--count", 1)
    assert ran.code == 2


# -- comparisons


def test_points_of_ones_own_comparison_execute_the_configs_code(own, tmp_path):
    """Jobs, finished points and a second call: the config of the comparison names the code."""
    plain = to_plain(tiny_config(steps=2, save_every=2, warmup=1))
    net = {"name": "./my.py:Net", "width": 4}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump({**plain, "denoiser": net}))
    asked = ("compare", tmp_path / "my.yaml", "--metric", "bpd", "--samples", 2,
             "--out", tmp_path / "out", "--json")  # fmt: skip
    for _ in range(2):
        ran = elbowroom(*asked)
        assert ran.code == 0, ran.err
    assert [point["status"] for point in ran.json["points"]] == ["finished"]


def test_a_finished_point_from_elsewhere_executes_no_code(tmp_path, stranger, plain_run):
    """A folder in the place of a point is refused as one of another config."""
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
