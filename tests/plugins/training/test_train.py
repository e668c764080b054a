"""Whole runs: the same every time, whatever stops them on the way."""

from __future__ import annotations

import json
import os
import signal
import stat

import attrs
import pluggy
import pytest
import torch
from elbowroom import Weighting, installed
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import load_config
from elbowroom.errors import ConfigError, IncompatibleError, PluginError
from elbowroom.plugins.training.log_window import boundary
from elbowroom.plugins.training.loop import INTERRUPTED
from elbowroom.plugins.training.non_finite import NonFiniteError
from elbowroom.plugins.training.run import reproduce, resume, train
from elbowroom.registry.hooks import Hooks, hookimpl
from elbowroom.runs.checkpoint import CheckpointError, load_weights
from elbowroom.runs.folder import RunFolder
from elbowroom.runs.run_error import RunError

from tests.helpers.tiny_run import curve, found, same, tiny_config

QUIET = {"console", "tensorboard"}


@pytest.fixture(autouse=True)
def _few_looks(monkeypatch):
    """A coarse validation is enough here."""
    monkeypatch.setattr("elbowroom.plugins.training.validation._DRAWS", 128)


@pytest.fixture
def watch(monkeypatch):
    """Calls ``on(name, event)`` at every event of every run."""

    def install(ranks):
        manager = pluggy.PluginManager("elbowroom")
        manager.add_hookspecs(Hooks)

        class Watcher:
            @hookimpl
            def run_started(self, event):
                ranks("run_started", event)

            @hookimpl
            def step_logged(self, event):
                ranks("step_logged", event)

            @hookimpl
            def progressed(self, event):
                ranks("progressed", event)

            @hookimpl
            def evaluated(self, event):
                ranks("evaluated", event)

            @hookimpl
            def checkpoint_saved(self, event):
                ranks("checkpoint_saved", event)

            @hookimpl
            def run_ended(self, event):
                ranks("run_ended", event)

        manager.register(Watcher())
        watched = type("Watched", (), {"hook": manager.hook})
        real = installed()
        watched.__getattr__ = lambda self, name: getattr(real, name)
        monkeypatch.setattr("elbowroom.installed", watched)

    return install


@pytest.mark.parametrize("process", ["masked", "gaussian"])
def test_one_word_swaps_the_process_and_training_learns(tmp_path, process):
    """The same config trains under both processes, and the validation bound falls."""
    config = tiny_config(
        process, steps=60, learning_rate=1e-2, evaluate_every=20, save_every=50, log_every=20
    )
    result = train(config, tmp_path / "run", without=QUIET)
    assert result.reason == "finished"
    assert result.exit_code == 0
    assert result.step == 60
    rows = RunFolder(tmp_path / "run").rows()
    bits = [r["validation/bits_per_dim"] for r in rows if "validation/bits_per_dim" in r]
    assert len(bits) == 3
    assert bits[-1] < bits[0]
    assert [r["step"] for r in rows if "loss" in r] == [20, 40, 60]
    assert result.latest == tmp_path / "run/checkpoints/step-000000060"


def test_a_seed_is_a_run(tmp_path):
    """Twice the same seed: equal bit by bit, dropout included; another seed: not."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(tiny_config(seed=seed), tmp_path / name, without=QUIET)
    a, b, c = (found(tmp_path / name)[-1] for name in "abc")
    assert same(a, b)
    assert not same(a, c)


def test_torchs_own_generator_is_left_as_it_was(tmp_path):
    """A run draws from no global state that the caller could see."""
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(tiny_config(steps=2), tmp_path / "run", without=QUIET)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_a_resumed_run_is_the_run_that_was_never_stopped(
    tmp_path, watch, number
):
    """Interrupted between two logging steps, resumed: same weights, same curve, bit by bit."""
    config = tiny_config(evaluate_every=6, log_every=5, save_every=100)
    train(config, tmp_path / "whole", without=QUIET)
    reasons = []

    def ranks(name, event):
        if name == "evaluated" and event.step == 6 and not reasons:
            os.kill(os.getpid(), number)
        if name == "run_ended":
            reasons.append(event.reason)

    watch(ranks)
    stopped = train(config, tmp_path / "cut", without=QUIET)
    assert stopped.reason == "interrupted"
    assert stopped.exit_code == INTERRUPTED
    assert stopped.step == 6
    result = resume(tmp_path / "cut", without=QUIET)
    assert result.step == 12
    assert reasons == ["interrupted", "finished"]
    assert same(found(tmp_path / "whole")[-1], found(tmp_path / "cut")[-1])
    whole, cut = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "cut")
    assert curve(whole.rows()) == curve(cut.rows())


def test_a_run_that_died_before_its_first_checkpoint_can_be_resumed(tmp_path):
    """Without any checkpoint a run begins again from its seed."""
    config = tiny_config(steps=3)
    RunFolder.create(tmp_path / "dead", config)
    resume(tmp_path / "dead", without=QUIET)
    train(config, tmp_path / "alive", without=QUIET)
    assert same(found(tmp_path / "dead")[-1], found(tmp_path / "alive")[-1])


def test_a_finished_run_resumes_to_nothing_or_to_more_steps(tmp_path):
    """Only its length and its logging may change, and the change is kept."""
    train(tiny_config(steps=4), tmp_path / "run", without=QUIET)
    assert resume(tmp_path / "run", without=QUIET).step == 4
    assert resume(tmp_path / "run", ["train.steps=6"], without=QUIET).step == 6
    assert RunFolder(tmp_path / "run").config().train.steps == 6
    with pytest.raises(RunError, match=r"is at step 6 already, beyond train\.steps=5"):
        resume(tmp_path / "run", ["train.steps=5"])


def test_a_changed_config_is_refused_with_the_keys_that_differ(tmp_path):
    """The message says what the run has and what was asked for."""
    train(tiny_config(steps=2), tmp_path / "run", without=QUIET)
    with pytest.raises(RunError) as caught:
        resume(tmp_path / "run", ["train.learning_rate=0.5", "seed=7", "train.steps=5"])
    assert "train.learning_rate: 0.001 in the run, 0.5 now" in str(caught.value)
    assert "seed: 0 in the run, 7 now" in str(caught.value)
    assert "train.steps: 2" not in str(caught.value)
    with pytest.raises(RunError, match=r'process\.name: "masked" in the run, "gaussian" now'):
        resume(tmp_path / "run", config=tiny_config("gaussian", steps=2))
    file = tmp_path / "run/config.yaml"  # edited by hand
    file.write_text(file.read_text().replace("batch_size: 8", "batch_size: 4"))
    with pytest.raises(RunError, match=r"train\.batch_size: 8 in the run, 4 now"):
        resume(tmp_path / "run")


def test_a_missing_plugin_on_resume_names_the_package_to_install(tmp_path):
    """The distribution and version that supplied the component are in the run's provenance."""
    train(tiny_config(steps=2), tmp_path / "run", without=QUIET)
    config, record = tmp_path / "run/config.yaml", tmp_path / "run/provenance.json"
    config.write_text(config.read_text().replace("name: simple", "name: min-snr"))
    owners = json.loads(record.read_text())
    owners["components"]["weighting"] = {"distribution": "elbowroom-min-snr", "version": "1.2"}
    record.write_text(json.dumps(owners))
    with pytest.raises((PluginError, ConfigError), match=r"pip install 'elbowroom-min-snr==1\.2'"):
        resume(tmp_path / "run")


def test_a_folder_in_use_is_never_written_over(tmp_path):
    """Another run's folder, or any other that is not empty, is refused."""
    train(tiny_config(steps=2), tmp_path / "run", without=QUIET)
    with pytest.raises(RunError, match=r"has a run already, at step 2: go on with --resume"):
        train(tiny_config(steps=2), tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("precious")
    with pytest.raises(RunError, match="not empty"):
        train(tiny_config(steps=2), tmp_path / "mine")
    with pytest.raises(RunError, match="not a run"):
        resume(tmp_path / "mine")


def test_what_was_logged_after_the_last_checkpoint_is_logged_again(tmp_path):
    """A resumed run's log has each step once; a line cut short by a kill is dropped."""
    folder = RunFolder.create(tmp_path / "run", tiny_config())
    for step in (2, 4, 6):
        folder.append({"step": step, "loss": 1.0})
    with folder.log.open("a") as file:
        file.write('{"step": 8, "lo')
    folder.rewind(4)
    assert [row["step"] for row in folder.rows()] == [2, 4]
    folder.append({"step": 6})
    assert [row["step"] for row in folder.rows()] == [2, 4, 6]


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    """The second is told so."""
    train(tiny_config(steps=2), tmp_path / "run", without=QUIET)
    with (
        RunFolder(tmp_path / "run").locked(),
        pytest.raises(RunError, match="another process is training"),
    ):
        resume(tmp_path / "run", ["train.steps=4"])


def test_an_unwritable_folder_is_an_error_at_start(tmp_path):
    """Said before any training."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write to .*: Not a directory"):
        train(tiny_config(), tmp_path / "file" / "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_an_error_at_start(tmp_path):
    """Said before any training."""
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked").chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(RunError, match=r"cannot write to .*: Permission denied"):
        train(tiny_config(), tmp_path / "locked" / "run")


def test_too_small_a_disk_is_an_error_at_start(tmp_path, monkeypatch):
    """Said before any training, with what is needed and what there is."""
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("elbowroom.plugins.training.disk_space.shutil.disk_usage", lambda _: usage)
    with pytest.raises(CheckpointError, match=r"a checkpoint takes .*KiB, and 100 bytes are free"):
        train(tiny_config(), tmp_path / "run", without=QUIET)


@attrs.frozen
class Bad(Weighting):
    """NaN at levels noisier than those looked at first: some step will meet one."""

    beyond: float = 0.993

    def __call__(self, level):
        return torch.where(level.t > self.beyond, float("nan"), 1.0)


@pytest.mark.parametrize(("process", "micro"), [("masked", None), ("gaussian", 3)])
def test_a_loss_that_is_not_finite_stops_the_run_and_leaves_what_reproduces_it(
    tmp_path, process, micro
):
    """Stopped before the update; the dump's weights and step give the same NaN again."""
    config = load_config(
        tiny_config(process, batch_size=4, micro_batch=micro, steps=40, save_every=1, log_every=7),
        {"weighting": Bad()},
    )
    with pytest.raises(NonFiniteError, match=r"not finite \(at t = 0\.99") as caught:
        train(config, tmp_path / "run", without=QUIET)
    step, dump = caught.value.step, caught.value.dump
    last = found(tmp_path / "run")[-1]
    assert last.step == step > 0
    weights = last.read("model")
    assert all(t.isfinite().all() for t in weights.values())
    from elbowroom.runs.checkpoint import read_tensors

    kept = read_tensors(dump / "model.safetensors")
    assert all(torch.equal(kept[name], weights[name]) for name in weights)
    told = json.loads((dump / "report.json").read_text())
    assert told["reproduced"]
    assert told["step"] == step
    assert len(told["examples"]) == 4
    assert [t > 0.993 for t in told["t"]] == [loss == "nan" for loss in told["losses"]]
    losses = reproduce(dump, trust=True)
    assert losses.per_example.isnan().nonzero().flatten().tolist() == told["bad_positions"]
    with pytest.raises(NonFiniteError) as again:
        resume(tmp_path / "run", without=QUIET, trust=True)
    assert again.value.step == step


def test_observers_hear_of_everything_in_order(tmp_path, watch):
    """Start, logs, evaluations with pictures, checkpoints, end; the area of curves is bits/dim."""
    heard = []
    watch(lambda name, event: heard.append((name, event)))
    train(tiny_config(steps=4, log_every=2, evaluate_every=4), tmp_path / "run")
    going = [event for name, event in heard if name == "progressed"]
    assert going[0].step == 1 and going[-1].doing == "validating"  # how many depends on the clock
    assert [name for name, _ in heard if name != "progressed"] == [
        "run_started",
        "step_logged",
        "step_logged",
        "evaluated",
        "checkpoint_saved",
        "run_ended",
    ]
    events = dict(heard)
    logged, evaluated = events["step_logged"], events["evaluated"]
    assert logged.config["process"]["name"] == "masked"
    x, y = logged.curves["elbo_by_level"]
    area = float(y.sum() * (x[1] - x[0]))
    parts = build_parts(tiny_config())
    at_the_ends = boundary(build_model(parts), parts.data.split("train"), torch.device("cpu"))
    assert area + at_the_ends == pytest.approx(logged.scalars["bits_per_dim"], rel=1e-9)
    assert evaluated.images["samples"].dtype == torch.uint8
    height, width, colours = evaluated.images["samples"].shape
    assert height == width >= 4 * 4
    assert colours == 3
    assert events["checkpoint_saved"].path == tmp_path / "run/checkpoints/step-000000004"
    assert events["run_ended"].reason == "finished"


def test_a_failing_run_tells_its_observers_why(tmp_path, watch):
    """A progress bar can be closed, whatever happened."""
    heard = []
    watch(lambda name, event: heard.append((name, event.reason)))
    config = load_config(tiny_config(batch_size=4, steps=40), {"weighting": Bad()})
    with pytest.raises(NonFiniteError):
        train(config, tmp_path / "run")
    assert heard[-1][0] == "run_ended"
    assert heard[-1][1].startswith("failed: step ")


def test_the_best_checkpoint_outlives_newer_ones(tmp_path, monkeypatch):
    """Kept: the last two, and the one with the lowest validation bits/dim."""
    bits = iter([3.0, 1.0, 2.0, 2.5, 2.2, 2.1])
    monkeypatch.setattr(
        "elbowroom.plugins.training.loop.validate",
        lambda *_: {"validation/bits_per_dim": next(bits)},
    )
    config = tiny_config(steps=12, evaluate_every=2, save_every=2)
    result = train(config, tmp_path / "run", without=QUIET)
    assert [c.step for c in found(tmp_path / "run")] == [4, 10, 12]
    assert result.best == tmp_path / "run/checkpoints/step-000000004"


def test_validation_is_that_of_the_averaged_model(tmp_path):
    """Loading a checkpoint's EMA and validating gives the recorded measurement."""
    from elbowroom.config.assembly import build_model, build_parts
    from elbowroom.plugins.training.ranks import Ranks
    from elbowroom.plugins.training.validation import validate

    config = tiny_config(steps=5, learning_rate=0.1, evaluate_every=5)
    result = train(config, tmp_path / "run", without=QUIET)
    parts = build_parts(config)
    model, split, ranks = (
        build_model(parts),
        parts.data.split("validation"),
        Ranks(torch.device("cpu")),
    )
    checkpoint = found(tmp_path / "run")[-1]
    load_weights(model.eval(), checkpoint, "ema")
    ema = validate(model, split, ranks, 16)["validation/bits_per_dim"]
    assert ema == pytest.approx(result.scalars["validation/bits_per_dim"], rel=1e-6)
    assert ema == pytest.approx(checkpoint.validation, rel=1e-6)
    load_weights(model, checkpoint, "model")
    assert validate(model, split, ranks, 16)["validation/bits_per_dim"] != pytest.approx(
        ema, rel=1e-6
    )


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "bfloat16"},
        {"checkpoint_activations": True},
        {"micro_batch": 3},
        {"clip_norm": 0.1},
        {"ema_warmup": False, "ema": 0.5},
        {"ema_also": [0.5, 0.999]},
    ],
)
def test_options_of_the_run_resume_exactly_too(tmp_path, watch, options):
    """Whatever the precision or memory trade, a stop on the way leaves no trace."""
    config = tiny_config(steps=4, save_every=2, **options)
    train(config, tmp_path / "whole", without=QUIET)
    half = load_config(config, ["train.steps=2"])
    half_out = tmp_path / "cut"
    watch(lambda name, event: os.kill(os.getpid(), 15) if name == "run_started" else None)
    train(config, half_out)
    assert half != config
    assert found(half_out)[-1].step == 1
    watch(lambda name, event: None)
    resume(half_out)
    assert same(found(tmp_path / "whole")[-1], found(half_out)[-1])


def test_recomputed_activations_give_the_same_training(tmp_path):
    """Saving memory changes no weight."""
    train(tiny_config(steps=3), tmp_path / "a", without=QUIET)
    train(tiny_config(steps=3, checkpoint_activations=True), tmp_path / "b", without=QUIET)
    a, b = (found(tmp_path / name)[-1].read("model") for name in "ab")
    assert all(torch.allclose(a[name], b[name], atol=1e-6) for name in a)


def test_a_weighting_with_parameters_trains_along(tmp_path, watch):
    """They are in the checkpoint, move, and resume exactly."""
    config = load_config(tiny_config(steps=6), {"weighting": "tests.helpers.tiny_run:Learned"})
    train(config, tmp_path / "whole", without=QUIET)
    watch(lambda name, event: os.kill(os.getpid(), 15) if event.step == 3 else None)
    assert train(config, tmp_path / "cut").step == 3
    watch(lambda name, event: None)
    resume(tmp_path / "cut", trust=True)
    assert same(found(tmp_path / "whole")[-1], found(tmp_path / "cut")[-1])
    assert found(tmp_path / "cut")[-1].read("model")["weighting.u"].abs().min() > 0


def test_label_dropout_needs_a_class_for_no_label(tmp_path):
    """Said before anything is written; with the class it trains."""
    with pytest.raises(IncompatibleError, match="null_class"):
        train(tiny_config(label_dropout=0.5), tmp_path / "a", without=QUIET)
    assert not (tmp_path / "a").exists()
    config = load_config(tiny_config(label_dropout=0.5, steps=3), ["denoiser.null_class=true"])
    assert train(config, tmp_path / "b", without=QUIET).reason == "finished"


def test_evaluation_leaves_no_trace_in_training(tmp_path):
    """With and without evaluations the weights are the same."""
    train(tiny_config(), tmp_path / "a", without=QUIET)
    train(tiny_config(evaluate_every=2), tmp_path / "b", without=QUIET)
    a, b = (found(tmp_path / name)[-1].read("model") for name in "ab")
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("without", ["console", ["tensorbord"], [3]])
def test_an_unknown_observer_is_refused_before_anything_is_written(tmp_path, without):
    with pytest.raises(ConfigError, match=r"^without: "):
        train(tiny_config(steps=1), tmp_path / "run", without=without)
    assert not (tmp_path / "run").exists()


def test_a_lost_rank_is_reported_with_the_way_to_resume(tmp_path, monkeypatch):
    def lose(*_):
        raise RuntimeError("[pair.cc:537] Read error [127.0.0.1]:1: Connection reset by peer")

    monkeypatch.setattr("elbowroom.plugins.training.loop._Run.run", lose)
    with pytest.raises(RunError, match=r"another rank ended .* --resume .*run"):
        train(tiny_config(steps=1), tmp_path / "run", without=QUIET)
