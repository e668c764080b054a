"""Options that several commands share, and the groups of ``elbowroom --help``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import typer

_Command = TypeVar("_Command", bound=Callable[..., None])
HELP_GROUPS = ("Start here", "Models", "Theory", "Plugins")


def help_group(group: str, place: int = 0) -> Callable[[_Command], _Command]:
    """List a command under this heading of ``elbowroom --help``, lower places first.

    Args:
        group: One of ``HELP_GROUPS``. Commands without a group are listed last.
        place: Position in the group; equal places are sorted by name.
    """
    if group not in HELP_GROUPS:
        raise ValueError(f"group {group!r}: use one of {', '.join(HELP_GROUPS)}")

    def mark(command: _Command) -> _Command:
        vars(command)["help_group"] = (group, place)
        return command

    return mark


JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Execute the code files that RUN names. Read them first."),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="DEVICE", help="cpu, cuda or cuda:N. Default: the fastest available."),
]
Precision = Annotated[
    str, typer.Option(metavar="DTYPE", help="Precision of the network: float32 or bfloat16.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.")]
Config = Annotated[str, typer.Argument(metavar="CONFIG", help="A YAML file or a preset's name.")]
Changes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", help="Changes to the config, e.g. process=gaussian train.steps=10."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Changes to the run's config, e.g. sampler.steps=32."),
]
Checkpoint = Annotated[str, typer.Option(metavar="WHICH", help="best, last or a step number.")]
Ema = Annotated[
    str | None,
    typer.Option(
        "--ema", metavar="DECAY", help="Which average to use, for a run with train.ema_also."
    ),
]


def with_ema(overrides: Sequence[str] | None, ema: str | None) -> tuple[str, ...]:
    """Changes that also choose an average of a run."""
    return (*(overrides or ()), *(() if ema is None else (f"train.ema={ema}",)))
