"""TensorBoard reads what the observer writes."""

from __future__ import annotations

import time

import attrs
import pytest
import torch
from elbowroom import RunEvent
from elbowroom.plugins import tensorboard as plugin
from elbowroom.plugins.tensorboard.writer import (
    BOTTOM,
    HIGH,
    LEFT,
    RIGHT,
    TOP,
    WIDE,
    _axes,
    curve,
    log_folder,
)
from elbowroom.plugins.training.observers import flatten
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

CONFIG = {"process": {"name": "masked"}, "train": {"steps": 4, "betas": [0.9, 0.99]}, "seed": 0}


def observe(folder, steps=(1, 2, 3), start=0):
    begin = RunEvent(folder, start, 4, CONFIG)
    plugin.run_started(begin)
    for step in steps:
        x = torch.linspace(-3.0, 3.0, 7, dtype=torch.float64)
        logged = attrs.evolve(
            begin,
            step=step,
            scalars={"loss": 10.0 / step, "learning_rate": 1e-3, "images_per_second": 100.0},
            curves={"elbo_by_level": (x, (x + 4) * step)},
        )
        plugin.step_logged(logged)
    picture = torch.arange(5 * 6 * 1, dtype=torch.uint8).reshape(5, 6, 1)
    plugin.evaluated(
        attrs.evolve(
            begin,
            step=steps[-1],
            scalars={"validation/bits_per_dim": 2.5},
            images={"samples": picture},
        )
    )
    plugin.run_ended(
        attrs.evolve(
            begin, step=steps[-1], scalars={"validation/bits_per_dim": 2.5}, reason="finished"
        )
    )


def read(folder):
    events = EventAccumulator(str(log_folder(folder)), {"histograms": 0, "images": 0})
    return events.Reload()


def test_scalars_come_back(tmp_path):
    """Each under train/ or its own group, at its step."""
    observe(tmp_path)
    events = read(tmp_path)
    loss = [(e.step, e.value) for e in events.Scalars("train/loss")]
    assert loss == [(1, 10.0), (2, 5.0), (3, pytest.approx(10 / 3))]
    assert {"train/learning_rate", "train/images_per_second"} <= set(events.Tags()["scalars"])
    assert events.Scalars("validation/bits_per_dim")[0].value == 2.5


def test_the_loss_by_level_comes_back_as_a_histogram(tmp_path):
    """Heights are the curve, edges lie half way between the levels."""
    observe(tmp_path)
    event = read(tmp_path).Histograms("level/elbo_by_level")[-1]
    value = event.histogram_value
    assert event.step == 3
    assert list(value.bucket) == pytest.approx([3 * n for n in range(1, 8)])
    assert list(value.bucket_limit) == pytest.approx([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5])


def test_samples_come_back_as_images(tmp_path):
    """A PNG of the right size."""
    observe(tmp_path)
    events = read(tmp_path)
    image = events.Images("samples")[0]
    assert (image.height, image.width) == (5, 6)
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert events.Images("level_curve/elbo_by_level")


def test_the_configs_values_are_hparams(tmp_path):
    """Every choice by its path, beside the measurement the run ended with."""
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    observe(tmp_path)
    content = read(tmp_path).summary_metadata
    start = HParamsPluginData.FromString(
        content["_hparams_/session_start_info"].plugin_data.content
    ).session_start_info
    assert start.hparams["process.name"].string_value == "masked"
    assert start.hparams["train.steps"].number_value == 4
    assert start.hparams["train.betas"].string_value == "[0.9, 0.99]"
    experiment = HParamsPluginData.FromString(
        content["_hparams_/experiment"].plugin_data.content
    ).experiment
    tags = {metric.name.tag for metric in experiment.metric_infos}
    assert tags == {"validation/bits_per_dim"} <= set(read(tmp_path).Tags()["scalars"])


def test_nothing_stands_before_the_curves(tmp_path):
    """TensorBoard sorts by the alphabet: hyperparameters add no scalars of their own."""
    observe(tmp_path)
    groups = {tag.split("/")[0] for tag in read(tmp_path).Tags()["scalars"]}
    assert groups == {"train", "validation"}


def test_tensorboard_calls_a_run_by_its_own_name(tmp_path):
    """Files are in a folder of that name."""
    run = tmp_path / "digits-7"
    observe(run)
    (found,) = (run / "tensorboard").rglob("events.*")
    assert found.parent.relative_to(run / "tensorboard").as_posix() == "digits-7"


def test_a_resumed_run_shows_each_step_once(tmp_path, monkeypatch):
    """What the first sitting wrote beyond the checkpoint is dropped."""
    observe(tmp_path, steps=(1, 2, 3))
    later = time.time() + 5  # files are read in the order of the seconds they began
    monkeypatch.setattr(time, "time", lambda: later)
    observe(tmp_path, steps=(2, 3, 4), start=1)
    steps = [e.step for e in read(tmp_path).Scalars("train/loss")]
    assert steps == [1, 2, 3, 4]


def test_the_highest_bar_fills_the_plot():
    """Heights are in proportion, also when a value is not finite or negative; none leaves it."""
    y = torch.tensor([0.0, 1.0, 2.0, float("nan"), -1.0])
    picture = curve(torch.arange(5.0), y, "log-SNR", "elbo")
    blue = (picture == torch.tensor([31, 119, 180])[:, None, None]).all(0)
    high, wide = HIGH - BOTTOM - TOP, WIDE - RIGHT - LEFT
    inside = blue[TOP : TOP + high, LEFT + 1 : LEFT + wide]
    middles = [round((k + 0.5) * wide / 5) for k in range(5)]
    assert inside.sum(0)[middles].tolist() == [0, high / 2, high, 0, 0]
    assert int(blue.sum()) == int(blue[TOP : TOP + high, LEFT : LEFT + wide].sum())


def test_axes_are_named():
    """Over levels by the log-SNR, over time otherwise; names stand below and above the plot."""
    assert _axes("elbo_by_level") == ("log-SNR", "elbo, bits/dim per unit of log-SNR")
    assert _axes("time_density")[0].startswith("time t")
    named = curve(torch.arange(3.0), torch.ones(3), "log-SNR", "elbo")
    bare = curve(torch.arange(3.0), torch.ones(3), "", "")
    differ = (named != bare).any(0).any(1)
    assert differ[:TOP].any() and differ[HIGH - BOTTOM // 2 :].any()
    assert not differ[TOP : HIGH - BOTTOM].any()


def test_events_without_a_start_are_ignored(tmp_path):
    """An observer loaded half way does no harm."""
    plugin.step_logged(RunEvent(tmp_path, 1, 4, CONFIG, {"loss": 1.0}))
    plugin.run_ended(RunEvent(tmp_path, 1, 4, CONFIG))
    assert list(tmp_path.iterdir()) == []


def test_a_config_is_flattened_by_path():
    """Keys are paths; values are as in the config."""
    flat = dict(flatten(CONFIG))
    assert flat.keys() == {"process.name", "train.steps", "train.betas", "seed"}
    assert flat["train.steps"] == 4


def test_a_value_of_many_lines_stays_in_the_config_s_block(tmp_path):
    """The text is Markdown: each of its lines is code, none is a picture, a link or a tag."""
    nasty = "x\n\n<img src=x onerror=y>\r# [a](javascript:b)\u2028![c](http://d)"
    plugin.run_started(RunEvent(tmp_path, 0, 4, {"data": {"path": nasty}}))
    plugin.run_ended(RunEvent(tmp_path, 0, 4, {}, reason="finished"))
    (event,) = read(tmp_path).Tensors("config/text_summary")
    lines = event.tensor_proto.string_val[0].decode().splitlines()
    assert len(lines) > 2 and all(line.startswith("    ") or not line.strip() for line in lines)
