"""``elbowroom doctor``: diagnosis of the installed plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from elbowroom.cli import JSON, console, help_group, print_json, table

if TYPE_CHECKING:
    from .doctor import Report

Load = Annotated[
    bool, typer.Option("--load", help="Import every component too (slow: this imports torch).")
]


@help_group("Plugins", 1)
def doctor(load: Load = False, json: JSON = False) -> None:
    """Check the installed plugins: import times, conflicting and broken components.

    Exits with 1 if a plugin is broken.

    Example: elbowroom doctor --load
    """
    from .doctor import examine

    report = examine(load=load)
    if json:
        print_json(report.record())
    else:
        _print(report)
    raise typer.Exit(0 if report.healthy else 1)


def _print(report: Report) -> None:
    from elbowroom import PLUGIN_API
    from rich.text import Text

    out = console()
    listing = table("Plugins", "plugin", "supplied by", ">API", ">import ms", "registers")
    for plugin in sorted(report.plugins, key=lambda plugin: -plugin.seconds):
        words = [f"{kind}: {', '.join(names)}" for kind, names in plugin.registers.items()]
        what = "; ".join(words) or ("observes runs" if plugin.error is None else "")
        listing.add_row(
            Text(plugin.name, style="red" if plugin.error else ""),
            Text(f"{plugin.distribution} {plugin.version}"),
            Text("-" if plugin.api is None else f"{plugin.api[0]}.{plugin.api[1]}"),
            Text(f"{1000 * plugin.seconds:.1f}"),
            Text("broken", style="red") if plugin.error else Text(what.replace("_", " ")),
        )
    out.print(listing)
    styles = {"error": "bold red", "warning": "yellow", "note": "cyan"}
    for finding in report.findings:
        style = styles[finding.level]
        out.print(Text.assemble((f"{finding.level} ", style), f"{finding.about}: {finding.text}"))
    total = sum(plugin.seconds for plugin in report.plugins)
    verdict = "nothing is broken" if report.healthy else "something is broken"
    out.print(
        Text(
            f"{len(report.plugins)} plugins in {1000 * total:.0f} ms, plugin API "
            f"{PLUGIN_API[0]}.{PLUGIN_API[1]}: {verdict}"
        )
    )
