"""The commands that need no training: what they print, and what they say to wrong input."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest
from PIL import Image

from tests.helpers.command import elbowroom
from tests.helpers.reference import reference

EXAMPLE = """\
process: masked
weighting: {name: sigmoid, k: 2}
"""


def picture_size(path):
    with Image.open(path) as picture:
        picture.verify()
        return picture.size


# -- help and version


def test_help_lists_every_command():
    """--help names each command with one line about it."""
    ran = elbowroom("--help")
    assert ran.code == 0
    for command in ("plugins", "presets", "explain", "weighting", "theory", "figures"):
        assert command in ran.out


@pytest.mark.parametrize(
    "command", ["plugins", "presets", "explain", "weighting", "theory", "figures"]
)
def test_every_command_has_help_with_an_example(command):
    """Each command's own help shows how it is called."""
    ran = elbowroom(command, "--help")
    assert ran.code == 0 and "Example" in ran.out and "--json" in ran.out


def test_it_runs_as_a_module_and_tells_its_version():
    """python -m elbowroom is the same command."""
    ran = subprocess.run(
        [sys.executable, "-m", "elbowroom", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("elbowroom ")


def test_a_reader_that_goes_away_is_no_error():
    """`elbowroom plugins | head -1` ends quietly."""
    command = f"{sys.executable} -m elbowroom plugins | head -n 1"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert ran.stderr == ""


# -- plugins and presets


def test_plugins_lists_components_and_owners():
    """Every kind, every built-in, and who supplies it."""
    found = elbowroom("plugins", "--json").json
    assert {"masked", "gaussian"} <= set(found["components"]["process"])
    assert found["components"]["weighting"]["edm"]["distribution"] == "elbowroom"
    assert found["broken"] == []
    shown = elbowroom("plugins").out
    assert "masked" in shown and "none broken" in shown


HEAVY = ["torch._dynamo", "torch._inductor", "torch.distributed.fsdp", "sympy", "scipy", "sklearn"]
HEAVY += ["pandas", "matplotlib", "diffusers", "transformers", "torchmetrics", "tensorboard"]
HEAVY += ["jinja2", "PIL"]


@pytest.mark.parametrize(
    ("command", "absent"),
    [
        ("plugins --json", ["torch", "numpy"]),
        ("weighting sigmoid", HEAVY),
        ("explain digits", HEAVY),
    ],
)
def test_commands_do_not_import_what_they_do_not_need(command, absent):
    """The quick commands start quickly."""
    code = (
        f"import sys\nsys.argv = ['elbowroom', *{command.split()}]\n"
        "from elbowroom.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"found = set({absent}) & set(sys.modules)\nassert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_presets_are_listed_with_what_they_are():
    """Each preset has a name and a description, and can be explained."""
    found = elbowroom("presets", "--json").json
    assert "digits" in found and all(one["description"] for one in found.values())
    assert "digits" in elbowroom("presets").out


# -- weighting


@pytest.mark.parametrize(("name", "key"), [("edm", "edm"), ("fm", "fm"), ("simple", "simple")])
def test_weighting_gives_the_papers_numbers(name, key):
    """Values at given times are the reference's."""
    row = reference()["masked_table2"]["schedule=cosine,eps=0"]
    ran = elbowroom("weighting", name, "--schedule", "{name: cosine, eps: 0}", "--json")
    found = ran.json
    assert found["t"] == reference()["t_points"]
    assert found["log_snr"] == pytest.approx(row["log_snr_lambda"], abs=1e-10)
    assert found["w"] == pytest.approx(row["weightings"][key]["w_tilde"], rel=1e-10)
    assert found["plain_weight"] == pytest.approx(row["weightings"][key]["ce_weight"], rel=1e-10)


def test_weighting_certifies():
    """IDDPM under masking is told to be no bound, with both distances."""
    certificate = elbowroom(
        "weighting", "iddpm", "--schedule", "{name: cosine, eps: 0}", "--json"
    ).json["certificate"]
    assert certificate["monotone"] is False and certificate["non_negative"] is True
    assert certificate["infinite_at_end"] is False
    assert certificate["isotonic_distance"] == pytest.approx(0.336, abs=6e-4)
    assert 0.4 < certificate["negative_share"] < 0.5


def test_weighting_uses_the_process_natural_schedule():
    """gaussian without --schedule means vp-cosine, masked means cosine."""
    assert elbowroom("weighting", "elbo", "--json").json["schedule"]["name"] == "cosine"
    gaussian = elbowroom("weighting", "elbo", "--process", "gaussian", "--json").json
    assert gaussian["schedule"]["name"] == "vp-cosine"


def test_weighting_free_of_any_schedule():
    """--at-log-snr gives w(lambda); simple says why it has none."""
    row = reference()["w_hat_of_lambda"]
    at = "--at-log-snr=" + ",".join(map(str, row["lambda"]))
    found = elbowroom("weighting", "{name: sigmoid, k: 2}", at, "--json").json
    assert found["w"] == pytest.approx(row["sigmoid_k2"], rel=1e-10)
    assert found["t"] == [None] * len(row["lambda"]) and "why" not in found
    simple = elbowroom("weighting", "simple", at, "--json").json
    assert simple["w"] == [None] * len(row["lambda"]) and "schedule" in simple["why"]
    assert "depends on the schedule" in elbowroom("weighting", "simple", at).out


def test_weighting_repairs():
    """--project shows the isotonic repair and that it is a bound."""
    found = elbowroom("weighting", "edm", "--project", "--at", "0.5,0.95", "--json").json
    assert found["projected"]["certificate"]["is_bound"] is True
    assert found["projected"]["w"][0] == pytest.approx(found["w"][0])
    assert found["projected"]["w"][1] != pytest.approx(found["w"][1])
    assert "the repair is" in elbowroom("weighting", "edm", "--project").out


def test_the_repair_is_a_weighting_like_any_other():
    """{name: isotonic, of: edm} can be named wherever a weighting can."""
    found = elbowroom("weighting", "{name: isotonic, of: {name: edm, mean: 1}}", "--json").json
    assert found["certificate"]["is_bound"] is True
    assert found["weighting"]["of"]["mean"] == 1


def test_weighting_draws(tmp_path):
    """--plot writes a picture and says where."""
    path = tmp_path / "edm.png"
    ran = elbowroom("weighting", "edm", "--project", "--plot", path)
    assert str(path) in ran.out.replace("\n", "") and min(picture_size(path)) > 300


def test_infinities_are_valid_json():
    """What is infinite or undefined is null, never a bare NaN."""
    found = elbowroom("weighting", "simple", "--at", "0.5,1", "--json").json
    assert found["w"][1] is None and found["plain_weight"] == [1.0, 1.0]


def test_a_weighting_of_a_file_needs_no_package(tmp_path, monkeypatch):
    """./my.py:Class names a weighting without any package."""
    (tmp_path / "my.py").write_text(
        "import attrs\nfrom elbowroom import Weighting\n\n\n"
        "@attrs.frozen\nclass MinSNR(Weighting):\n"
        "    gamma: float = 5.0\n\n    def __call__(self, level):\n"
        "        return (self.gamma / level.snr).clamp(max=1) / level.elbo_weight\n"
    )
    monkeypatch.chdir(tmp_path)
    for process in ("gaussian", "masked"):
        found = elbowroom(
            "weighting", "{name: './my.py:MinSNR', gamma: 2}", "--process", process, "--json"
        ).json
        due = [min(1, 2 / math.exp(lam)) for lam in found["log_snr"]]
        assert found["plain_weight"] == pytest.approx(due)


# -- theory


@pytest.mark.parametrize("denoiser", ["optimal", "uniform", "tempered"])
def test_theory_holds_and_gives_its_numbers(denoiser):
    """Both settings: bounds, increments, independent KLs, both sides of Theorem 2."""
    found = elbowroom("theory", "--denoiser", denoiser, "--json").json
    for name in ("masked", "gaussian"):
        one = found[name]
        assert len(one["expected_bounds"]) == 8
        assert one["increments"] == pytest.approx(one["kl"], abs=1e-9)
        for sides in one["theorem2"].values():
            assert sides["left"] == pytest.approx(sides["right"], rel=1e-9)
    row = reference()["theorem_check_masked"]["results"]["cosine,uniform"]
    if denoiser == "uniform":
        assert found["masked"]["expected_bounds"] == pytest.approx(row["E_L(i)"], abs=1e-9)


def test_theory_speaks_plain_words_and_draws(tmp_path):
    """The verdict is a sentence; --plot writes a picture; --steps changes T."""
    path = tmp_path / "theory.png"
    ran = elbowroom("theory", "--steps", "4", "--plot", path)
    assert ran.code == 0 and "each step by its transition KL" in " ".join(ran.out.split())
    assert min(picture_size(path)) > 300
    assert len(elbowroom("theory", "--steps", "4", "--json").json["masked"]["kl"]) == 3


# -- measurements


def test_figures_are_drawn(tmp_path):
    """Both figures of the paper are there, readable in size, in a folder that did not exist."""
    folder = tmp_path / "a" / "b"
    found = elbowroom("figures", "--out", folder, "--json").json
    assert len(found["figures"]) == 2
    for path in found["figures"]:
        width, height = picture_size(path)
        assert width >= 800 and height >= 500
    again = elbowroom("figures", "--out", folder)
    assert again.code == 0 and sorted(os.listdir(folder)) == ["total-weight.png", "weightings.png"]


# -- explain


def test_explain_resolves_a_config(tmp_path):
    """Every default is filled in, each component has its owner, the certificate is there."""
    path = tmp_path / "a.yaml"
    path.write_text(EXAMPLE)
    found = elbowroom("explain", path, "--json").json
    assert found["config"]["weighting"] == {"name": "sigmoid", "k": 2.0}
    assert found["config"]["schedule"]["name"] == "cosine"
    assert found["components"]["process"]["distribution"] == "elbowroom"
    assert found["components"]["process"]["version"]
    assert found["parameters"] is None and "denoiser" in found["parameters_unknown_because"]
    assert found["certificate"]["is_bound"] is True


def test_explain_counts_parameters_and_swaps_by_one_word():
    """One word swaps the process, everything else stays."""
    masked = elbowroom("explain", "digits", "--json").json
    gaussian = elbowroom("explain", "digits", "process=gaussian", "--json").json
    assert masked["parameters"] < 1_000_000 and gaussian["parameters"] < 1_000_000
    changed = {k for k in masked["config"] if masked["config"][k] != gaussian["config"][k]}
    assert changed == {"process", "schedule"}
    assert "parameters" in elbowroom("explain", "digits").out


def test_what_explain_prints_is_a_config(tmp_path):
    """The resolved config of the JSON explains to itself."""
    import yaml

    first = elbowroom("explain", "digits", "--json").json
    path = tmp_path / "resolved.yaml"
    path.write_text(yaml.safe_dump(first["config"]))
    assert elbowroom("explain", path, "--json").json["config"] == first["config"]


# -- wrong input: one message on stderr, exit code 2, no traceback

BAD_FILES = {
    "unreadable": b"process: [masked",
    "empty": b"",
    "not a mapping": b"- a\n- b\n",
    "not utf-8": b"process: \xff\xfe\x00masked",
    "duplicate": b"process: masked\nprocess: gaussian\n",
    "garbage": os.urandom(1 << 16),
    "tag": b"process: !!python/object:os.system masked\n",
}

BAD_CALLS = [
    (["weighting", "edn"], "did you mean 'edm'"),
    (["weighting", "{name: sigmoid, kk: 2}"], "kk"),
    (["weighting", "{name: sigmoid, k: two}"], "two"),
    (["weighting", "{name: cascade, knots: [a, b]}"], "knots[0]: got 'a'; allowed: a number"),
    (["weighting", "{name: cascade, knots: 3}"], "knots: got 3; allowed: a list (a number each)"),
    (["weighting", "{name: cascade, knots: abc}"], "knots: got 'abc'; allowed: a list"),
    (["weighting", "{name: cascade, knots: [.inf]}"], "knots[0]: got .inf; allowed: a finite"),
    (["weighting", "{name: cascade, shares: [.nan]}"], "shares[0]: got .nan; allowed: a finite"),
    (["weighting", "{name: cascade, shares: {a: 1}}"], "shares: got {'a': 1}; allowed: a list"),
    (["weighting", "{name: cascade, knots: [2, 1]}"], "each above the one before"),
    (["weighting", "{name: cascade, shares: [1, 2]}"], "shares must be 6 finite masses"),
    (["weighting", "{name: sigmoid"], "SPEC"),
    (["weighting", ""], "SPEC"),
    (["weighting", "edm", "--process", "gausian"], "did you mean 'gaussian'"),
    (["weighting", "edm", "--schedule", "{name: cosine, eps: 2}"], "eps"),
    (["weighting", "edm", "--schedule", "{name: polynomial, exponent: 0.5}"], "exponent"),
    (["weighting", "edm", "--at", "0.1,x"], "--at"),
    (["weighting", "edm", "--at", "1.5"], "[0, 1]"),
    (["weighting", "edm", "--at", "nan"], "--at"),
    (["weighting", "edm", "--at", "0.1", "--at-log-snr=1"], "exclude"),
    (["weighting", "./nowhere.py:X"], "nowhere.py"),
    (["weighting", "edm", "--plot", "a.nonsense"], "nonsense"),
    (["weighting", "edm", "--plot", "/nowhere/a.png"], "/nowhere"),
    (["theory", "--denoiser", "best"], "best"),
    (["theory", "--steps", "1"], "steps"),
    (["theory", "--steps", "many"], "steps"),
    (["figures"], "--out"),
    (["figures", "--out", "/proc/nowhere"], "/proc/nowhere"),
    (["explain", "digitz"], "did you mean 'digits'"),
    (["explain", "digits", "proces=masked"], "did you mean 'process'"),
    (["explain", "digits", "train.batch_size=3.7"], "train.batch_size"),
    (["explain", "digits", "train.batch_size=true"], "train.batch_size"),
    (["explain", "digits", "train.steps=0"], "train.steps"),
    (["explain", "digits", "nonsense"], "nonsense"),
    (["explain", "digits", "sampler=ddim"], "sampler 'ddim' cannot serve process 'masked'"),
    (["explain", "/"], "/"),
    (["explain", "missing.yaml"], "missing.yaml"),
    (["explain"], "CONFIG"),
    (["nonsense"], "nonsense"),
]


@pytest.mark.parametrize(("call", "says"), BAD_CALLS, ids=lambda value: str(value)[:50])
def test_wrong_calls_are_answered_in_one_message(call, says):
    """The culprit is named on stderr, the exit code is 2, nothing is printed on stdout."""
    ran = elbowroom(*call)
    assert ran.code == 2, ran
    assert says in " ".join(ran.err.split()) or says in ran.err.replace("\n", "")
    assert "Traceback" not in ran.err and ran.out == ""


@pytest.mark.parametrize("name", list(BAD_FILES))
def test_wrong_files_are_answered_in_one_message(name, tmp_path):
    """A file that is no config is named, with what is wrong."""
    path = tmp_path / "bad.yaml"
    path.write_bytes(BAD_FILES[name])
    ran = elbowroom("explain", path)
    assert ran.code == 2 and "bad.yaml" in ran.err.replace("\n", "") and "Traceback" not in ran.err


def test_a_name_with_markup_is_shown_as_it_is():
    """Square brackets in input are not taken for markup."""
    ran = elbowroom("weighting", "[red]edm[/red]")
    assert ran.code == 2 and "[red]edm[/red]" in ran.err


def test_json_stands_alone_whatever_components_print(tmp_path):
    """A component that prints, on import or in use, and what its children print, go to stderr."""
    mine = tmp_path / "loud.py"
    mine.write_text(
        "import subprocess, sys\n"
        "from elbowroom import Weighting\n\n"
        "print('on import')\n"
        "subprocess.run([sys.executable, '-S', '-c', 'print(\"by a child\")'])\n\n\n"
        "class Loud(Weighting):\n"
        "    def __call__(self, level):\n"
        "        print('in use')\n"
        "        return level.noise_share\n"
    )
    command = ["-m", "elbowroom", "weighting", f"{mine}:Loud", "--json"]
    ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["t"]
    for words in ("on import", "by a child", "in use"):
        assert words in ran.stderr
    assert elbowroom("weighting", f"{mine}:Loud", "--json").json["t"]


def test_a_weighting_is_told_in_words():
    """What it does at both ends, beside its values; elbo is the ELBO's own weight."""
    ran = elbowroom("weighting", "elbo", "--process", "gaussian")
    assert ran.code == 0, ran.err
    words = " ".join(ran.out.split())
    assert "at high SNR" in words and "w̃ is constant" in words
    simple = elbowroom("weighting", "simple", "--process", "gaussian", "--json").json["in_words"]
    assert len(simple) == 3
    assert all("the weight on the plain loss is constant" in said for said in simple[:2])
    ends = elbowroom("weighting", "edm", "--schedule", "{name: cosine, eps: 0}", "--json")
    assert not any("nan" in said for said in ends.json["in_words"])


def test_export_without_a_format_takes_the_only_exporter_or_asks(monkeypatch, tmp_path):
    """Where none is installed, or several are, it must be named."""
    from elbowroom.registry.components import reset_registry

    assert "is not a run" in elbowroom("export", tmp_path, tmp_path / "out").err
    monkeypatch.setenv("ELBOWROOM_PLUGINS", "elbowroom/console,elbowroom/export,elbowroom/training")
    reset_registry()
    try:
        ran = elbowroom("export", tmp_path, tmp_path / "out")
    finally:
        monkeypatch.undo()
        reset_registry()
    assert ran.code == 2
    assert "--to: missing. Exporters: none" in ran.err
