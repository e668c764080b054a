"""The table of measurements for a paper: LaTeX for booktabs, and Markdown.

Both are the report's table: the same columns, decimals and rows of real data, and bold under the
same condition. Every text is escaped: what a config says is shown, and changes no layout.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from .axes import short_value
from .presentation import legend
from .report.tables import Shown, measurements


@attrs.frozen
class Cell:
    """A measurement as it is written."""

    value: str
    spread: str | None = None
    best: bool = False
    vacuous: bool = False


@attrs.frozen
class Table:
    """What both forms write."""

    head: Sequence[str]
    models: Sequence[tuple[Sequence[str], Sequence[Cell | None]]]  # what is varied, measurements
    beside: Sequence[tuple[str, Sequence[str]]]  # real data, and a model that knows nothing
    notes: str

    @classmethod
    def of(cls, results: Mapping[str, Any]) -> Table:
        """The table of a comparison's results."""
        shown = measurements(results)
        columns: Sequence[Shown] = shown["columns"]
        models = [
            (_values(group), [_cell(one, group, k) for one in columns])
            for k, group in enumerate(results["groups"])
        ]
        head = [*(results["vary"] or ["model"]), *(one.title + one.way for one in columns)]
        return cls(head, models, shown["beside"], legend(results))

    @property
    def varied(self) -> int:
        """How many columns say which model it is."""
        return len(self.models[0][0]) if self.models else 1


def _values(group: Mapping[str, Any]) -> list[str]:
    return [short_value(value) for value in group["values"].values()] or [group["label"]]


def _cell(one: Shown, group: Mapping[str, Any], k: int) -> Cell | None:
    figure = group["figures"].get(one.name)
    value = one.column.value(figure)
    if figure is None or value is None:
        return None
    return Cell(value, one.column.spread(figure), one.best == k, bool(figure.get("vacuous")))


# -- LaTeX


def as_latex(results: Mapping[str, Any]) -> str:
    """A tabular to be put into a document: ``\\input{results}``."""
    table = Table.of(results)
    width = len(table.head) - table.varied
    lines = [
        "% needs \\usepackage{booktabs}",
        *(f"% {line}" for line in _one_line(table.notes).split("; ")),
        f"\\begin{{tabular}}{{{'l' * table.varied}{'r' * width}}}",
        "\\toprule",
        _latex_row(map(latex, table.head)),
        "\\midrule",
        *(_latex_row([*map(latex, m), *map(_latex_cell, row)]) for m, row in table.models),
        *(["\\midrule"] if table.beside else []),
        *(_latex_row(map(latex, _wide(table, *row))) for row in table.beside),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: Any) -> str:
    # a row that begins with [ or * would be read as an option of the line break before it
    return " & ".join(f"{{{c}}}" if c[:1] in ("[", "*") else c for c in cells) + r" \\"


def _latex_cell(cell: Cell | None) -> str:
    if cell is None:
        return "--"
    value = latex(cell.value)
    value = rf"\textbf{{{value}}}" if cell.best else value
    spread = "" if cell.spread is None else rf" $\pm$ {latex(cell.spread)}"
    return value + spread + (r"\,$\dagger$" if cell.vacuous else "")


_GREEK = (
    "alpha:α beta:β gamma:γ delta:δ varepsilon:ε zeta:ζ eta:η theta:θ kappa:κ lambda:λ mu:μ nu:ν "
    "xi:ξ pi:π rho:ρ sigma:σ tau:τ varphi:φ chi:χ psi:ψ omega:ω Gamma:Γ Delta:Δ Theta:Θ Lambda:Λ "
    "Xi:Ξ Pi:Π Sigma:Σ Phi:Φ Psi:Ψ Omega:Ω"
)

_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",  # which no language of babel gives another meaning
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "-": "{-}",  # two of them would be a dash
    "–": r"\textendash{}",
    "…": r"\ldots{}",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "†": r"$\dagger$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "→": r"$\rightarrow$",
    "∞": r"$\infty$",
    "√": r"$\surd$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "∇": r"$\nabla$",
    **dict(zip("₀₁₂₃₄₅₆₇₈₉", (f"$_{k}$" for k in range(10)), strict=True)),
    **dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", (f"$^{k}$" for k in range(10)), strict=True)),
    **{letter: f"$\\{name}$" for name, letter in (word.split(":") for word in _GREEK.split())},
}


def latex(text: str) -> str:
    """Any text as LaTeX shows it, in pdfLaTeX too; a number has the sign of a number."""
    text = _one_line(text)
    if re.fullmatch(r"[+-]\d+(\.\d+)?", text):
        return f"${text[0]}${text[1:]}"
    return "".join(_LATEX.get(letter, letter) for letter in text)


# -- Markdown


def as_markdown(results: Mapping[str, Any]) -> str:
    """A table as GitHub reads it, and what ± is below it."""
    table = Table.of(results)
    width = len(table.head) - table.varied
    lines = [
        _markdown_row(map(markdown, table.head)),
        _markdown_row([":--"] * table.varied + ["--:"] * width),
        *(_markdown_row([*map(markdown, m), *map(_markdown_cell, row)]) for m, row in table.models),
        *(_markdown_row(map(markdown, _wide(table, *row))) for row in table.beside),
        "",
        markdown(table.notes),
    ]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    value = f"**{markdown(cell.value)}**" if cell.best else markdown(cell.value)
    spread = "" if cell.spread is None else f" ± {markdown(cell.spread)}"
    return value + spread + (" †" if cell.vacuous else "")


_MARKS = r"\`*_{}[]()#+!|~$^"


def markdown(text: str) -> str:
    """Any text as Markdown shows it: no marks, no HTML, no other cell."""
    shown = "".join(f"\\{c}" if c in _MARKS else c for c in _one_line(text))
    shown = re.sub(r"&(?=[#A-Za-z])", "&amp;", shown).replace("<", "&lt;")
    return re.sub(r"(?i)(https?|ftp)(?=:)|www(?=\.)", _not_a_link, shown)


def _not_a_link(found: re.Match[str]) -> str:
    """An address would become a link by itself: its first letter is written as a number."""
    return f"&#{ord(found[0][0])};{found[0][1:]}"


# -- both


def _wide(table: Table, title: str, cells: Sequence[str]) -> list[str]:
    """A row beside the models: its title takes the place of what is varied."""
    return [title, *[""] * (table.varied - 1), *cells]


def _one_line(text: str) -> str:
    """Without line breaks and what has no shape."""
    shaped = (" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join("".join(shaped).split())


FORMS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "results.tex": as_latex,
    "results.md": as_markdown,
}
"""The file of each form."""
