"""Checkpoints: tensors as safetensors, everything else as JSON. Nothing is ever unpickled.

    checkpoints/step-000001000/
        model.safetensors        parameters and buffers
        ema.safetensors          averaged parameters and the same buffers
        ema-0.999.safetensors    the same of another decay, where the run keeps several
        optimiser.safetensors    "exp_avg.<parameter>" and so on
        window.safetensors       sums since the last logging step
        state.json               step, config, provenance, ...: see elbowroom.runs.state

A checkpoint is written into a folder of another name, forced to disk, and then renamed: a folder
called ``step-N`` is complete even if the process was killed. Later damage is detected: of the state
file when checkpoints are listed, of every other file when it is read. Random numbers need no state,
since they are keyed by the step.
"""

from __future__ import annotations

import errno
import math
import os
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..config.messages import bytes_in_words
from ..errors import ElbowroomError
from ..files.atomic import atomic_folder, remove_folder, remove_leftovers
from ..files.digest import file_digest
from ..files.json_file import JSONFileError
from .state import VALIDATION, OtherFormatError, State, StateError

_NAME = re.compile(r"step-(\d{9,})")


class CheckpointError(ElbowroomError):
    """A checkpoint that cannot be written or read."""


@attrs.frozen
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    state: State
    checked: bool = False  # whether its files were compared with their digests

    @property
    def step(self) -> int:
        """Number of updates made."""
        return self.state.step

    @property
    def validation(self) -> float | None:
        """EMA bits/dim on the validation split, if it was evaluated."""
        value = (self.state.validation or {}).get(VALIDATION)
        return None if value is None or not math.isfinite(value) else float(value)

    def has(self, part: str) -> bool:
        """Whether this part was written; ``elbowroom.save`` writes only weights."""
        return f"{part}.safetensors" in self.state.files

    def read(self, part: str) -> dict[str, Tensor]:
        """The tensors of ``model``, ``ema``, ``optimiser`` or ``window``, on the CPU."""
        if not self.checked and (harm := self.damage(part)):
            raise CheckpointError(f"checkpoint {self.path} is damaged: {harm}")
        return read_tensors(self.path / f"{part}.safetensors")

    def damage(self, *parts: str) -> str:
        """The first damage of these parts, or of all; an empty text if there is none."""
        wanted = {f"{part}.safetensors" for part in parts}
        for name, digest in self.state.sha256.items():
            try:
                if (not wanted or name in wanted) and file_digest(self.path / name) != digest:
                    return f"{name} is not what was written"
            except OSError as error:
                return f"{name}: {error.strerror}"
        return ""


@attrs.frozen
class Unusable:
    """A checkpoint folder that cannot be used."""

    path: Path
    reason: str
    foreign: bool = False  # written in the format of another version

    def __str__(self) -> str:
        return f"checkpoint {self.path} is left aside: {self.reason}"


# -- finding


def find_checkpoints(folder: Path) -> tuple[list[Checkpoint], list[Unusable]]:
    """The complete checkpoints in ``folder``, by step, and the unusable ones."""
    found: list[Checkpoint] = []
    broken: list[Unusable] = []
    try:
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise CheckpointError(f"cannot read {folder}: {error.strerror}") from error
    for path in paths:
        if path.is_dir() and _NAME.fullmatch(path.name):
            one = _opened(path)
            found.append(one) if isinstance(one, Checkpoint) else broken.append(one)
    return sorted(found, key=lambda checkpoint: checkpoint.step), broken


def checkpoints(folder: Path) -> list[Checkpoint]:
    """The complete checkpoints in ``folder``, by step; a warning for each other one."""
    found, broken = find_checkpoints(folder)
    for one in broken:
        warnings.warn(str(one), stacklevel=2)
    return found


def undamaged(found: Sequence[Checkpoint], *parts: str) -> Iterator[Checkpoint]:
    """Yield the checkpoints whose files (or these parts) are undamaged; warn of the others.

    Files are read lazily.
    """
    for one in found:
        if harm := one.damage(*parts):
            warnings.warn(str(Unusable(one.path, harm)), stacklevel=2)
        else:
            yield one if parts else attrs.evolve(one, checked=True)


def best(found: Iterable[Checkpoint]) -> Checkpoint | None:
    """The one with the lowest validation bits/dim (the first of equals), if any was evaluated."""
    return next(iter(best_first(c for c in found if c.validation is not None)), None)


def best_first(found: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Sorted by validation bits/dim, then by step, latest first, if not evaluated."""
    return sorted(found, key=_merit)


def _merit(one: Checkpoint) -> tuple[float, int]:
    return (math.inf, -one.step) if one.validation is None else (one.validation, one.step)


def _opened(path: Path) -> Checkpoint | Unusable:
    """The checkpoint in a folder, or why it cannot be used."""
    try:
        state = State.read(path)
        reason = _wrong(path, state)
    except (JSONFileError, StateError, OSError) as error:
        return Unusable(path, str(error), isinstance(error, OtherFormatError))
    return Unusable(path, reason) if reason else Checkpoint(path, state)


def _wrong(path: Path, state: State) -> str:
    """How a folder differs from its state; an empty text if it does not."""
    if path.name != _name(state.step):
        return f"its folder says another step than its state, {state.step}"
    for name, size in state.files.items():
        if Path(name).name != name:
            return f"it names a file outside itself: {name!r}"
        if not (path / name).is_file() or (path / name).stat().st_size != size:
            return f"{name} is not whole"
    return ""


def _name(step: int) -> str:
    return f"step-{step:09d}"


# -- writing


def write_checkpoint(folder: Path, parts: Mapping[str, Mapping[str, Tensor]], state: State) -> Path:
    """Write CPU tensors and a state as the checkpoint of its step, atomically."""
    final = folder / _name(state.step)
    if final.exists() and _is_good(final):
        return final  # a run replays exactly: the same step is the same state
    try:
        folder.mkdir(exist_ok=True)
        with atomic_folder(final) as aside:
            sizes, digests = {}, {}
            for part, tensors in parts.items():
                file = aside / f"{part}.safetensors"
                write_tensors(file, tensors)
                sizes[file.name], digests[file.name] = file.stat().st_size, file_digest(file)
            attrs.evolve(state, files=sizes, sha256=digests).write(aside)
            if final.exists():
                remove_folder(final)  # a damaged one: its replay has come
    except (OSError, SafetensorError) as error:
        raise CheckpointError(cannot_write(final, error)) from error
    return final


def _is_good(path: Path) -> bool:
    one = _opened(path)
    return isinstance(one, Checkpoint) and not one.damage()


def prune(folder: Path, keep: int, milestones: Collection[int] = ()) -> list[Path]:
    """Delete all but the last ``keep``, the best and the milestones; return the deleted paths."""
    found = find_checkpoints(folder)[0]
    kept = {c.path for c in found[-keep:]} | {c.path for c in found if c.step in milestones}
    if champion := best(found):
        kept.add(champion.path)
    gone = [c.path for c in found if c.path not in kept]
    try:
        for path in gone:
            remove_folder(path)
    except OSError as error:
        raise CheckpointError(f"cannot delete {path}: {error.strerror}") from error
    return gone


def clean(folder: Path) -> None:
    """Remove incomplete folders of killed processes."""
    remove_leftovers(folder, ".step-*")
    remove_leftovers(folder, ".room-*")


def cannot_write(path: Path, error: Exception, size: int | None = None) -> str:
    """The message of an error in writing ``size`` bytes to ``path``."""
    words = " ".join(str(error).split())
    full = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    code = getattr(error, "errno", None)
    if code in full or any(os.strerror(number) in words for number in full):
        need = f" (a checkpoint takes {bytes_in_words(size)})" if size else ""
        return f"no room to write {path}{need}: {words}; free some space, or choose another folder"
    return f"cannot write {path}: {words}"


# -- between files and models


def write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file with the mode of a new file."""
    file.touch()
    mode = file.stat().st_mode  # safetensors creates a file readable by its owner only
    save_file({name: t.contiguous() for name, t in tensors.items()}, file)
    file.chmod(mode)


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
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


@torch.no_grad()
def assign(target: Tensor, value: Tensor) -> None:
    """Copy a full ``value`` into a tensor that may be sharded (a ``DTensor``)."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    target = target.detach()
    if isinstance(target, DTensor):
        value = distribute_tensor(
            value.to(device=target.device, dtype=target.dtype),
            target.device_mesh,
            target.placements,
            src_data_rank=None,  # each rank has read the full tensor
        )
    target.copy_(value)


def ema_part(decay: float) -> str:
    """The part of a checkpoint with a further average."""
    return f"ema-{decay}"


def load_weights(model: nn.Module, checkpoint: Checkpoint, part: str = "ema") -> None:
    """Load the weights of a checkpoint into ``model``: averaged (``ema``) or not (``model``)."""
    restore(named_tensors(model), checkpoint.read(part), str(checkpoint.path / part))


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (", ".join(names[:3]) + more) or "nothing"
