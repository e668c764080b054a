"""``elbowroom explain``: what a config means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .options import JSON, Changes, Config, help_group
from .output import console, echo, log_details, print_json, table

if TYPE_CHECKING:
    from ..config.explain import Explanation
    from ..contracts.dataset import DataSpec


@help_group("Start here", 1)
def explain(
    config: Config,
    overrides: Changes = None,
    json: JSON = False,
) -> None:
    """Show the resolved config and whether its objective is a bound.

    Example: elbowroom explain digits process=gaussian
    """
    from ..config.assembly import check_files
    from ..config.explain import explain_config
    from ..config.sections import load_config

    log_details()
    checked = load_config(config, tuple(overrides or ()))
    explanation = explain_config(checked)
    check_files(checked)
    if json:
        print_json(explanation.record())
    else:
        _print(explanation)


def _form(data: DataSpec) -> str:
    """The form of the data in a line."""
    from ..contracts.dataset import join_names

    fewest = "" if data.sizes is None else f"{min(data.sizes)} to "
    words = f"{' × '.join(map(str, data.shape))} integers of {fewest}{data.levels} levels"
    if data.classes is not None:
        words += f", {data.classes} classes"
    return words + (f": {join_names(data.names)}" if data.names is not None else "")


def _print(explanation: Explanation) -> None:
    from rich.syntax import Syntax
    from rich.text import Text

    out = console()
    if out.is_terminal:
        out.print(Syntax(explanation.yaml.rstrip(), "yaml", background_color="default"))
    else:
        echo(explanation.yaml.rstrip())
    listing = table("Components", "kind", "name", "supplied by")
    rows: dict[str, Any] = explanation.components
    for kind, one in rows.items():
        listing.add_row(Text(kind), Text(one["name"]), Text(one["owner"]))
    out.print(listing)
    if explanation.data is not None:
        out.print(Text.assemble(("data: ", "bold"), _form(explanation.data)))
        for part in explanation.data.parts:
            out.print(Text(f"  {part}"))
    count = explanation.parameters
    out.print(
        Text.assemble(
            ("parameters: ", "bold"),
            f"{count:,}" if count is not None else explanation.no_parameters,
        )
    )
    for added in explanation.added:
        out.print(Text.assemble((f"{added.name}: ", "bold"), (added.line, added.style)))
    if explanation.learning:
        named = (f"{kind.replace('_', ' ')} {rows[kind]['name']}" for kind in explanation.learning)
        out.print(Text.assemble(("learned while training: ", "bold"), ", ".join(named)))
    for remark in explanation.remarks:
        out.print(Text.assemble(("note: ", "bold yellow"), remark))
