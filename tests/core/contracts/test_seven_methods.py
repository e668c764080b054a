"""A process of seven methods trains, samples and is compared by FID; bpd names what is missing."""

from __future__ import annotations

import json

import elbowroom as er
import pytest
import torch
from elbowroom import IncompatibleError, Process

from tests.helpers import seven_methods
from tests.helpers.command import elbowroom
from tests.helpers.seven_methods import Noisy

TINY = {"name": "uvit", "width": 16, "depth": 1, "channels": 8}


def test_seven_methods_are_enough():
    """No other method is abstract."""
    assert len(Process.__abstractmethods__) == 7
    Noisy()


def test_it_trains_and_samples(tmp_path):
    """The log has a loss and no bits/dim; samples are integers of the data."""
    model = er.assemble("digits", process=Noisy(), denoiser=TINY, sampler="ancestral")
    result = er.train(model, tmp_path / "run", steps=4, batch_size=8, without=("console",))
    assert result.reason == "finished"
    rows = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert "loss" in rows[-1] and not any("bits_per_dim" in row for row in rows)
    x = er.sample(model, 4, steps=3).x
    assert x.shape == (4, 8, 8, 1) and int(x.min()) >= 0 and int(x.max()) < 17


def test_it_is_compared_by_fid_and_bpd_names_what_is_missing(tmp_path):
    """``compare`` skips bits/dim; asked for by name, bpd is refused with the reason."""
    overrides = [f"denoiser={json.dumps(TINY)}", "sampler.steps=2", "train.steps=2"]
    overrides += ["train.batch_size=8", "train.evaluate_every=null", "sampler=ancestral"]
    out = tmp_path / "compared"
    process = f"{seven_methods.__file__}:Noisy"
    ran = elbowroom(
        *("compare", "digits", *overrides, "--vary", f"process={process},gaussian"),
        *("--samples", "20", "--metric", "fid", "--out", out),
    )
    assert ran.code == 0, ran.err
    points = json.loads((out / "results.json").read_text())["points"]
    assert [sorted(point["figures"]) for point in points] == [["fid_test", "fid_train"]] * 2
    model = er.assemble("digits", process=Noisy(), denoiser=TINY, sampler="ancestral")
    with pytest.raises(IncompatibleError, match="no likelihood: it defines no prior_kl"):
        er.evaluate(model, metrics=("bpd",))


def test_decode_inverts_encode():
    """By default a real z is decoded to the integer with the nearest encoding."""
    process = Noisy().bind(er.DataSpec((17,), levels=17))
    x = torch.arange(17)[None]
    assert torch.equal(process.decode(process.encode(x) + 0.01, None, None, None), x)
