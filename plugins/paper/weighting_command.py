"""``elbowroom weighting``: what a weighting is, and whether it is a bound."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from elbowroom.cli import JSON, Trust, console, help_group, number, print_json, table

if TYPE_CHECKING:
    from elbowroom import ComponentSpec, Level, Weighting
    from torch import Tensor

    from .certificate import Certificate
    from .parts import PartsCertificate
    from .slack import Slack

_USUAL = "0.01,0.1,0.25,0.5,0.75,0.9,0.99"


@help_group("Theory")
def weighting(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC", help="A name, or '{name: sigmoid, k: 2}'.")
    ],
    process: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The noise process. Default: masked.")
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="The noise schedule. Default: that of the process."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="T", min=1, help="Number of discrete steps. Default: continuous time."
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Use the process, schedule and steps of this run."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="T,T,...", help=f"Times between 0 and 1. Default: {_USUAL}."),
    ] = None,
    at_log_snr: Annotated[
        str | None,
        typer.Option("--at-log-snr", metavar="L,L,...", help="Log-SNRs instead of times."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a plot.")] = None,
    project: Annotated[
        bool, typer.Option("--project", help="Also show the nearest weighting that is a bound.")
    ] = False,
    part: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SPEC",
            help="A further part of the data with its weighting, and its factor as in "
            "label=0.5*elbo. May be repeated.",
        ),
    ] = None,
    clock: Annotated[
        str,
        typer.Option(metavar="CLOCK", help="Times of the parts: shared or independent."),
    ] = "shared",
    trust: Trust = False,
    json: JSON = False,
) -> None:
    """Show a weighting's values and whether it is a variational bound.

    With --part it also shows what an objective of several parts bounds.

    Example: elbowroom weighting edm --process masked --schedule '{name: cosine, eps: 0}' --project
    """
    from elbowroom import named_component
    from elbowroom.config import parse_spec
    from elbowroom.registry import trusting

    from .certificate import certify
    from .meaning import describe_weighting

    specs = {"weighting": named_component("weighting", parse_spec(spec), path="SPEC")}
    if run is None:
        specs["process"] = named_component(
            "process", parse_spec(process or "masked"), path="--process"
        )
        chosen = None if schedule is None else parse_spec(schedule)
        specs["schedule"] = _schedule(specs["process"], chosen)
    else:
        _refuse_beside_run(process=process, schedule=schedule, steps=steps)
        with trusting(trust):
            specs["process"], specs["schedule"], steps = _of_run(run)
    made, made_process, made_schedule = (
        specs[kind].build() for kind in ("weighting", "process", "schedule")
    )
    level, given = _levels(at, at_log_snr, made_schedule, made_process, steps)

    shown = {"": made}
    if project:
        given_spec = specs["weighting"].given or {"name": spec}
        repair = named_component(
            "weighting", {"name": "isotonic", "of": dict(given_spec)}, path="SPEC"
        )
        shown["projected"] = repair.build()
    views = {
        label: _View.of(one.prepare(made_schedule, made_process, steps), level)
        for label, one in shown.items()
    }
    certificates = {
        label: certify(one, made_schedule, made_process, steps) for label, one in shown.items()
    }
    slack = certificates[""].slack
    if run is not None and slack is not None:
        slack = _slack(made, made_schedule, made_process, run, steps)
    why = _why_no_schedule(spec, views[""]) if given == "log_snr" else None
    several = _several(made, part, clock, made_schedule, made_process) if part else None

    if plot is not None:
        from .figures import weighting_figure

        weighting_figure(
            plot,
            spec,
            made,
            made_schedule,
            made_process,
            certificates[""],
            shown.get("projected"),
            steps,
        )
    if json:
        names = {key: one.given or {"name": one.name} for key, one in specs.items()}
        record = _record(names, level, views, certificates, slack, why)
        if several is not None:
            record["parts"] = several.record()
        print_json({**record, "in_words": describe_weighting(made, made_schedule, made_process)})
        return
    _print(specs, level, views, certificates, slack, why)
    for sentence in describe_weighting(made, made_schedule, made_process):
        console().print(sentence, markup=False)
    if several is not None:
        console().print(f"All parts, {clock} time: {several.verdict}.", markup=False)
    if plot is not None:
        console().print(f"drawn in {plot}", markup=False)


def _several(
    first: Weighting, given: list[str], clock: str, schedule: Any, process: Any
) -> PartsCertificate:
    """The certificate of SPEC, called ``this``, and the parts of --part."""
    from elbowroom import ConfigError, named_component
    from elbowroom.config import parse_spec

    from .parts import certify_parts

    if clock not in ("shared", "independent"):
        raise ConfigError(f"--clock {clock}: use shared or independent")
    weightings, balance = {"this": first}, {}
    for one in given:
        name, equals, text = one.partition("=")
        factor, times, rest = text.partition("*")
        if not equals or not name or not text:
            raise ConfigError(f"--part {one}: write NAME=SPEC, as in label=elbo")
        if times:
            balance[name] = _numbers("--part", factor)[0]
            text = rest
        weightings[name] = named_component("weighting", parse_spec(text), path="--part").build()
    return certify_parts(weightings, schedule, process, clock, balance)


class _View:
    """A weighting's values at some levels."""

    def __init__(self, w: Tensor, plain_weight: Tensor) -> None:
        self.w, self.plain_weight = w, plain_weight

    @classmethod
    def of(cls, weighting: Weighting, level: Level) -> _View:
        return cls(weighting(level), weighting.plain_weight(level))

    def record(self) -> dict[str, Any]:
        return {"w": self.w.tolist(), "plain_weight": self.plain_weight.tolist()}


def _schedule(process: ComponentSpec, given: Any) -> ComponentSpec:
    """The schedule asked for, or the process's natural one."""
    from elbowroom import named_component

    chosen = process.build().natural_schedule if given is None else given
    return named_component("schedule", chosen, path="--schedule")


def _refuse_beside_run(**options: Any) -> None:
    from elbowroom import ConfigError

    named = [f"--{name}" for name, value in options.items() if value is not None]
    if named:
        raise ConfigError(f"--run says what {', '.join(named)} would: leave one of them out")


def _of_run(run: str) -> tuple[ComponentSpec, ComponentSpec, int | None]:
    """(process, schedule, steps) of a run."""
    from elbowroom.runs import RunFolder

    config = RunFolder.open(run).config()
    assert config.schedule is not None, "a run names its schedule"
    return config.process, config.schedule, config.objective.steps


def _slack(made: Weighting, schedule: Any, process: Any, run: str, steps: int | None) -> Slack:
    """What the weighting holds at what slack where the run says what each level loses."""
    from elbowroom.runs import RunFolder

    from .slack import LossCurve, slack_on_run

    folder = RunFolder.open(run)
    curve = LossCurve.of_log(folder.rows(), folder.path.name)
    return slack_on_run(made.prepare(schedule, process, steps), schedule, process, curve, steps)


def _levels(
    at: str | None, at_log_snr: str | None, schedule: Any, process: Any, steps: int | None
) -> tuple[Level, str]:
    import torch
    from elbowroom import ConfigError, Level

    from .survey import levels_at

    if at is not None and at_log_snr is not None:
        raise ConfigError("--at and --at-log-snr exclude each other: give one of them")
    if at_log_snr is not None:
        lam = torch.tensor(_numbers("--at-log-snr", at_log_snr), dtype=torch.float64)
        return Level.at(lam, process), "log_snr"
    t = torch.tensor(_numbers("--at", _USUAL if at is None else at), dtype=torch.float64)
    if bool(((t < 0) | (t > 1)).any()):
        raise ConfigError(f"--at {at}: times lie in [0, 1]")
    return levels_at(t, schedule, process, steps), "t"


def _numbers(option: str, text: str) -> list[float]:
    from elbowroom import ConfigError

    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(math.isfinite(value) for value in values):
        raise ConfigError(f"{option} {text!r}: expected numbers with commas between, like 0.1,0.5")
    return values


def _why_no_schedule(spec: str, view: _View) -> str | None:
    if not bool(view.w.isnan().any()):
        return None
    return (
        f"{spec} has no form in the log-SNR alone: it depends on the schedule's rate; "
        "use --at with a --schedule"
    )


def _record(
    names: dict[str, Any],
    level: Level,
    views: dict[str, _View],
    certificates: dict[str, Certificate],
    slack: Slack | None,
    why: str | None,
) -> dict[str, Any]:
    record: dict[str, Any] = {
        **names,
        "t": level.t.tolist(),
        "log_snr": level.log_snr.tolist(),
        **views[""].record(),
        "certificate": certificates[""].record(),
        "slack": None if slack is None else slack.record(),
    }
    if why is not None:
        record["why"] = why
    if "projected" in views:
        record["projected"] = {
            **views["projected"].record(),
            "certificate": certificates["projected"].record(),
        }
    return record


def _print(
    specs: dict[str, Any],
    level: Level,
    views: dict[str, _View],
    certificates: dict[str, Certificate],
    slack: Slack | None,
    why: str | None,
) -> None:
    from rich.text import Text

    out = console()
    title = f"{specs['weighting'].name} · {specs['process'].name} · {specs['schedule'].name}"
    columns = [">t", ">λ", ">w̃", ">plain weight"]
    if "projected" in views:
        columns += [">repaired w̃", ">repaired plain weight"]
    listing = table(title, *columns)
    for row, (t, lam) in enumerate(zip(level.t.tolist(), level.log_snr.tolist(), strict=True)):
        values = [t, lam]
        for view in views.values():
            values += [float(view.w[row]), float(view.plain_weight[row])]
        listing.add_row(*(number(value) for value in values))
    out.print(listing)
    if why is not None:
        out.print(Text(why, style="yellow"))
    for label, certificate in certificates.items():
        style = "green" if certificate.is_bound else "red"
        name = "the repair" if label else specs["weighting"].name
        out.print(Text.assemble((f"{name} is ", "bold"), (certificate.verdict, style)))
    first = certificates[""]
    out.print(
        f"isotonic distance {first.isotonic_distance:.4f}, negative share "
        f"{first.negative_share:.4f}, total weight on the plain loss {first.total_weight:.4g}"
    )
    if slack is not None:
        out.print(Text(slack.words))
