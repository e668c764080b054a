"""Memory that a run on the CPU frees stays with the process for as long as the run lasts.

A training step frees its activations, and the next one asks for as many. glibc hands freed memory
back to the system in between, and each page that comes again is cleared and mapped anew: some
thousand page faults a step, about a tenth of its time. While a run lasts nothing is handed back;
at its end everything is. The peak is the same, and so is every number.

This is glibc's ``mallopt``. Other allocators (musl, macOS, jemalloc loaded before) are left as
they are, and so is glibc where the environment has settings of its own for it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
# Larger blocks go back at once, as they always do: among them holes would add up. Once set, glibc's
# thresholds adapt no longer; these are where they end by themselves when large blocks are freed.
_KEEPING = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: -1}
_USUAL = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 64 << 20}

_lock = threading.Lock()
_runs: list[torch.device] = []  # under way: the last one to end hands memory back


@contextmanager
def retain_memory(device: torch.device | str) -> Iterator[None]:
    """Keep what is freed until the end, for computing on the CPU."""
    device = torch.device(device)
    libc = _glibc() if device.type == "cpu" else None
    if libc is None:
        yield
        return
    with _lock:
        _runs.append(device)
        _set(libc, _KEEPING)
    try:
        yield
    finally:
        with _lock:
            _runs.pop()
            if not _runs:
                _set(libc, _USUAL)
                libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """glibc, if memory comes from it and nobody has said how."""
    settings = os.environ.get("GLIBC_TUNABLES", "")
    if "glibc.malloc" in settings or any(name.startswith("MALLOC_") for name in os.environ):
        return None
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    needed = ("gnu_get_libc_version", "mallopt", "malloc_trim")
    return libc if all(hasattr(libc, name) for name in needed) else None


def _set(libc: ctypes.CDLL, options: dict[int, int]) -> None:
    for option, value in options.items():
        libc.mallopt(option, value)
