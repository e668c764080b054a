"""What `explain` notes of a Gaussian path that goes on after the data can be read."""

from __future__ import annotations

import pytest
import torch
from elbowroom import DataSpec, Level
from elbowroom.config.explain import explain_config
from elbowroom.config.preset import presets
from elbowroom.config.sections import load_config
from elbowroom.plugins.gaussian import parametrisation
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.schedules.gaussian import Flow, VPCosine

from tests.helpers.command import elbowroom
from tests.helpers.largest import Largest

PUBLISHED = ["iddpm", "edm", "vdm++", "flow-matching", "adm-unet"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_presets_are_marked_where_they_may_be_vacuous(name):
    """They keep their schedules; the file and `explain` say what that means for 17 values."""
    if name == "adm-unet":
        pytest.importorskip("diffusers")
    (remark,) = explain_config(load_config(name)).remarks
    assert "exceed the uniform baseline log₂ 17 = 4.09" in remark
    assert "log_snr_max=8.02" in remark
    assert "log_snr_max=8.02 mends it" in presets()[name].text
    mended = explain_config(load_config(name, ("schedule.log_snr_max=8.02",)))
    assert mended.remarks == ()


def test_paths_that_suit_the_data_are_not_remarked_on():
    """256 values, logits over levels, or no data: nothing to say."""
    many, few = DataSpec((2,), 256), DataSpec((2,), 17)
    assert Gaussian(predict="v").bind(many).remarks(VPCosine()) == ()
    assert Gaussian(predict="v").remarks(VPCosine()) == ()
    assert Gaussian(predict="levels").bind(few).remarks(Flow()) == ()
    assert len(Gaussian(predict="v").bind(few).remarks(Flow())) == 1


def test_the_command_prints_the_note():
    """For people and for programs."""
    words = ("explain", "vdm++")
    assert "note: bits/dim may exceed the uniform baseline" in " ".join(
        elbowroom(*words).out.split()
    )
    assert len(elbowroom(*words, "--json").json["remarks"]) == 1
    assert elbowroom("explain", "digits", "--json").json["remarks"] == []


@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 1, 1), ()])
def test_levels_are_read_a_few_at_a_time(shape, monkeypatch):
    """Without gradients nothing as large as the logits is made, and the answer is the same."""
    process = Gaussian(predict="levels").bind(DataSpec((4, 3), 17))
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 4, 3, 17, generator=generator)
    z = torch.randn(6, 4, 3, generator=generator)
    level = Level.at(torch.randn(shape, generator=generator), process)
    whole = process.read(logits, z, level).x
    monkeypatch.setattr(parametrisation, "_AT_ONCE", 2 * logits[0].numel())
    with torch.no_grad(), Largest() as seen:
        parts = process.read(logits, z, level).x
    torch.testing.assert_close(parts, whole, rtol=0, atol=0)
    assert seen.numbers == 2 * logits[0].numel()
