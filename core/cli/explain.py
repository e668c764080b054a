"""``elbowroom explain``: what a config means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    JSON,
    Changes,
    Config,
    Device,
    Devices,
    Measure,
    Samples,
    Tflops,
    Utilisation,
)
from .output import console, in_detail, print_json, table

if TYPE_CHECKING:
    from ..config.explain import Explanation
    from ..contracts.dataset import DataSpec


def explain(
    config: Config,
    overrides: Changes = None,
    cost: Annotated[
        bool, typer.Option("--cost", help="Operations, memory and hours; what follows is for it.")
    ] = False,
    tflops: Tflops = None,
    utilisation: Utilisation = 0.4,
    devices: Devices = 1,
    samples: Samples = 1000,
    measure: Measure = False,
    device: Device = None,
    json: JSON = False,
) -> None:
    """The resolved config, who supplies each component, the parameter count, the certificate.

    Example: elbowroom explain digits process=gaussian --cost --tflops 300
    """
    from ..config.assembly import check_files
    from ..config.explain import explain_config
    from ..config.sections import load_config

    in_detail()
    checked = load_config(config, tuple(overrides or ()))
    explanation = explain_config(checked)
    check_files(checked)
    found = None
    if cost or measure or tflops is not None:
        found = _counted()(
            checked,
            tflops=tflops,
            utilisation=utilisation,
            devices=devices,
            samples=samples,
            measured=measure,
            device=device,
        )
    if json:
        print_json(explanation.record() | ({} if found is None else {"cost": found.record()}))
        return
    _print(explanation)
    for line in [] if found is None else found.lines():
        typer.echo(line)


def _counted() -> Any:
    """What counts costs: a plugin's command, as a function."""
    from ..errors import PluginError
    from ..registry.components import installed

    command = installed().commands().get("cost")
    if command is None:
        raise PluginError("--cost: the plugin that counts costs is not installed")
    return command.python_form()


def _form(data: DataSpec) -> str:
    """The form of the data in a line."""
    from ..contracts.dataset import listed

    words = f"{' × '.join(map(str, data.shape))} integers of {data.levels} levels"
    if data.classes is not None:
        words += f", {data.classes} classes"
    return words + (f": {listed(data.names)}" if data.names is not None else "")


def _print(explanation: Explanation) -> None:
    from rich.syntax import Syntax
    from rich.text import Text

    out = console()
    if out.is_terminal:
        out.print(Syntax(explanation.yaml.rstrip(), "yaml", background_color="default"))
    else:
        typer.echo(explanation.yaml.rstrip())
    listing = table("Components", "kind", "name", "supplied by")
    rows: dict[str, Any] = explanation.components
    for kind, one in rows.items():
        listing.add_row(Text(kind), Text(one["name"]), Text(one["owner"]))
    out.print(listing)
    if explanation.data is not None:
        out.print(Text.assemble(("data: ", "bold"), _form(explanation.data)))
    count = explanation.parameters
    out.print(
        Text.assemble(
            ("parameters: ", "bold"),
            f"{count:,}" if count is not None else explanation.no_parameters,
        )
    )
    verdict = explanation.certificate
    style = "green" if verdict.is_bound else "red"
    out.print(Text.assemble(("the objective is ", "bold"), (verdict.verdict, style)))
    if verdict.slack is not None:
        out.print(Text(verdict.slack.words))
    if explanation.learning:
        named = (f"{kind.replace('_', ' ')} {rows[kind]['name']}" for kind in explanation.learning)
        out.print(Text.assemble(("learned while training: ", "bold"), ", ".join(named)))
    for remark in explanation.remarks:
        out.print(Text.assemble(("note: ", "bold yellow"), remark))
