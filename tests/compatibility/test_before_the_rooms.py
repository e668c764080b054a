"""What a version before core had rooms wrote, loads, draws, measures and goes on as it did then.

The folder 0.1.0-flat was made by that version (see make.py). Its numbers were computed on one
machine: another one, or another torch, may round otherwise, so numbers are compared to a tolerance
far below what any change of meaning would do. The keyed noise is the same everywhere.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import warnings
from pathlib import Path

import elbowroom as er
import pytest
import torch
from elbowroom.registry.moved import _RENAMED, MOVED
from safetensors.torch import load_file

from tests.compatibility.make import COMPARE, RUNS
from tests.helpers.command import elbowroom

THEN = Path(__file__).parent / "0.1.0-flat"


def expected(run: str, file: str) -> dict:
    return json.loads((THEN / "expected" / run / file).read_text("utf-8"))


def rows(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def all_but_a_few(drawn: torch.Tensor, then: list) -> bool:
    """Rounding may tip a draw over the edge between two values, now and then."""
    return (drawn != torch.tensor(then)).float().mean() < 0.01


def distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return sum(float((one[name] - other[name]).square().sum()) for name in one) ** 0.5


@pytest.mark.parametrize("run", RUNS)
def test_a_run_draws_what_it_drew(run):
    """The same samples and labels by seed, with as many calls of the network."""
    then = expected(run, "samples.json")
    drawn = er.sample(THEN / run, 6, seed=7, device="cpu")
    assert all_but_a_few(drawn.x, then["x"])
    assert drawn.labels.tolist() == then["labels"]
    assert drawn.calls.tolist() == pytest.approx(then["calls"], abs=1)


@pytest.mark.parametrize("run", RUNS)
def test_a_run_measures_what_it_measured(run):
    """Bits/dim with its three terms and their standard errors."""
    then = expected(run, "figures.json")
    found = er.evaluate(THEN / run, metrics=("bpd",), samples=8, device="cpu").figures
    assert found.keys() == then["figures"].keys()
    for name, figure in found.items():
        assert figure.value == pytest.approx(then["figures"][name]["value"], rel=1e-4)
        error = then["figures"][name]["standard_error"]
        assert figure.standard_error == pytest.approx(error, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("run", RUNS)
def test_a_run_goes_on_to_the_same_end(run, tmp_path):
    """Weights, optimiser, averages, examples, noise and dropout: all go on where they were.

    Up to the order in which a machine sums: others end 1 to 4 % of the way apart, since AdamW makes
    full steps of gradients that are next to nothing. Momenta, noise or dropout that do not go on
    are 13 % and more.
    """
    folder = shutil.copytree(THEN / run, tmp_path / run)
    (begun,) = (folder / "checkpoints").iterdir()
    begun = load_file(begun / "ema.safetensors")
    er.resume(folder, device="cpu", without=("tensorboard", "console"))
    final = max((folder / "checkpoints").iterdir())
    then = load_file(THEN / "expected" / run / "ema.safetensors")
    assert distance(load_file(final / "ema.safetensors"), then) < 0.07 * distance(begun, then)
    for row, old in zip(
        rows(folder / "log.jsonl"), rows(THEN / "expected" / run / "log.jsonl"), strict=True
    ):
        assert row["step"] == old["step"]
        for name in ("loss", "bits_per_dim", "gradient_norm", "learning_rate"):
            assert row[name] == pytest.approx(old[name], rel=1e-3)


def test_an_export_is_a_pipeline_that_draws_the_same():
    """By the class and the module that its model card names."""
    assert "from elbowroom.plugins.diffusers_export import ElbowroomPipeline" in (
        THEN / "export" / "README.md"
    ).read_text("utf-8")
    from elbowroom.plugins.diffusers_export import ElbowroomPipeline

    pipe = ElbowroomPipeline.from_pretrained(THEN / "export")
    pipe.set_progress_bar_config(disable=True)
    drawn = pipe(batch_size=6, seed=7)
    assert len(drawn.images) == 6
    assert all_but_a_few(drawn.tokens, expected("gaussian", "samples.json")["x"])


def test_a_comparison_is_taken_over_as_it_is(tmp_path, monkeypatch):
    """Its points are finished: none is run again, and the figures are those found then."""
    shutil.copytree(THEN / "comparison", tmp_path / "comparison")
    shutil.copy(THEN / "comparison.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    then = json.loads((tmp_path / "comparison" / "results.json").read_text("utf-8"))
    ran = elbowroom(*COMPARE)
    assert ran.code == 0, ran.err
    now = json.loads((tmp_path / "comparison" / "results.json").read_text("utf-8"))
    assert [point["figures"] for point in now["points"]] == [
        point["figures"] for point in then["points"]
    ]
    assert not (tmp_path / "comparison" / "jobs").exists()
    assert (tmp_path / "comparison" / "report.html").exists()


ROOMS = {old for old in MOVED if MOVED[old].startswith(f"{old}.")}


@pytest.mark.parametrize("old", sorted(MOVED.keys() - ROOMS))
def test_a_module_that_moved_says_where_it_is(old, monkeypatch):
    """It has what the module of now has, and a warning names that."""
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is {MOVED[old]} now;"):
        module = importlib.import_module(old)
    now = importlib.import_module(MOVED[old])
    names = [name for name in vars(now) if not name.startswith("_")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no further ones
        assert all(getattr(module, name) is getattr(now, name) for name in names)


@pytest.mark.parametrize(
    ("old", "name", "now"),
    [
        ("registry", "registry", er.installed),
        ("config", "Config", er.Config),
        ("certificate", "certify", er.certify),
        ("objective", "Objective", er.Objective),
        ("sampling", "draw", er.draw),
        ("sampling", "load_run", er.load_run),
        ("evaluation", "Protocol", er.EvaluationProtocol),
        ("training", "train", er.train),
        ("path", "Path", er.Trajectory),
        ("level", "spread", er.broadcast_over),
        ("guidance", "guided", er.Diffusion.guided),
    ],
)
def test_a_name_that_moved_says_where_it_is(old, name, now):
    """A module of before became a room, or the name became another one."""
    with pytest.warns(DeprecationWarning, match=rf"{old}\.{name} is elbowroom\.[\w.]+ now"):
        found = getattr(importlib.import_module(f"elbowroom.{old}"), name)
    assert found is now or found.__name__ == now.__name__


@pytest.mark.parametrize("old", sorted(_RENAMED))
def test_every_renamed_name_leads_somewhere(old):
    """The table has no place that is not there."""
    module, _, name = old.rpartition(".")
    with pytest.warns(DeprecationWarning, match=rf"{old} is elbowroom\.[\w.]+ now"):
        assert getattr(importlib.import_module(f"elbowroom.{module}"), name) is not None


def test_a_name_that_is_no_more_is_refused_in_a_sentence():
    """With the place of the rest."""
    with pytest.raises(AttributeError, match=r"is elbowroom\.config\.sections now, which has no"):
        _ = importlib.import_module("elbowroom.config").nonsense
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("elbowroom.nonsense")


def test_no_public_name_is_that_of_a_module_of_before():
    """Importing such a module by its old name would put it in the name's place."""
    before = {old.split(".")[1] for old in MOVED if not old.startswith("elbowroom.plugins")}
    forms = {n.replace("-", "_") for n, c in er.installed().commands().items() if c.python_form()}
    assert forms and not before & (set(er.__all__) | forms)
