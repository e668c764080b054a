"""``elbowroom evaluate``: evaluate a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from elbowroom.cli import (
    JSON,
    Checkpoint,
    Device,
    Ema,
    Overrides,
    Precision,
    Run,
    Trust,
    console,
    help_group,
    is_first_rank,
    number,
    print_json,
    table,
    with_ema,
)
from elbowroom.plugins.console.display import progress_display

from .options import Features, Metrics, Reference, Samples, SampleSeeds, Seed

FAILED = 1  # exit code if a metric failed; the others are written


@help_group("Models")
def evaluate(
    run: Run,
    overrides: Overrides = None,
    metric: Metrics = None,
    features: Features = None,
    reference: Reference = None,
    samples: Samples = 1000,
    sample_seeds: SampleSeeds = 1,
    seed: Seed = 0,
    checkpoint: Checkpoint = "best",
    ema: Ema = None,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Samples per batch. Default: 250.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The output folder. Default: RUN/evaluation.")
    ] = None,
    keep_samples: Annotated[
        bool, typer.Option("--keep-samples", help="Keep the samples, as safetensors files.")
    ] = False,
    device: Device = None,
    precision: Precision = "float32",
    trust: Trust = False,
    json: JSON = False,
) -> None:
    """Measure a run: bits/dim, FID, KID, IS and distances to training examples.

    For a run with several averages, --ema 0.999,0.9999 evaluates each.
    Under torchrun the ranks share the work; the result is that of one process.

    Example: elbowroom evaluate runs/digits sampler.steps=32 --samples 2000
    """
    from elbowroom.runs import check_ema

    from .metric import EVALUATION_BATCH
    from .protocol import EvaluationProtocol
    from .run import evaluate_run

    protocol = EvaluationProtocol(
        metrics=tuple(metric or ()),
        features=features,
        reference=reference,
        samples=samples,
        seed=seed,
        sample_seeds=sample_seeds,
        checkpoint=checkpoint,
        precision=precision,  # type: ignore[arg-type]  # checked there
    )
    averages = [None] if ema is None else [one.strip() for one in ema.split(",")]
    for average in averages[1:]:
        check_ema(run, with_ema(overrides, average), trust)
    with progress_display() as progress:
        reports = [
            evaluate_run(
                run,
                with_ema(overrides, average),
                protocol,
                out=out if out is None or len(averages) == 1 else out / f"ema-{average}",
                batch_size=batch_size or EVALUATION_BATCH,
                device=device,
                trust=trust,
                keep_samples=keep_samples,
                progress=progress,
            )
            for average in averages
        ]
    if json and is_first_rank():
        records = [{"folder": str(report.folder), **report.record} for report in reports]
        print_json(records[0] if len(records) == 1 else records)
    elif is_first_rank():
        for report in reports:
            _print(report.record)
            console().print(f"written to {report.folder / 'figures.json'}", markup=False)
    if any(report.failed for report in reports):
        raise typer.Exit(FAILED)


def _print(record: Mapping[str, Any]) -> None:
    from rich.text import Text

    out = console()
    listing = table(
        "Measurements", "measurement", ">value", ">± se", ">real data", ">uniform", "of"
    )
    measurements: list[Mapping[str, Any]] = list(record["figures"].values())
    drawn = common_sampling([measurement["of"] for measurement in measurements])
    for name, measurement in record["figures"].items():
        error, floor = measurement["standard_error"], measurement["floor"]
        uniform = measurement.get("uniform_baseline")
        listing.add_row(
            Text(measurement.get("heading") or name),
            number(measurement["value"]),
            "" if error is None else f"{error:.2g}",
            "" if floor is None else f"{floor:.5g}",
            "" if uniform is None else f"{uniform:.5g}",
            Text(protocol_words(measurement["of"], omit=drawn), style="dim"),
        )
    for name, why in record["failed"].items():
        listing.add_row(Text(name), Text("failed", style="red"), "", "", "", Text(why, style="red"))
    out.print(listing)
    common: Mapping[str, Any] = measurements[0]["of"] if measurements else {}
    calls = record["calls_mean"]
    words = [f"{common.get('run')}, {common.get('weights')}"] if measurements else []
    protocol = record["protocol"]
    count, seeds = protocol["samples"], protocol.get("sample_seeds", 1)
    words.append(f"seed {protocol['seed']}")
    if calls is not None:
        times = f"{seeds} × " if seeds > 1 else ""
        words.append(f"{times}{count} samples of {calls:.4g} network calls each")
    out.print(Text(" · ".join([*words, *([protocol_words(drawn)] if drawn else [])])))
    out.print(Text(error_words(measurements), style="dim"))
    out.print(
        Text(
            "real data: the value for the test split; uniform: for the uniform baseline",
            style="dim",
        )
    )
    for name, measurement in record["figures"].items():
        if measurement.get("vacuous"):
            why = "worse than the uniform baseline"
            out.print(Text.assemble((f"{name} is vacuous: ", "red"), why))
    for name, reason in record["skipped"].items():
        out.print(Text.assemble((f"{name} skipped: ", "yellow"), reason))


def error_words(measurements: Sequence[Mapping[str, Any]]) -> str:
    """What ``± se`` includes, with its degrees of freedom if it is over sample seeds."""
    from scipy.special import stdtrit

    of = [measurement["of"] for measurement in measurements]
    seeds = max((one.get("sample_seeds", 1) for one in of), default=1)
    samples = "for other samples"
    if seeds > 1:  # few degrees of freedom: the standard error itself is uncertain
        freedom = "1 degree" if seeds == 2 else f"{seeds - 1} degrees"
        factor = stdtrit(seeds - 1, 0.975)  # Student's t
        samples = (
            f"over {seeds} sample seeds ({freedom} of freedom: a 95 % interval is ± {factor:.3g} "
            "se)"
        )
    return (
        f"± se: standard error of the evaluation, {samples} (fixed reference); for bits/dim over "
        "other examples and noise. The scatter over training seeds is not included."
    )


_COMMON = ("metric", "run", "weights", "seed")
_IN_HEADINGS = (
    "data",
    "features",
    "features_test_accuracy",
    "samples",
    "sample_seeds",
    "reference",
)
_SAMPLING = ("sampler", "labels")


def common_sampling(protocols: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields on sampling that all measurements of samples have in common."""
    of_samples = [of for of in protocols if "sampler" in of]
    if not of_samples:
        return {}
    first, *others = of_samples
    return {
        key: first[key]
        for key in _SAMPLING
        if key in first and all(of.get(key) == first[key] for of in others)
    }


def protocol_words(of: Mapping[str, Any], omit: Collection[str] = ()) -> str:
    """The protocol of a measurement in a line, without the fields in its heading and ``omit``."""
    words = []
    for key, value in of.items():
        if key in (*_COMMON, *_IN_HEADINGS, *omit):
            continue
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        bare = key in ("against", "split", "sampler", "distance")
        words.append(shown if bare else f"{key.replace('features_', '').replace('_', ' ')} {shown}")
    return ", ".join(words)
