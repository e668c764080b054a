"""``elbowroom train``: start or resume a run."""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from elbowroom.cli import JSON, Changes, Device, Trust, console, help_group, log_details, print_json

if TYPE_CHECKING:
    from .loop import RunResult


@help_group("Start here", 2)
def train(
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG", help="A YAML file or a preset's name.")
    ] = None,
    overrides: Changes = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A new folder for the run. Default: runs/NAME-TIME."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Resume this run; train.steps and logging may change."),
    ] = None,
    auto_resume: Annotated[
        bool,
        typer.Option("--auto-resume", help="With --out: resume the run there if there is one."),
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="With --resume: start again from step 0."),
    ] = False,
    device: Device = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="OBSERVER", help="An observer to disable, e.g. tensorboard."),
    ] = None,
    trust: Trust = False,
    json: JSON = False,
) -> None:
    """Train a model.

    Under torchrun every rank runs this command.

    Example: elbowroom train digits process=gaussian --out runs/gaussian
    """
    from elbowroom import ConfigError, load_config

    from . import run

    log_details()
    quiet = frozenset(without or ())
    if resume is not None:
        if out is not None or auto_resume:
            raise ConfigError("--resume excludes --out and --auto-resume")
        changes = tuple(([config] if config else []) + (overrides or []))
        if config and "=" not in config:
            raise ConfigError(f"--resume reads the config from {resume}: remove {config!r}")
        result = run.resume(
            resume, changes, device=device, without=quiet, trust=trust, restart=restart
        )
    else:
        if trust:
            raise ConfigError(
                "--trust needs --resume: code that CONFIG refers to is always executed"
            )
        if auto_resume and out is None:
            raise ConfigError("--auto-resume needs --out RUN")
        if restart:
            raise ConfigError("--restart needs --resume RUN")
        if config is None:
            raise ConfigError("CONFIG is missing: a YAML file, a preset's name, or --resume RUN")
        _warn_of_a_cpu(config, device)
        folder = out or default_folder(config)
        result = run.train(
            load_config(config, tuple(overrides or ())),
            folder,
            device=device,
            without=quiet,
            auto_resume=auto_resume,
        )
    _print_result(result, json)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _warn_of_a_cpu(config: str, device: str | None) -> None:
    """Warn if a preset is used on a CPU and there is a smaller one, NAME-cpu."""
    from elbowroom.config import presets
    from elbowroom.runs import resolve_device

    smaller = f"{config}-cpu"
    if smaller in presets() and resolve_device(device).type == "cpu":
        console(stderr=True).print(
            f"warning: preset {config} may take weeks on a CPU. Use {smaller}.",
            markup=False,
        )


def default_folder(config: str) -> Path:
    """runs/NAME-TIME."""
    return Path("runs") / f"{Path(config).stem}-{datetime.now():%Y%m%d-%H%M%S}"


def _print_result(result: RunResult, json: bool) -> None:
    """Print where the files are and how to continue, on the first rank."""
    if result.latest is None:
        return
    again = f"elbowroom train --resume {shlex.quote(str(result.folder))}"
    if json:
        print_json(
            {
                "folder": str(result.folder),
                "step": result.step,
                "steps": result.steps,
                "reason": result.reason,
                "latest": str(result.latest),
                "best": None if result.best is None else str(result.best),
                "scalars": dict(result.scalars),
                "seconds": result.seconds,
                "failed": dict(result.failed),
                "resume": None if result.reason == "finished" else again,
            }
        )
        return
    out = console()
    lines = [f"run        {result.folder}", f"checkpoint {result.latest}"]
    if result.best is not None and result.best != result.latest:
        lines.append(f"best       {result.best}")
    if result.reason == "finished" and not result.scalars:  # no step was taken
        lines.append(
            f"the run is finished ({result.steps} steps). To train longer: {again} "
            f"train.steps={2 * result.steps}"
        )
    lines += result.remarks
    if result.reason != "finished":
        lines.append(f"stopped at step {result.step} of {result.steps}. Resume with: {again}")
    lines += [f"observer {name} failed {how}" for name, how in result.failed.items()]
    for line in lines:
        out.print(line, markup=False)
