"""Freed memory stays with a run on the CPU, and with it alone."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import elbowroom as er
import pytest
import torch
from elbowroom.plugins.training import host_memory
from elbowroom.plugins.training.loop import fit
from elbowroom.plugins.training.section import Train
from elbowroom.runs.folder import RunFolder

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator")

# In a process of its own, block by block from the top of the heap: elsewhere it depends on what
# lies above them whether freed blocks can be handed back at all.
LOOK = """
import ctypes, json, os, sys, torch
from elbowroom.plugins.training.host_memory import retain_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
SIZE, COUNT = 12 << 20, 16
blocks = [0] * COUNT

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def kept_after_free():
    '''The share of what was used and freed that is still there.'''
    before = resident()
    for i in range(COUNT):
        blocks[i] = libc.malloc(SIZE)
        libc.memset(blocks[i], 1, SIZE)
    for i in range(COUNT):
        libc.free(blocks[i])
    return (resident() - before) / (SIZE * COUNT)

device = torch.device(sys.argv[1])
found = {}
found["before"] = kept_after_free()
with retain_memory(device):
    try:
        with retain_memory(device):
            raise RuntimeError("a run within the run that fails")
    except RuntimeError:
        pass
    found["first"] = kept_after_free()
    found["others"] = sum(kept_after_free() for _ in range(8))
    inside = resident()
found["handed back"] = (inside - resident()) / (SIZE * COUNT)
found["after"] = kept_after_free()
print(json.dumps(found))
"""


def looked(device: str = "cpu", **settings: str) -> dict[str, float]:
    """The shares that were kept, with settings of the environment."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    printed = subprocess.run(
        [sys.executable, "-c", LOOK, device],
        env=own | settings,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    found: dict[str, float] = json.loads(printed)
    return found


def test_freed_memory_is_kept_and_then_handed_back() -> None:
    """A run uses what it freed again; at its end, and not at an inner one's, it is handed back."""
    found = looked()
    assert found["before"] < 0.6  # up to 64 MiB of the 192 may stay at any time
    assert found["first"] > 0.6
    assert found["others"] < 0.1
    assert found["handed back"] > 0.6
    assert found["after"] < 0.6


@pytest.mark.parametrize(
    "setting", [{"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.perturb=0"}]
)
def test_settings_of_the_user_stay(setting: dict[str, str]) -> None:
    """Who has told glibc how to allocate is not overruled."""
    assert looked(**setting)["first"] < 0.6


def test_an_accelerators_run_leaves_the_host_alone() -> None:
    """Activations are elsewhere then."""
    assert looked("cuda:0")["first"] < 0.6


class Looking(torch.nn.Module):
    """A network that looks how many runs keep memory while it is at work."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(17))
        self.found: set[int] = set()

    def forward(
        self, z: torch.Tensor, log_snr: torch.Tensor, cond: torch.Tensor | None
    ) -> torch.Tensor:
        self.found.add(len(host_memory._runs))
        return self.logits.expand(*z.shape, 17)


def test_training_sampling_and_evaluating_are_such_runs(tmp_path: Path) -> None:
    """Each keeps memory while its network is asked, and no longer."""
    network = Looking()
    model = er.assemble(
        data="digits", process="masked", denoiser=network, sampler={"name": "ancestral", "steps": 2}
    )
    data = er.parts_of(model).dataset()
    for work in (
        lambda: fit(model, data, RunFolder(tmp_path), Train(steps=2, evaluate_every=2)),
        lambda: er.sample(model, 2),
        lambda: er.evaluate(model, metrics=["bpd"], samples=2),
    ):
        network.found.clear()
        work()
        assert max(network.found) == 1
        assert not host_memory._runs
