"""``elbowroom cascade``: a weighting that is a bound by construction, made from a run's curve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from elbowroom.cli import JSON, Trust, console, help_group, number, print_json, table

if TYPE_CHECKING:
    from elbowroom import Certificate, Objective, Weighting

    from .curve_file import CurveFile
    from .nearest_cascade import NearestCascade


@help_group("Theory", 1)
def cascade(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run whose curve was measured.")],
    knots: Annotated[
        int, typer.Option(metavar="K", min=1, max=64, help="Largest number of knots.")
    ] = 5,
    of: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="The weighting to approximate. Default: equal shares."),
    ] = None,
    trust: Trust = False,
    json: JSON = False,
) -> None:
    """Derive a cascade weighting from a run: a bound by construction.

    Measure the run's curve first: elbowroom evaluate RUN --metric curve

    Example: elbowroom cascade runs/pilot --knots 8 --of sigmoid
    """
    from elbowroom import named_component
    from elbowroom.config import parse_spec
    from elbowroom.plugins.paper.certificate import certify
    from elbowroom.runs import RunFolder, load_run

    from .curve_file import own_curve, read_curve
    from .information import equal_parts
    from .nearest_cascade import spec_of

    wanted = None
    if of is not None:
        wanted = named_component("weighting", parse_spec(of), path="--of").build()
    folder = RunFolder.open(run)
    curve = read_curve(str(own_curve(folder.path)), asked_by="cascade")
    objective = load_run(run, device="cpu", trust=trust).model.objective
    with _about(f"cascade: {curve.path}"):
        places = equal_parts(curve.costs, knots)
    nearest = None
    if wanted is not None:
        with _about("--of"):
            nearest = _nearest(wanted, objective, curve, places)
    spec = spec_of(places) if nearest is None else nearest.spec
    made = named_component("weighting", spec, path="SPEC").build()
    certificate = certify(made, objective.schedule, objective.process, objective.steps)
    if json:
        print_json(
            {
                "weighting": spec,
                "of": of,
                "residual": None if nearest is None else nearest.residual,
                "certificate": certificate.record(),
                "curve": {"path": str(curve.path), "sha256": curve.sha256},
            }
        )
        return
    _print(spec, of, nearest, certificate)


@contextmanager
def _about(what: str) -> Iterator[None]:
    """Errors inside begin with what they are about."""
    from elbowroom import ElbowroomError

    try:
        yield
    except ElbowroomError as error:
        raise ElbowroomError(f"{what}: {error}") from error


def _nearest(
    wanted: Weighting, objective: Objective, curve: CurveFile, places: tuple[float, ...]
) -> NearestCascade:
    from .nearest_cascade import nearest_cascade

    schedule, process = objective.schedule, objective.process
    ready = wanted.prepare(schedule, process)
    return nearest_cascade(ready, schedule, process, curve.costs, places)


def _print(
    spec: dict[str, Any], of: str | None, nearest: NearestCascade | None, certificate: Certificate
) -> None:
    out = console()
    listing = table("cascade", ">λ", ">share")
    places = ["ELBO", *(f"{knot:g}" for knot in spec["knots"])]
    for place, share in zip(places, _shares(spec), strict=True):
        listing.add_row(place, number(share))
    out.print(listing)
    if nearest is not None:
        out.print(
            f"{100 * nearest.residual:.3g} % away from {of}, in the root mean square over the bits",
            markup=False,
        )
    out.print(f"it is {certificate.verdict}", markup=False)
    inline = ", ".join(f"{key}: {value}" for key, value in spec.items())
    out.print(f"weighting: {{{inline}}}", markup=False, highlight=False, soft_wrap=True)


def _shares(spec: dict[str, Any]) -> list[float]:
    many = len(spec["knots"]) + 1
    given: list[float] = spec.get("shares", [1 / many] * many)
    return given
