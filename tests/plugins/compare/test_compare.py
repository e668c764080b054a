"""Comparing: a grid of runs, each only once, whatever happens to the others."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shlex
import shutil
import signal
import statistics
from pathlib import Path

import attrs
import pytest
from elbowroom.config.sections import load_config
from elbowroom.errors import ConfigError
from elbowroom.files.lock import LockedError, locked
from elbowroom.plugins.compare import worker
from elbowroom.plugins.compare.axes import Axis, parse_skip
from elbowroom.plugins.compare.command import _budget_words
from elbowroom.plugins.compare.comparison import Comparison
from elbowroom.plugins.compare.report.page import unfinished
from elbowroom.plugins.compare.results import Budgets, Model, Results, Summary, collect, displays
from elbowroom.plugins.compare.results_files import as_csv, write_results
from elbowroom.plugins.compare.running import last_step, run_comparison
from elbowroom.plugins.compare.shared_training import can_adopt, training_of
from elbowroom.plugins.compare.tables import best_of, heading_of, shown_measurements
from elbowroom.plugins.evaluation.metric import Display, Measurement
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.evaluation.run import evaluation_folder, read_evaluation
from elbowroom.plugins.launchers.launcher import Ended, Launcher
from elbowroom.plugins.launchers.local import Local
from elbowroom.plugins.training.run import resume
from elbowroom.runs.checkpoint import checkpoints
from elbowroom.runs.folder import RunFolder
from hypothesis import given, strategies as st

from tests.helpers.command import elbowroom
from tests.helpers.comparing import PROTOCOL, Here, comparison, config_file
from tests.helpers.reporting import point as made_point
from tests.helpers.tiny_run import same

TWO = ("process=gaussian,masked",)


def run(comparison, points, launcher, *options, **more):
    """Run the points; by name."""
    run_comparison(comparison, points, launcher, *options, **more)
    return {point.name: point for point in points}


# -- several ranks


@pytest.mark.slow
def test_a_point_of_two_ranks_finds_what_one_process_finds(tmp_path):
    """It starts itself under torchrun; training and measurements agree to rounding."""
    found = {}
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        same_noise = ("denoiser.dropout=0.0",)  # whose masks belong to a rank
        asked = comparison(folder, overrides=same_noise, ranks=ranks)
        points = asked.points()[:1]
        states = run(asked, points, Local(threads=1))
        assert {state.status for state in states.values()} == {"finished"}
        found[ranks] = points[0].evaluated.measurements
    assert found[1].keys() == found[2].keys()
    for name, measurement in found[1].items():
        assert found[2][name].value == pytest.approx(measurement.value, rel=2e-2)


def test_the_commands_of_a_point_of_several_ranks_are_torchruns(tmp_path):
    """What is printed is what is run."""
    asked = comparison(tmp_path, ranks=4)
    for command in asked.points()[0].commands:
        assert command.startswith("torchrun --standalone --nproc-per-node 4 -m elbowroom ")


# -- the grid


def test_an_axis_is_a_key_and_values():
    """Commas separate values, except inside brackets and quotes."""
    axis = Axis.parse("weighting=elbo,{name: sigmoid, k: 2},'a,b',[1, 2]")
    assert axis == Axis("weighting", ("elbo", "{name: sigmoid, k: 2}", "'a,b'", "[1, 2]"))


@given(st.lists(st.from_regex(r"[a-z0-9.:-]+", fullmatch=True), min_size=1, unique=True))
def test_plain_values_come_back(values):
    """Whatever is joined by commas is taken apart again."""
    assert Axis.parse("key=" + ",".join(values)).values == tuple(values)


@pytest.mark.parametrize("text", ["process", "=a", "process=", "process=a,,b", "process=a,a"])
def test_a_malformed_axis_is_refused(text):
    """The message shows what was given."""
    with pytest.raises(ConfigError, match="--vary"):
        Axis.parse(text)


def test_seeds_are_not_an_axis():
    """They have an option of their own, since points that differ in the seed alone are averaged."""
    with pytest.raises(ConfigError, match="--seeds"):
        Axis.parse("seed=1,2")


def test_the_grid_is_every_combination_and_every_seed(tmp_path):
    """Each point has its values, its seed and a folder named by them."""
    points = comparison(tmp_path, *TWO, "train.steps=3,4", seeds=2).points()
    assert len(points) == 8 and len({point.name for point in points}) == 8
    first = points[0]
    assert first.name == "process-gaussian__train.steps-3__seed-0"
    assert first.folder == tmp_path / "out" / "points" / first.name
    assert first.config.process.name == "gaussian" and first.config.train.steps == 3
    assert [point.seed for point in points[:2]] == [0, 1]


@given(st.lists(st.text(min_size=1), min_size=2, unique=True))
def test_names_are_safe_and_one_for_each_value(values):
    """Any shell and file system takes them; two values never share a folder."""
    from elbowroom.plugins.compare.comparison import _file_name

    names = [_file_name(f"key={value}") for value in values]
    assert len(set(names)) == len(values)
    assert all(len(name) <= 60 and name == shlex.quote(name) for name in names)


def test_a_component_with_options_has_a_short_label(tmp_path):
    """Its name first; values that are no components stand as they were typed."""
    values = "weighting=elbo,{name: sigmoid, k: 2},{name: simple}"
    made = comparison(tmp_path, values, "train.betas=[0.9, 0.99]")
    labels = [point.label.split(" · ") for point in made.points()]
    assert [weighting for weighting, _ in labels] == ["elbo", "sigmoid (k: 2)", "simple"]
    assert {betas for _, betas in labels} == {"[0.9, 0.99]"}


def test_seeds_begin_at_the_config_s_own(tmp_path):
    """``seed=5`` with three seeds is 5, 6, 7."""
    points = comparison(tmp_path, seeds=3, overrides=("seed=5",)).points()
    assert [point.seed for point in points] == [5, 6, 7]
    assert [point.config.seed for point in points] == [5, 6, 7]


def test_a_value_that_fits_only_some_points_spoils_only_the_others(tmp_path):
    """A point whose config cannot be read stands as failed; the rest is there."""
    points = comparison(tmp_path, *TWO, overrides=("process.fill=draw",)).points()
    # overrides come first, the axis replaces the whole component: both can be read
    assert all(point.config for point in points)
    points = comparison(tmp_path, "weighting=elbo,elbow").points()
    assert [bool(point.config) for point in points] == [True, False]
    assert "did you mean 'elbo'" in points[1].reason


def test_a_mistake_all_points_share_is_raised(tmp_path):
    """Nothing is begun with a key that does not exist."""
    with pytest.raises(ConfigError, match="wieghting"):
        comparison(tmp_path, "wieghting=elbo,fm").points()


def test_an_axis_is_named_once(tmp_path):
    """Two lists for one key have no meaning."""
    with pytest.raises(ConfigError, match="given twice"):
        comparison(tmp_path, *TWO, *TWO)


def test_unwanted_pairs_are_skipped(tmp_path):
    """What --skip names together is left out, and only that."""
    skipping = comparison(
        tmp_path, *TWO, "weighting=elbo,simple",
        skip=(parse_skip("process=gaussian weighting=simple"),),
    )  # fmt: skip
    assert [tuple(point.values.values()) for point in skipping.points()] == [
        ("gaussian", "elbo"), ("masked", "elbo"), ("masked", "simple"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "process", "process=", "=masked", "process='masked"])
def test_a_malformed_skip_is_refused(text):
    """The error says how it is written."""
    with pytest.raises(ConfigError, match="--skip"):
        parse_skip(text)


def test_a_skip_must_name_what_is_varied(tmp_path):
    """A typing mistake does not pass unseen; neither does a grid without points."""
    with pytest.raises(ConfigError, match="no --vary has this value"):
        comparison(tmp_path, *TWO, skip=({"process": "gauss"},))
    nothing = comparison(tmp_path, "process=masked", skip=({"process": "masked"},))
    with pytest.raises(ConfigError, match="nothing to compare"):
        nothing.points()


# -- running it


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A finished comparison of two processes and two seeds."""
    folder = tmp_path_factory.mktemp("compare")
    made = comparison(folder, *TWO, seeds=2)
    launcher, points = Here(), made.points()
    states = run(made, points, launcher)
    return made, points, states, launcher


def test_every_point_is_a_normal_run(compared):
    """Trained to the end, evaluated, in its own folder."""
    _, points, states, launcher = compared
    assert all((state.status, state.reason) == ("finished", "") for state in states.values())
    assert launcher.ran == [point.name for point in points]
    for point in points:
        assert checkpoints(point.folder / "checkpoints")[-1].step == 4
        record = read_evaluation(evaluation_folder(point.folder))
        assert record["protocol"] == json.loads(json.dumps(PROTOCOL.record()))


def test_what_is_finished_is_not_run_again(compared):
    """A second call launches nothing."""
    made, points, _, _ = compared
    launcher = Here()
    assert all(s.status == "finished" for s in run(made, points, launcher).values())
    assert launcher.ran == []


def test_another_protocol_evaluates_anew_and_does_not_train(compared, monkeypatch):
    """More samples are drawn from the same run."""
    made, _, _, _ = compared
    monkeypatch.setattr(worker, "train", lambda *_, **__: pytest.fail("trained again"))
    more = attrs.evolve(made, protocol=attrs.evolve(PROTOCOL, samples=24), seeds=1)
    launcher = Here()
    states = run(more, more.points(), launcher)
    assert len(launcher.ran) == 2 and all(s.status == "finished" for s in states.values())
    back = attrs.evolve(more, protocol=PROTOCOL)
    run(back, back.points(), Here())


def test_results_are_means_and_deviations_over_seeds(compared, tmp_path):
    """results.json has each point, each group, budgets and where these differ."""
    made, points, _, _ = compared
    results = collect(made, points).record()
    assert [g["label"] for g in results["groups"]] == ["gaussian", "masked"]
    for group in results["groups"]:
        values = [
            point["figures"]["bits_per_dim"]["value"]
            for point in results["points"]
            if point["name"] in group["points"]
        ]
        said = group["figures"]["bits_per_dim"]
        assert said["mean"] == pytest.approx(statistics.fmean(values))
        assert said["sd"] == pytest.approx(statistics.stdev(values)) and said["n"] == 2
        assert group["curves"]["loss"]["x"] == [3, 4]
        assert group["weighting"]["verdict"]
    assert results["budgets"]["same"]["training steps"] == 4
    assert set(results["budgets"]["different"]["parameters"]) == {"gaussian", "masked"}
    paths = write_results(collect(made, points))
    assert json.loads(paths["json"].read_text()) == json.loads(json.dumps(results))
    rows = list(csv.DictReader(io.StringIO(paths["csv"].read_text())))
    assert [(row["process"], row["seed"]) for row in rows] == [
        (point.values["process"], str(point.seed)) for point in points
    ]
    assert (
        float(rows[0]["bits_per_dim"]) == results["points"][0]["figures"]["bits_per_dim"]["value"]
    )


def test_a_point_by_hand_is_the_same(compared, tmp_path):
    """The commands of --dry-run give the same weights and measurements."""
    made, points, _, _ = compared
    by_hand = attrs.evolve(made, out=tmp_path)
    (point,) = [c for c in by_hand.points() if c.name == points[0].name]
    for command in point.commands:
        words = shlex.split(command)
        assert words[0] == "elbowroom"
        ran = elbowroom(*words[1:])
        assert ran.code == 0, ran.err
    ours, theirs = (checkpoints(c.folder / "checkpoints")[-1] for c in (point, points[0]))
    assert same(ours, theirs)
    a, b = (read_evaluation(evaluation_folder(c.folder))["figures"] for c in (point, points[0]))
    assert a == b


def test_a_changed_config_is_not_mixed_with_the_old(compared, tmp_path):
    """A folder that was trained with another config stands as failed, with the keys that differ."""
    made, _, _, _ = compared
    other = attrs.evolve(made, overrides=("train.batch_size=4",))
    states = run(other, other.points(), Here())
    for state in states.values():
        assert state.status == "failed" and "train.batch_size" in state.reason
    shorter = attrs.evolve(made, overrides=("train.steps=2",))
    for state in run(shorter, shorter.points(), Here()).values():
        assert state.status == "failed" and "4 steps already" in state.reason


def test_a_longer_run_goes_on(tmp_path):
    """More steps resume the run and evaluate its new end."""
    made = comparison(tmp_path)
    run(made, made.points(), Here())
    longer = attrs.evolve(made, overrides=("train.steps=6",))
    (point,) = longer.points()
    states = run(longer, [point], Here())
    assert states[point.name].status == "finished"
    assert read_evaluation(evaluation_folder(point.folder))["step"] == 6


def test_milestones_are_judged_along_the_run(tmp_path):
    """Their checkpoints stay, measurements are told over the steps, and the end is one of them."""
    made = comparison(tmp_path, seeds=2, overrides=("train.milestones=[1,3]", "train.keep=1"))
    points = made.points()
    run(made, points, Here())
    for point in points:
        assert [c.step for c in checkpoints(point.folder / "checkpoints")][:2] == [1, 3]
    results = collect(made, points)
    (model,) = results.models
    judged = model.milestones["bits_per_dim"]
    assert list(judged) == [1, 3, 4] and judged[3].n == 2
    assert judged[4].mean == model.measurements["bits_per_dim"].mean
    assert len({one.mean for one in judged.values()}) == 3  # other weights, other measurements
    assert model.curves["bits_per_dim_over_training"].x == [1, 3, 4]
    rows = list(csv.DictReader(io.StringIO(as_csv(results))))
    assert [(row["seed"], row["step"]) for row in rows] == [
        (str(point.seed), step) for point in points for step in "134"
    ]
    again = Here()
    run(made, points, again)
    assert again.ran == []
    (by_hand, *_) = points
    assert [word.split()[1] for word in by_hand.commands] == ["train", *["evaluate"] * 3]


def test_milestones_can_be_asked_for_later(tmp_path, monkeypatch):
    """A run that kept the checkpoint is judged there without training; one that did not says so."""
    made = comparison(tmp_path, overrides=("train.save_every=2", "train.keep=9"))
    run(made, made.points(), Here())
    monkeypatch.setattr(worker, "train", lambda *_, **__: pytest.fail("trained again"))
    for step, status in ((2, "finished"), (1, "failed")):
        later = attrs.evolve(made, overrides=(*made.overrides, f"train.milestones=[{step}]"))
        (state,) = run(later, later.points(), Here()).values()
        assert state.status == status
    assert "no checkpoint '1'" in state.reason


CRASH = """
from elbowroom import Weighting

class Crash(Weighting):
    def __call__(self, level):
        raise RuntimeError("boom")
"""


def test_a_failed_point_has_its_reason_and_the_others_go_on(tmp_path):
    """Whether it is a mistake of the config or a crash of its code."""
    (tmp_path / "crash.py").write_text(CRASH)
    crash = f"{tmp_path / 'crash.py'}:Crash"
    made = comparison(tmp_path, f"weighting={crash},elbow,simple")
    points = made.points()
    states = run(made, points, Here())
    assert [states[point.name].status for point in points] == ["failed", "failed", "finished"]
    assert states[points[0].name].reason == "RuntimeError: boom"
    assert "did you mean 'elbo'" in states[points[1].name].reason
    results = collect(made, points)
    assert [point.status for point in results.points] == ["failed", "failed", "finished"]
    assert [len(model.finished) for model in results.models] == [0, 0, 1]
    again = Here()
    run(made, points, again)
    assert again.ran == [points[0].name]  # what failed in running is tried again


def test_a_failed_metric_of_a_point_is_reported_and_tried_again(tmp_path):
    """The point is finished and has its other measurements; the next call evaluates it anew."""
    (tmp_path / "sick.py").write_text(SICK)
    sick = f"{tmp_path / 'sick.py'}:Sick"
    asked = attrs.evolve(PROTOCOL, metrics=("bpd", sick))
    made = comparison(tmp_path, protocol=asked)
    points = made.points()
    states = run(made, points, Here())
    (state,) = states.values()
    assert state.status == "finished" and "RuntimeError: unwell" in state.reason
    results = collect(made, points)
    found = results.points[0].evaluated
    assert "bits_per_dim" in found.measurements and found.failed.keys() == {sick}
    ((_, why),) = unfinished(results)
    assert "unwell" in why
    again = Here()
    run(made, points, again)
    assert again.ran == [points[0].name]


SICK = """
from elbowroom import Metric

class Sick(Metric):
    uses_samples = False

    def compute(self):
        raise RuntimeError("unwell")
"""


def test_a_point_whose_last_checkpoint_is_damaged_is_trained_again_from_the_one_before(tmp_path):
    """Measurements of the end are of the end; and the end is what it was."""
    made = attrs.evolve(comparison(tmp_path), overrides=("train.steps=8",))
    points = made.points()
    run(made, points, Here())
    folder = points[0].folder
    before = (folder / "checkpoints/step-000000008/ema.safetensors").read_bytes()
    (folder / "checkpoints/step-000000008/ema.safetensors").write_bytes(before[:-1] + b"\7")
    shutil.rmtree(evaluation_folder(folder))
    with pytest.warns(UserWarning, match="step-000000008 is left aside"):
        states = run(made, points, Here())
    assert {state.status for state in states.values()} == {"finished"}
    assert read_evaluation(evaluation_folder(folder))["step"] == 8
    assert (folder / "checkpoints/step-000000008/ema.safetensors").read_bytes() == before


def test_two_comparisons_cannot_run_in_one_folder(tmp_path):
    """The second is told so before it touches the first one's jobs."""
    made = comparison(tmp_path)
    with locked(made.out, "comparing"), pytest.raises(LockedError, match="another process is comp"):
        run(made, made.points(), Here())
    assert not (made.out / "jobs").exists()


class Dies(Launcher):
    """A machine that kills what it runs."""

    def run(self, jobs, at_once):
        for job in jobs:
            job.output.write_text("first\nout of memory\n")
            yield Ended(job.name, -9)


def test_a_killed_point_says_so(tmp_path):
    """A job that left no word is told by its signal and its last line."""
    made = comparison(tmp_path)
    (state,) = run(made, made.points(), Dies()).values()
    assert (state.status, state.reason) == ("failed", "killed by signal 9: out of memory")


def test_ctrl_c_ends_cleanly_and_a_second_call_goes_on(tmp_path):
    """Running points save themselves; afterwards nothing is lost and nothing is done twice."""
    config = config_file(tmp_path, steps=4000, log_every=1, save_every=4000)
    made = Comparison(str(config), tmp_path / "out", axes=(Axis.parse(TWO[0]),), protocol=PROTOCOL)
    points = made.points()
    seen = []

    def watch(points):
        seen.append(len(points))
        if any(point.done >= 3 for point in points) and len(seen) > 1:
            os.kill(os.getpid(), signal.SIGINT)

    states = run(made, points, Local(threads=1), 1, watch)
    first, second = (states[point.name] for point in points)
    assert first.status == "interrupted" and "of 4000" in first.reason
    assert second.status == "waiting"
    stopped = checkpoints(points[0].folder / "checkpoints")[-1].step
    assert 3 <= stopped < 4000

    # the rest, made short: the run goes on from where it stopped
    end = stopped + 2
    shorter = attrs.evolve(made, overrides=(f"train.steps={end}",))
    after = run(shorter, shorter.points()[:1], Local(threads=1), 1)
    assert {state.status for state in after.values()} == {"finished"}
    steps = [json.loads(line)["step"] for line in (points[0].folder / "log.jsonl").open()]
    assert steps == list(range(1, end + 1))


def test_the_step_is_read_off_the_end_of_a_log(tmp_path):
    """A last line cut short is no obstacle."""
    log = tmp_path / "log.jsonl"
    assert last_step(log) == 0
    log.write_text('{"step": 1}\n{"step": 2}\n{"ste')
    assert last_step(log) == 2
    log.write_text("")
    assert last_step(log) == 0


# -- tables


def measurement(value, better="lower"):
    return Measurement(value, 0.1, better, 1.0, {"n": 1})


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_a_summary_is_mean_and_sample_deviation(values):
    """± is over training seeds and of the evaluation; one seed has the latter alone."""
    said = Summary.over([measurement(value) for value in values])
    assert said.mean == pytest.approx(statistics.fmean(values))
    assert said.n == len(values) and said.floor == 1.0
    if len(values) == 1:
        assert said.sd is None and said.standard_error == 0.1
    else:
        assert said.sd == pytest.approx(statistics.stdev(values))
        scatter = statistics.variance(values) / len(values)
        assert said.standard_error == pytest.approx(math.sqrt(scatter + 0.1**2))


def test_budgets_that_are_not_known_are_not_printed():
    """A group without a training time does not have the time None."""
    said = _budget_words(Budgets({}, {"training seconds": {"a": 1.5, "b": None}}))
    assert "training seconds differ: 1.5 (a)" in said.plain and "None" not in said.plain


def test_budgets_say_what_is_equal_and_where_they_differ():
    """A group of which nothing is known does not count."""
    models = [
        Model("a", {}, [], budget={"parameters": 10, "steps": 5, "calls": None}),
        Model("b", {}, [], budget={"parameters": 12, "steps": 5, "calls": None}),
        Model("c", {}, []),
    ]
    assert Budgets.of(models) == Budgets({"steps": 5}, {"parameters": {"a": 10, "b": 12}})


def made_up(*models, **options):
    """Results of models with these measurements."""
    made = [
        Model("m", {}, [], {name: Summary.over([one]) for name, one in model.items()})
        for model in models
    ]
    return Results("x", Path("/nowhere"), {}, {}, [], made, **options)


def test_the_best_is_the_lowest_or_the_highest():
    """As the measurement says of itself; where it says nothing, there is none."""
    models = [
        {name: measurement(value, better) for name, value, better in row}
        for row in (
            [("fid", 2.0, "lower"), ("is", 3.0, "higher"), ("odd", 1.0, None)],
            [("fid", 1.0, "lower"), ("is", 2.0, "higher"), ("odd", 2.0, None)],
        )
    ]
    assert best_of(made_up(*models)) == {"fid": 1, "is": 0}
    display = {"is": Display("IS", ranked=False)}
    assert best_of(made_up(*models, display=display)) == {"fid": 1}


def test_a_metric_says_how_its_measurements_are_shown():
    """Its title, and whether it is too much for a terminal, or a detail."""
    display = {"a": Display("A"), "b": Display("B", "report"), "c": Display("C", "detail")}
    results = made_up({name: measurement(1.0) for name in "abcd"}, display=display)
    assert shown_measurements(results) == {"a": "A", "b": "B", "d": "d"}
    assert shown_measurements(results, narrow=True) == {"a": "A", "d": "d"}
    assert [heading_of(results, name) for name in "cd"] == ["C", "d"]


def test_a_comparison_asks_its_metrics_how_to_show_them(tmp_path):
    """Titles are in the results; a metric that does not exist is refused."""
    asked = displays(Comparison("digits", tmp_path, protocol=PROTOCOL))
    assert asked["bits_per_dim_prior"] == Display("bits/dim: prior", "detail")
    assert not asked["neighbours_copied"].ranked
    unknown = EvaluationProtocol(metrics=("no-such-metric",))
    with pytest.raises(ConfigError, match="unknown metric 'no-such-metric'"):
        displays(Comparison("digits", tmp_path, protocol=unknown))


def csv_row(point, key):
    results = Results("x", point.folder.parents[1], {key: []}, {}, [point], [])
    (row,) = csv.DictReader(io.StringIO(as_csv(results)))
    return row


def test_a_csv_keeps_odd_values(tmp_path):
    """Commas, quotes and line breaks in values and reasons come back."""
    odd = 'a,"b"\nc'
    failed = made_point(tmp_path, values={"weighting": odd}, status="failed", reason=odd)
    row = csv_row(failed, "weighting")
    assert row["weighting"] == odd == row["reason"] and row["step"] == ""


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1"])
def test_a_csv_has_no_formulas(tmp_path, text):
    """A spreadsheet shows such a text; a number stays a number."""
    row = csv_row(made_point(tmp_path, values={text: text}, status="failed", reason="-1.5e3"), text)
    assert row[f"'{text}"] == f"'{text}" and row["reason"] == "-1.5e3"


# -- on the command line


def command(folder, *arguments):
    return elbowroom(
        "compare", config_file(folder), "--metric", "bpd", "--metric", "neighbours",
        "--samples", 20, "--out", folder / "out", *arguments,
    )  # fmt: skip


def test_a_dry_run_prints_commands_and_does_nothing(tmp_path):
    """Each point stands alone; one that cannot be run is told, and the exit code is 2."""
    ran = command(tmp_path, "--vary", "weighting=elbo,fm", "--dry-run")
    assert ran.code == 0, ran.err
    ran = command(tmp_path, "--vary", "weighting=elbo,elbow", "--seeds", 2, "--dry-run")
    assert ran.code == 2, ran.err
    assert ran.out.count("elbowroom train") == ran.out.count("elbowroom evaluate") == 2
    assert "cannot be run" in ran.out and not (tmp_path / "out").exists()
    ran = command(tmp_path, "--vary", "weighting=elbo,elbow", "--dry-run", "--json")
    assert list(ran.json["commands"]) == ["weighting-elbo__seed-0"]
    assert ran.code == 2


def test_a_slip_in_one_value_is_refused_before_anything_is_trained(tmp_path):
    """The value, what was meant perhaps, and no folder."""
    ran = command(tmp_path, "--vary", "process=gaussian,maked")
    assert ran.code == 2
    assert "did you mean 'masked'" in ran.err and "nothing is started" in ran.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("metric", ["bpd", "fidd", "{name: kid, blok: 3}"])
def test_a_slip_among_the_metrics_is_refused_before_anything_is_trained(tmp_path, metric):
    """One that is named twice, is not there, or has no such option."""
    ran = command(tmp_path, "--vary", "weighting=elbo,fm", "--metric", metric, "--dry-run")
    assert ran.code == 2 and "metric" in ran.err
    assert not (tmp_path / "out").exists()


def test_the_command_ends_with_a_table_and_files(tmp_path):
    """Points run as processes; a failed one is shown and makes the exit code 1."""
    (tmp_path / "crash.py").write_text(CRASH)
    ran = command(tmp_path, "--vary", f"weighting=elbo,{tmp_path}/crash.py:Crash")
    assert ran.code == 1, ran.err
    assert "finished" in ran.err
    for words in ("bits/dim", "real data", "same for all", "boom", "report.html"):
        assert words in ran.out, words
    for name in ("results.json", "results.csv", "report.html"):
        assert (tmp_path / "out" / name).stat().st_size > 100


WARNS = """
import logging, warnings
from elbowroom import Weighting

class Warns(Weighting):
    def __init__(self):
        warnings.warn("take care")
        logging.getLogger("elbowroom.warns").debug("chose this")

    def __call__(self, level):
        return level.t
"""


def test_a_point_s_log_has_what_train_says(tmp_path):
    """Warnings in a line without code, and what components choose; the command repeats neither."""
    (tmp_path / "warns.py").write_text(WARNS)
    ran = command(tmp_path, "--vary", f"weighting={tmp_path}/warns.py:Warns")
    assert ran.code == 0, ran.err
    (log,) = (tmp_path / "out" / "jobs").glob("*/output.txt")
    lines = log.read_text().splitlines()
    assert lines.count("warning: take care") == 1 and "chose this" in lines
    assert "chose this" not in ran.err and ran.err.count("take care") <= 1


def test_equal_protocols_compare_equal():
    """What decides whether a point is run again survives being written down."""
    one = EvaluationProtocol(metrics=({"name": "kid", "block": 5}, "fid"), features="inception")
    plain = json.loads(json.dumps(one.record()))
    assert EvaluationProtocol(**{**plain, "metrics": tuple(plain["metrics"])}) == one


def test_what_points_need_of_real_data_is_made_once_before_them(tmp_path, monkeypatch):
    """Two points at once find it in the cache, under the very key they ask with."""
    monkeypatch.setenv("ELBOWROOM_CACHE", str(tmp_path / "cache"))
    asked = comparison(tmp_path, *TWO)
    found = []

    class Looking(Here):
        def run(self, jobs, at_once):
            found.append(kept())
            return super().run(jobs, at_once)

    def kept():
        return sorted(file.name for file in (tmp_path / "cache").rglob("*.safetensors"))

    states = run(asked, asked.points(), Looking(), jobs=2)
    assert {state.status for state in states.values()} == {"finished"}
    assert len(found[0]) == 1 and kept() == found[0]


# -- points that share their training


@pytest.fixture
def trained(monkeypatch):
    """The folders that are trained, in order."""
    names = []
    plain = worker.train

    def counted(*a, **k):
        result = plain(*a, **k)
        names.append(result.folder.name)
        return result

    monkeypatch.setattr(worker, "train", counted)
    return names


def test_points_that_differ_in_the_sampler_alone_are_trained_once(tmp_path, trained):
    """Every step count of a process has its own folder and measurements, and the same weights."""
    asked = comparison(tmp_path, *TWO, "sampler.steps=2,4,8")
    states = run(asked, asked.points(), Here())
    assert {state.status for state in states.values()} == {"finished"}
    assert len(states) == 6 and len(trained) == 2
    for process in ("gaussian", "masked"):
        points = [point for point in asked.points() if point.values["process"] == process]
        runs = [RunFolder.open(point.folder) for point in points]
        assert len({run.config().sampler.build().steps for run in runs}) == 3
        assert all(same(runs[0].latest(), run.latest()) for run in runs)
        assert all(run.rows() == runs[0].rows() for run in runs)
        found = [states[point.name].evaluated.measurements for point in points]
        assert len({measurements["bits_per_dim"].value for measurements in found}) == 1
    again = Here()
    run(asked, asked.points(), again)
    assert again.ran == []


@pytest.mark.parametrize(
    "values",
    [
        ("stratified", "adaptive"),
        ("{name: adaptive, bins: 4}", "{name: adaptive, bins: 8}"),
        ("{name: adaptive, memory: 30}", "{name: adaptive, memory: 300}"),
        ("adaptive", "information"),
    ],
    ids=" | ".join,
)
def test_points_that_learn_otherwise_from_losses_never_share_a_training(tmp_path, values):
    """Another part that adapts, or other options of it; the samplers of each share its training."""
    asked = comparison(tmp_path, f"objective.times={','.join(values)}", "sampler.steps=2,4")
    points = asked.points()
    assert len(points) == 4 and all(point.config for point in points)
    trainings = [training_of(point.config) for point in points]
    assert trainings[0] == trainings[1] != trainings[2] == trainings[3]
    lenders = [point.same_training for point in points]
    assert lenders == [None, points[0].folder, None, points[2].folder]


def test_a_finished_training_is_not_taken_over_with_other_adaptive_times(tmp_path, trained):
    """What a run has learned from losses is no other run's, whatever sampler is asked for."""
    asked = comparison(tmp_path, "objective.times=adaptive", "sampler.steps=2")
    (point,) = asked.points()
    run(asked, [point], Here())
    config = point.config
    assert can_adopt(load_config(config, ("sampler.steps=4",)), point.folder)
    for times in ("stratified", "{name: adaptive, bins: 8}"):
        other = load_config(config, (f"objective.times={times}", "sampler.steps=4"))
        assert not can_adopt(other, point.folder)


def test_a_taken_over_run_is_the_run_it_would_have_been(tmp_path, trained):
    """The same measurements as when the point is trained by itself; and it can be lengthened."""
    asked = comparison(tmp_path, "sampler.steps=2,4")
    _, found = run(asked, asked.points(), Here()).values()
    (tmp_path / "alone").mkdir()
    alone = comparison(tmp_path / "alone", "sampler.steps=4")
    (expected,) = run(alone, alone.points(), Here()).values()
    assert (
        found.evaluated.measurements["neighbours_mean"].value
        == expected.evaluated.measurements["neighbours_mean"].value
    )
    assert len(trained) == 2
    longer = resume(
        asked.points()[1].folder, ("train.steps=6",), without={"console", "tensorboard"}
    )
    assert longer.step == 6
    assert asked.points()[0].run.latest().step == 4  # the lender is as it was


def test_points_that_share_their_training_are_lengthened_once(tmp_path, trained):
    """The lender goes on, the others take over what it has learnt since, and their measurements."""
    asked = comparison(tmp_path, "sampler.steps=2,4")
    run(asked, asked.points(), Here())
    longer = comparison(tmp_path, "sampler.steps=2,4", overrides=("train.steps=6",))
    states = run(longer, longer.points(), Here())
    assert {state.status for state in states.values()} == {"finished"}
    first, second = states.values()
    assert trained == [first.folder.name] * 2
    assert second.run.latest().step == 6
    assert same(first.run.latest(), second.run.latest())
    assert second.run.rows() == first.run.rows()
    assert second.run.config().train.steps == 6
    kept = [sorted(c.name for c in point.run.checkpoints.iterdir()) for point in longer.points()]
    assert kept[0] == kept[1]
    assert second.evaluated.step == 6


def test_a_point_whose_lender_failed_trains_by_itself(tmp_path, trained):
    """Nothing is taken from a run that is not finished or not the same."""
    asked = comparison(tmp_path, "sampler.steps=2,4")
    first, second = asked.points()
    assert second.same_training == first.folder and first.same_training is None
    assert not can_adopt(second.config, first.folder)  # nothing there
    run(asked, [second], Here())
    assert len(trained) == 1
    other = load_config(second.config, ("train.learning_rate=0.5",))
    assert can_adopt(first.config, second.folder)
    assert not can_adopt(other, second.folder)


def test_weights_are_copied_where_they_cannot_be_linked(tmp_path, monkeypatch, trained):
    """Another disk, a file system without links: the same run."""
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("no links")))
    asked = comparison(tmp_path, "sampler.steps=2,4")
    states = run(asked, asked.points(), Here())
    assert {state.status for state in states.values()} == {"finished"} and len(trained) == 1
    first, second = (point.run.latest() for point in asked.points())
    assert same(first, second)


def test_points_wait_for_the_training_they_take_over(tmp_path, trained):
    """In whatever order a launcher likes to run what it is given."""

    class Backwards(Here):
        def run(self, jobs, at_once):
            return super().run(jobs[::-1], at_once)

    asked = comparison(tmp_path, "sampler.steps=2,4,8")
    launcher = Backwards()
    run(asked, asked.points(), launcher, jobs=3)
    assert len(trained) == 1
    assert launcher.ran[0] == asked.points()[0].name and len(launcher.ran) == 3
