"""A law is a function whose docstring states it and which raises if it is broken."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


def run(subject: object, laws: Iterable[Callable[..., None]], *arguments: Any) -> None:
    """Run every law; one AssertionError lists those that are broken, with the subject's file."""
    broken = []
    for law in laws:
        try:
            law(*arguments)
        except AssertionError as error:
            broken.append(f"{_statement(law)} But {error}")
        except Exception as error:
            what = f"it raised {type(error).__name__}: {error}"
            broken.append(f"{_statement(law)} But {what}{_line_of(subject, error)}")
    if broken:
        count = "a law" if len(broken) == 1 else f"{len(broken)} laws"
        listed = "\n".join(f"  - {sentence}" for sentence in broken)
        raise AssertionError(f"{subject!r}{_place_of(subject)} breaks {count}:\n{listed}")


def _class_of(subject: object) -> Any:
    return subject if inspect.isroutine(subject) or isinstance(subject, type) else type(subject)


def _place_of(subject: object) -> str:
    """The location of the subject's class, as `` (file:line)``."""
    try:
        owner = _class_of(subject)
        return f" ({inspect.getsourcefile(owner)}:{inspect.getsourcelines(owner)[1]})"
    except (OSError, TypeError):  # no file, as in a notebook
        return ""


def _line_of(subject: object, error: Exception) -> str:
    """The innermost line of the subject's file in the traceback, as `` (file:line)``."""
    try:
        file = inspect.getsourcefile(_class_of(subject))
    except (OSError, TypeError):  # no file, as in a notebook
        return ""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == file]
    return f" ({file}:{frames[-1].lineno})" if frames else ""


def _statement(law: Callable[..., None]) -> str:
    return (law.__doc__ or law.__name__).strip().splitlines()[0]


def ensure(holds: bool | Tensor, otherwise: str) -> None:
    """Raise an AssertionError unless the condition holds everywhere."""
    if not bool(torch.as_tensor(holds).all()):
        raise AssertionError(otherwise)


def close(
    got: Tensor, wanted: Tensor, what: str, *, relative: float, absolute: float = 0.0
) -> None:
    """Raise an AssertionError with the worst values unless two tensors agree."""
    got, wanted = torch.broadcast_tensors(got.double(), wanted.double())
    excess = (got - wanted).abs() - relative * wanted.abs() - absolute
    worst = int(excess.flatten().nan_to_num(torch.inf).argmax())
    if not bool((excess <= 0).all()):
        a, b = got.flatten()[worst].item(), wanted.flatten()[worst].item()
        raise AssertionError(f"{what} is {a:.6g}, expected {b:.6g}")


def chi_square(counts: Tensor, expected: Tensor) -> float:
    """The p-value of observed counts [S] against expected ones [S] (few-count cells pooled)."""
    rare = expected < 5
    observed = torch.cat([counts[~rare], counts[rare].sum().reshape(1)]).double()
    due = torch.cat([expected[~rare], expected[rare].sum().reshape(1)]).double()
    impossible = due <= 0
    if bool((observed[impossible] > 0).any()):
        return 0.0
    observed, due = observed[~impossible], due[~impossible]
    statistic = ((observed - due) ** 2 / due).sum()
    freedom = torch.tensor((len(due) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2)) if len(due) > 1 else 1.0
