"""Checkpoints: tensors as safetensors, everything else as JSON. Nothing is ever unpickled.

    checkpoints/step-000001000/
        model.safetensors        parameters and buffers
        ema.safetensors          averaged parameters and the same buffers: a model of its own
        optimiser.safetensors    "exp_avg.<parameter>" and so on
        window.safetensors       sums since the last logging step
        state.json               format, step, config, provenance, validation, size of each file

A checkpoint is written into a folder of another name, forced to disk, and then renamed: a folder
called ``step-N`` is whole, whenever the process was killed. (Sizes are compared all the same, for
copies that were cut short on their way.) Randomness needs no state: it is keyed by the step.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import warnings
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from . import atomic
from .distributed import Ranks, assign, whole
from .errors import ElbowroomError

FORMAT = 1
_NAME = re.compile(r"step-(\d{9,})")
STATE = "state.json"


class CheckpointError(ElbowroomError):
    """A checkpoint that cannot be written or read."""


@attrs.frozen
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    state: Mapping[str, Any]

    @property
    def step(self) -> int:
        """How many updates it has behind it."""
        return int(self.state["step"])

    @property
    def validation(self) -> float | None:
        """EMA bits/dim on the validation split, if it was evaluated."""
        value = (self.state.get("validation") or {}).get("validation/bits_per_dim")
        return None if value is None else float(value)

    def read(self, part: str) -> dict[str, Tensor]:
        """The tensors of ``model``, ``ema``, ``optimiser`` or ``window``, on the CPU."""
        return read_tensors(self.path / f"{part}.safetensors")


# -- finding


def checkpoints(folder: Path) -> list[Checkpoint]:
    """The complete checkpoints in ``folder``, by step. What is incomplete is left aside."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and _NAME.fullmatch(path.name):
            state = _state(path)
            if isinstance(state, str):
                warnings.warn(f"checkpoint {path} is left aside: {state}", stacklevel=2)
            else:
                found.append(Checkpoint(path, state))
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def best(found: Iterable[Checkpoint]) -> Checkpoint | None:
    """The one with the lowest validation bits/dim (the first of equals), if any was evaluated."""
    evaluated = [(c.validation, c.step, c) for c in found if c.validation is not None]
    return min(evaluated, key=lambda entry: entry[:2])[2] if evaluated else None


def _state(path: Path) -> dict[str, Any] | str:
    """What its state file says, or why the checkpoint cannot be used."""
    try:
        state = json.loads((path / STATE).read_text("utf-8"))
        if state["format"] > FORMAT:
            return f"it has format {state['format']}, of a newer elbowroom"
        for name, size in state["files"].items():
            if Path(name).name != name:
                return f"it names a file outside itself: {name!r}"
            if (path / name).stat().st_size != size:
                return f"{name} is not whole"
        int(state["step"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return state  # type: ignore[no-any-return]  # JSON


# -- writing


def write_checkpoint(
    folder: Path, step: int, parts: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Write whole CPU tensors and plain data as the checkpoint of ``step``: all or nothing."""
    final = folder / f"step-{step:09d}"
    if final.exists():
        if not isinstance(_state(final), str):
            return final  # a run replays exactly: the same step is the same state
        shutil.rmtree(final)
    aside = folder / f".{final.name}.partial-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside.mkdir()
        sizes = {}
        for part, tensors in parts.items():
            file = aside / f"{part}.safetensors"
            save_file({name: t.contiguous() for name, t in tensors.items()}, file)
            atomic.force(file)
            sizes[file.name] = file.stat().st_size
        words = {"format": FORMAT, "step": step, **state, "files": sizes}
        atomic.write_forced(aside / STATE, json.dumps(words, indent=1).encode())
        atomic.force(aside)
        aside.rename(final)
        atomic.force(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise CheckpointError(_cannot_write(final, error)) from error
    return final


def prune(folder: Path, keep: int, milestones: Collection[int] = ()) -> list[Path]:
    """Delete all but the last ``keep``, the best and the milestones; what is gone."""
    found = checkpoints(folder)
    kept = {c.path for c in found[-keep:]} | {c.path for c in found if c.step in milestones}
    if champion := best(found):
        kept.add(champion.path)
    gone = [c.path for c in found if c.path not in kept]
    for path in gone:
        # first the name that means "whole", then the rest: a kill in between leaves no half
        aside = path.with_name(f".{path.name}.deleted-{os.getpid()}")
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    return gone


def clean(folder: Path) -> None:
    """Remove what killed processes left half-written or half-deleted."""
    if not folder.is_dir():
        return
    for path in folder.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)
    for probe in folder.glob(".room-*"):
        with contextlib.suppress(OSError):
            probe.unlink()


def check_room(folder: Path, size: int) -> None:
    """Can ``folder`` take a checkpoint of ``size`` bytes? Asked before training begins."""
    probe = folder / f".room-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < size:
            raise CheckpointError(
                f"no room in {folder}: a checkpoint takes {_human(size)}, "
                f"and {_human(free)} are free"
            )
        with probe.open("wb") as file:  # a quota shows itself only when space is really asked for
            with contextlib.suppress(OSError):  # a file without a name goes with the process
                probe.unlink()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
    except OSError as error:
        raise CheckpointError(_cannot_write(folder, error, size)) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def _cannot_write(path: Path, error: Exception, size: int | None = None) -> str:
    words = " ".join(str(error).split())
    full = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    code = getattr(error, "errno", None)
    if code in full or any(os.strerror(number) in words for number in full):
        need = f" (a checkpoint takes {_human(size)})" if size else ""
        return f"no room to write {path}{need}: {words}; free some space, or choose another folder"
    return f"cannot write {path}: {words}"


def _human(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


# -- between files and models


def read_tensors(file: Path) -> dict[str, Tensor]:
    """A safetensors file; anything else is refused unread."""
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  # no dict
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{file} is not a safetensors file that can be read: {error}"
        ) from None


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; tensors shared under two names once."""
    parameters: dict[str, Tensor] = dict(model.named_parameters())
    lasting = model.state_dict(keep_vars=True)
    buffers = {name: b for name, b in model.named_buffers() if name in lasting}
    return {**parameters, **buffers}


def gathered(tensors: Mapping[str, Tensor], on: Ranks) -> dict[str, Tensor]:
    """Whole copies on the CPU of the first rank, nothing on the others; every rank must ask."""
    found = {}
    for name, tensor in tensors.items():
        full = whole(tensor)
        if on.is_first:
            found[name] = full.cpu()
    return found


def restore(targets: Mapping[str, Tensor], values: Mapping[str, Tensor], origin: str) -> None:
    """Write ``values`` into ``targets``, which must have the same names and shapes."""
    missing, strange = (
        sorted(targets.keys() - values.keys()),
        sorted(values.keys() - targets.keys()),
    )
    if missing or strange:
        raise CheckpointError(
            f"{origin} does not fit this model: it lacks {_few(missing)} and has {_few(strange)}"
        )
    for name, target in targets.items():
        if target.shape != values[name].shape:
            raise CheckpointError(
                f"{origin} does not fit this model: {name} is {tuple(values[name].shape)} there "
                f"and {tuple(target.shape)} here"
            )
        assign(target, values[name])


def load_weights(model: nn.Module, checkpoint: Checkpoint, part: str = "ema") -> None:
    """Give ``model`` the weights of a checkpoint: the averaged ones (``ema``) or ``model``."""
    restore(named_tensors(model), checkpoint.read(part), str(checkpoint.path / part))


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (", ".join(names[:3]) + more) or "nothing"


@torch.no_grad()
def optimiser_tensors(
    optimiser: torch.optim.Optimizer, names: Mapping[int, str]
) -> dict[str, Tensor]:
    """The optimiser's state, as ``exp_avg.<parameter>``; ``names`` by the parameter's identity."""
    return {
        f"{key}.{names[id(parameter)]}": value
        for parameter, state in optimiser.state.items()
        for key, value in state.items()
    }
