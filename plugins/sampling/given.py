"""Given positions of samples: examples to complete, and the masks of what is kept.

``keep`` is true where a given value stays. It is a tensor, or a name:

    left, right, top, bottom     that side of an image
    prefix, suffix               the first or last positions of a sequence
    random                       positions drawn at random, with the seed of the samples
    age,sex                      the parts of an example with these names (columns of a table)

Sides, prefixes and random positions take a share, as in ``left:0.25``; it is 0.5 by default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import attrs
import torch
from elbowroom import DataSpec, Diffusion, ElbowroomError, Noise
from elbowroom.contracts import check_examples, check_range
from torch import Tensor

_SIDES = {"left": (1, False), "right": (1, True), "top": (0, False), "bottom": (0, True)}
_ENDS = {"prefix": False, "suffix": True}
_GAP = re.compile("_{3,}")


@attrs.frozen(eq=False)
class GivenExamples:
    """Examples whose values are given where ``keep`` is true. Sample i completes row i mod G."""

    x: Tensor  # [G, *D] integers
    keep: Tensor  # [G, *D] bool
    real: bool = False  # whether x is known also where keep is false

    @classmethod
    def of(
        cls, data: DataSpec, x: Any, keep: Any, *, seed: int = 0, real: bool = False
    ) -> GivenExamples:
        """Check examples ``x`` and a mask, or the name of one, against the form of the data."""
        x = _examples(data, x)
        if isinstance(keep, str):
            mask = keep_mask(keep, data, len(x), seed)
        else:
            mask = _mask(data, keep, len(x))
        return cls(x, mask, real)

    def rows(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """x and keep of the samples ``numbers`` [B]."""
        row = numbers.cpu() % len(self.x)
        return self.x[row], self.keep[row]


def _examples(data: DataSpec, given: Any) -> Tensor:
    try:
        x: Tensor = torch.as_tensor(given).cpu()
    except (TypeError, ValueError, RuntimeError):
        kind = type(given).__name__
        raise ElbowroomError(f"given: expected a tensor of integers, got {kind}") from None
    x = x[None] if tuple(x.shape) == data.shape else x
    if not len(x):
        raise ElbowroomError("given: there are no examples in it")
    check_examples(x, data)
    check_range(x, data.counts())
    return x.long()


def _mask(data: DataSpec, keep: Any, count: int) -> Tensor:
    try:
        mask = torch.as_tensor(keep).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise ElbowroomError(f"keep: expected a bool tensor, got {type(keep).__name__}") from None
    if mask.dtype != torch.bool:
        raise ElbowroomError(
            f"keep: expected a bool tensor, got {str(mask.dtype).removeprefix('torch.')}"
        )
    shapes = (data.shape, (1, *data.shape), (count, *data.shape))
    if tuple(mask.shape) not in shapes:
        raise ElbowroomError(
            f"keep: shape {list(mask.shape)} does not fit examples of shape {list(data.shape)}; "
            f"use {list(data.shape)}, or one mask for each of the {count} given examples"
        )
    return mask.expand(count, *data.shape)


def keep_mask(what: str, data: DataSpec, count: int, seed: int = 0) -> Tensor:
    """[count, *shape] the mask that a name stands for; see the text of the module."""
    name, _, share_text = what.partition(":")
    share = _share(what, share_text) if share_text else 0.5
    shape = data.shape
    if name == "random":
        rank = Noise.of(seed, count).uniform("keep", (data.dims,)).argsort(1).argsort(1)
        return (rank < round(share * data.dims)).view(count, *shape)
    if name in _SIDES and len(shape) == 3:
        axis, from_end = _SIDES[name]
        mask = _ends(shape[axis], share, from_end).view(-1, *(1,) * (len(shape) - axis - 1))
        return mask.expand(count, *shape)
    if name in _ENDS and len(shape) == 1:
        return _ends(shape[0], share, _ENDS[name]).expand(count, *shape)
    parts = {part.name: part for part in getattr(data, "parts", None) or ()}
    chosen = [one.strip() for one in what.split(",")]
    if parts and all(one in parts for one in chosen):
        mask = torch.zeros(math.prod(shape), dtype=torch.bool)
        for one in chosen:
            mask[parts[one].start : parts[one].stop] = True
        return mask.view(shape).expand(count, *shape)
    raise ElbowroomError(f"keep: {what!r} is not one of {', '.join(_choices(data))}")


def _choices(data: DataSpec) -> Sequence[str]:
    sides = tuple(_SIDES) if len(data.shape) == 3 else tuple(_ENDS)
    parts = tuple(part.name for part in getattr(data, "parts", None) or ())
    return (*sides, "random", *parts, "a bool tensor or, on the command line, a mask image")


def _share(what: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise ElbowroomError(f"keep: {what!r}: the share is a number from 0 to 1")
    return share


def _ends(size: int, share: float, from_end: bool) -> Tensor:
    """[size] true for the first (or last) ``share`` of the positions."""
    kept = torch.arange(size) < round(share * size)
    return kept.flip(0) if from_end else kept


def encode_text(text: str, data: DataSpec) -> list[int]:
    """The tokens of a text, by the longest match."""
    assert data.tokens is not None
    number = {token: k for k, token in enumerate(data.tokens)}
    longest, codes, at = max(map(len, data.tokens)), [], 0
    while at < len(text):
        for size in range(min(longest, len(text) - at), 0, -1):
            if text[at : at + size] in number:
                codes.append(number[text[at : at + size]])
                at += size
                break
        else:
            raise ElbowroomError(
                f"prompt: the model has no token for {text[at]!r} (character {at + 1}); its "
                "vocabulary is that of its training text"
            )
    return codes


def prompt_examples(prompt: str, data: DataSpec) -> tuple[GivenExamples, str]:
    """The example that a prompt starts, and the part of the prompt that does not fit.

    Each underscore in a run of three or more is one position to fill in. A prompt that leaves less
    than a quarter of the window slides: its last three quarters of a window are given.
    """
    if data.tokens is None:
        raise ElbowroomError("prompt: this model's data are not text")
    if not prompt:
        raise ElbowroomError("prompt: it is empty; leave it out to draw unconditional samples")
    codes: list[int] = []
    kept: list[bool] = []
    for piece in re.split(f"({_GAP.pattern})", prompt):
        hidden = bool(_GAP.fullmatch(piece))
        new = [0] * len(piece) if hidden else encode_text(piece, data)
        codes += new
        kept += [not hidden] * len(new)
    length = data.shape[0]
    most = length if False in kept else max(1, 3 * length // 4)
    before = ""
    if len(codes) > most:
        if False in kept:
            raise ElbowroomError(
                f"prompt: {len(codes)} tokens with gaps to fill do not fit the window of {length}"
            )
        cut = len(codes) - most
        before = data.texts(torch.tensor([codes[:cut]]))[0]
        codes, kept = codes[cut:], kept[cut:]
    x, keep = torch.zeros(length, dtype=torch.long), torch.zeros(length, dtype=torch.bool)
    x[: len(codes)], keep[: len(codes)] = torch.tensor(codes), torch.tensor(kept)
    return GivenExamples(x[None], keep[None]), before


def completion_method(model: Diffusion) -> str:
    """How the model completes examples, in words."""
    keep = torch.zeros((1, *model.process.data.shape), dtype=torch.bool)
    if model.completion(keep).clean:
        return "exact conditionals of the model"
    return (
        "replacement of given positions, which is approximate; train with objective.path=given "
        "for exact conditionals"
    )
