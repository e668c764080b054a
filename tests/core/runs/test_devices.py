"""Where to compute: what is asked for, or what there is."""

from __future__ import annotations

import pytest
import torch
from elbowroom.errors import ConfigError
from elbowroom.runs.devices import resolve_device


def test_what_there_is():
    """A GPU where there is one, else the CPU."""
    assert resolve_device().type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert resolve_device("cpu") == resolve_device(torch.device("cpu:0")) == torch.device("cpu")


def test_a_device_without_a_number_is_the_rank_s_own(monkeypatch):
    """And one with a number is that one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert resolve_device("cuda", 2) == torch.device("cuda:2") == resolve_device(None, 2)
    assert resolve_device("cuda:1", 2) == torch.device("cuda:1")
    with pytest.raises(ConfigError, match=r"^device 'cuda:4': this machine has 4, counted from 0$"):
        resolve_device("cuda:4")


@pytest.mark.parametrize("wrong", ["cuda", "cuda:3", "gpu", "xpu", "meta", "mps", "", "cuda:x"])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(wrong, monkeypatch):
    """Which names the device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=f"^device '{wrong}'") as caught:
        resolve_device(wrong)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 120
