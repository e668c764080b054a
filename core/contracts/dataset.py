"""Data sets: integers in, integers out.

A data set yields integers ``0 .. levels-1`` (pixels, tokens) and labels. Each process encodes them,
so bits per dimension and samples are comparable between processes.

A split is *indexable* and stateless. The order of examples is decided by training
(:mod:`elbowroom.randomness.shuffle`) and by evaluation (plain order), so a split may be on disk and
be read by any number of workers.
"""

from __future__ import annotations

import difflib
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import ElbowroomError, did_you_mean

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SPLITS = ("train", "validation", "test")
"""The splits every data set has; they share no example."""


@attrs.frozen
class Part:
    """A named slice of the flattened example, such as a column of a table.

    An empty slice (``start == stop``) is a column the model has no position for: a constant with
    its single value, or the label, without values.
    """

    name: str
    start: int
    stop: int
    values: tuple[str, ...] | None = None  # the text of each value; "" is a missing one
    # least and greatest number of each of the last values, where a value is a range of numbers
    bins: tuple[tuple[float, float], ...] | None = None
    decimals: int = 0  # digits after the point of a number drawn from a bin

    def __str__(self) -> str:
        """The name and the values in one line."""
        values = self.values or ()
        missing = ", one of them missing" if "" in values else ""
        if self.bins is not None:
            low, high = self.bins[0][0], self.bins[-1][1]
            return f"{self.name}: {low:g} to {high:g} in {len(values)} values{missing}"
        if self.start == self.stop:
            return f"{self.name}: {f'always {values[0]!r}' if values else 'the label'}"
        shown = join_names([value for value in values if value], 8)
        return f"{self.name}: {len(values)} values{missing}: {shown}"

    @classmethod
    def recorded(cls, record: Mapping[str, Any]) -> Part:
        """The inverse of ``attrs.asdict``, after JSON."""
        values, bins = record["values"], record["bins"]
        values = None if values is None else tuple(map(str, values))
        bins = None if bins is None else tuple((float(low), float(high)) for low, high in bins)
        return cls(**{**record, "values": values, "bins": bins})


@attrs.frozen
class DataSpec:
    """The form of a data set's examples.

    Args:
        shape: (H, W, C) for images, (N,) for sequences.
        levels: Number of values; examples are integers 0 .. levels-1.
        classes: Number of labels; None: no labels.
        names: Class names by label.
        tokens: Text of each value, for text data; bytes of a partial character by surrogateescape.
    """

    shape: tuple[int, ...]
    levels: int = attrs.field(validator=attrs.validators.ge(2))
    classes: int | None = None
    names: tuple[str, ...] | None = attrs.field(default=None, eq=False)
    tokens: tuple[str, ...] | None = attrs.field(default=None, eq=False, repr=False)
    # number of values of each position, in flattened order; None: ``levels`` at every position
    sizes: tuple[int, ...] | None = attrs.field(default=None, kw_only=True)
    parts: tuple[Part, ...] = attrs.field(default=(), eq=False, repr=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.sizes is not None and set(self.sizes) == {self.levels}:
            object.__setattr__(self, "sizes", None)  # the same data: the same computation

    @sizes.validator
    def _one_for_each_position(self, _: object, sizes: tuple[int, ...] | None) -> None:
        if sizes is None:
            return
        if len(sizes) != self.dims:
            raise ValueError(f"{len(sizes)} sizes for {self.dims} positions")
        if not 2 <= min(sizes) <= max(sizes) == self.levels:
            raise ValueError(
                f"sizes from {min(sizes)} to {max(sizes)}: the least is 2, the greatest is levels, "
                f"{self.levels}"
            )

    @names.validator
    def _one_for_each_class(self, _: object, names: tuple[str, ...] | None) -> None:
        if names is not None and (len(names) != self.classes or len(set(names)) != len(names)):
            raise ValueError(
                f"{len(names)} names, {len(set(names))} of them different, "
                f"for {self.classes} classes: each class needs a distinct name"
            )

    @tokens.validator
    def _one_for_each_value(self, _: object, tokens: tuple[str, ...] | None) -> None:
        if tokens is not None and len(tokens) != self.levels:
            raise ValueError(f"{len(tokens)} tokens for {self.levels} levels: each level needs one")

    @classmethod
    def recorded(cls, record: Mapping[str, Any]) -> DataSpec:
        """The inverse of ``attrs.asdict``, after JSON; absent names are None."""
        names, tokens = (
            None if (given := record.get(key)) is None else tuple(map(str, given))
            for key in ("names", "tokens")
        )
        sizes, parts = record.get("sizes"), map(Part.recorded, record.get("parts") or ())
        return cls(
            tuple(record["shape"]),
            record["levels"],
            record["classes"],
            names,
            tokens,
            sizes=None if sizes is None else tuple(sizes),
            parts=tuple(parts),
        )

    def fits(self, made_for: DataSpec) -> bool:
        """Whether a model made for ``made_for`` can read this data."""
        unknown = self.tokens is None or made_for.tokens is None
        same = unknown or self.tokens == made_for.tokens
        if self.parts and made_for.parts:
            same = same and self.parts == made_for.parts
        forms = ((one.shape, one.levels, one.sizes) for one in (self, made_for))
        return same and len(set(forms)) == 1

    def counts(self, device: torch.device | str = "cpu") -> Tensor | int:
        """[*shape] number of values of each position, or ``levels`` where all are equal."""
        import torch

        if self.sizes is None:
            return self.levels
        return torch.tensor(self.sizes).view(self.shape).to(device, non_blocking=True)

    def possible(self, logits: Tensor) -> Tensor:
        """Logits [B, *shape, V], minus infinity for values that a position cannot take."""
        import torch

        if self.sizes is None:
            return logits
        counts = torch.as_tensor(self.counts(logits.device)).unsqueeze(-1)
        values = torch.arange(self.levels, device=logits.device)
        return logits.masked_fill(values >= counts, -torch.inf)

    def texts(self, x: Tensor) -> list[str]:
        """The text of examples x [B, N]."""
        tokens, rows = self.tokens or (), x.tolist()
        joined = ("".join(tokens[value] for value in row) for row in rows)
        return [one.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for one in joined]

    def class_name(self, label: int) -> str:
        """The name of a class, or its number if it has none."""
        return str(label) if self.names is None else self.names[label]

    def label_of(self, given: int | str) -> int:
        """The label of a class name or number; names are tried first."""
        if self.classes is None:
            raise ElbowroomError(f"class {given!r} was requested, but the data has no classes")
        if isinstance(given, str) and given in (self.names or ()):
            return (self.names or ()).index(given)
        try:
            label = int(given) if isinstance(given, str) else operator.index(given)
        except (ValueError, TypeError):
            raise ElbowroomError(f"no class {given!r}: {self._choices(str(given))}") from None
        if not 0 <= label < self.classes:
            raise ElbowroomError(f"no class {given}: {self._choices(str(given))}")
        return label

    def _choices(self, given: str) -> str:
        """The names nearest to the given one, or all choices."""
        numbers = f"classes are 0 to {(self.classes or 0) - 1}"
        if self.names is None:
            return numbers
        alike = [name for name in self.names if given.lower() in name.lower()]
        near = difflib.get_close_matches(given, self.names, n=5, cutoff=0.5)
        near = list(dict.fromkeys([*near, *alike]))[:5]
        if near:
            return f"did you mean {' or '.join(map(repr, near))}? ({numbers}, or their names)"
        return f"{numbers}, or their names: {join_names(self.names)}"

    @property
    def dims(self) -> int:
        """The number of integers in one example."""
        n = 1
        for side in self.shape:
            n *= side
        return n


@attrs.frozen(eq=False)
class Batch:
    """Examples of a data set and their labels."""

    x: Tensor  # [B, *shape] integers
    y: Tensor | None = None  # [B] labels

    def __len__(self) -> int:
        return len(self.x)


class Split(ABC):
    """A fixed, indexable part of a data set. Define ``__len__`` and ``take``.

    It is a torch data set too: ``DataLoader(data.split("train"), batch_size=64)``.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Tensor) -> Batch:
        """The examples at ``indices`` [B], in that order."""

    def batches(self, size: int) -> Iterator[Batch]:
        """Every example once, in order, at most ``size`` at a time."""
        import torch

        if size < 1:
            raise ValueError(f"a batch has at least 1 example, not {size}")
        for start in range(0, len(self), size):
            yield self.take(torch.arange(start, min(start + size, len(self))))

    # -- as a torch data set

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor] | Tensor:
        """One example: (x, y), or x without labels."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"example {index} of a split of {len(self)}")
        return self.__getitems__([index % len(self)])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[tuple[Tensor, Tensor] | Tensor]:
        """The examples of a batch."""
        import torch

        batch = self.take(torch.as_tensor(indices))
        return list(batch.x) if batch.y is None else list(zip(batch.x, batch.y, strict=True))


class Dataset(ABC):
    """A source of integer examples with fixed splits. Define ``spec`` and ``split``."""

    @property
    @abstractmethod
    def spec(self) -> DataSpec: ...

    @abstractmethod
    def split(self, name: str) -> Split:
        """The split ``train``, ``validation`` or ``test``; the same examples at each call."""

    def units(self, split: str) -> Mapping[str, float]:
        """Further units for bits: name -> average number per example (default: none)."""
        return {}


def join_names(names: Sequence[str], most: int = 12) -> str:
    """Names joined by commas; of many the first ``most`` and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def check_split(name: str) -> str:
    """``name``, if it is one of :data:`SPLITS`; otherwise an error that lists them."""
    if name not in SPLITS:
        raise ElbowroomError(
            f"no split {name!r}{did_you_mean(name, SPLITS)}: a data set has {', '.join(SPLITS)}"
        )
    return name
