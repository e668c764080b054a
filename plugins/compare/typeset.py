"""The table of measurements as LaTeX (booktabs) and Markdown, with all text escaped."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from .axes import short_value
from .results import Model, Results
from .tables import Column, columns, legend, reference_rows


@attrs.frozen
class Cell:
    """A measurement as text."""

    value: str
    error: str | None = None
    best: bool = False
    vacuous: bool = False


@attrs.frozen
class Table:
    """The content of both forms."""

    head: Sequence[str]
    models: Sequence[tuple[Sequence[str], Sequence[Cell | None]]]  # varied values, measurements
    references: Sequence[tuple[str, Sequence[str]]]  # real data, uniform baseline
    notes: str

    @classmethod
    def of(cls, results: Results) -> Table:
        """The table of a comparison's results."""
        shown = columns(results)
        models = [
            (_values(model), [_cell(column, model, k) for column in shown])
            for k, model in enumerate(results.models)
        ]
        head = [*(results.vary or ["model"]), *(column.title + column.arrow for column in shown)]
        return cls(head, models, reference_rows(results, shown), legend(results))

    @property
    def varied(self) -> int:
        """The number of columns with varied values."""
        return len(self.models[0][0]) if self.models else 1

    def row(self, title: str, cells: Sequence[str]) -> list[str]:
        """A reference row: its title replaces the varied values."""
        return [title, *[""] * (self.varied - 1), *cells]


def _values(model: Model) -> list[str]:
    return [short_value(value) for value in model.values.values()] or [model.label]


def _cell(column: Column, model: Model, k: int) -> Cell | None:
    one = model.measurements.get(column.name)
    value = column.value(one)
    if one is None or value is None:
        return None
    return Cell(value, column.error(one), column.best == k, one.vacuous)


# -- LaTeX


def as_latex(results: Results) -> str:
    """A tabular for ``\\input{results}``."""
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
        *(["\\midrule"] if table.references else []),
        *(_latex_row(map(latex, table.row(*row))) for row in table.references),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: Iterable[str]) -> str:
    # a row that begins with [ or * would be read as an option of the line break before it
    return " & ".join(f"{{{c}}}" if c[:1] in ("[", "*") else c for c in cells) + r" \\"


def _latex_cell(cell: Cell | None) -> str:
    if cell is None:
        return "--"
    value = latex(cell.value)
    value = rf"\textbf{{{value}}}" if cell.best else value
    error = "" if cell.error is None else rf" $\pm$ {latex(cell.error)}"
    return value + error + (r"\,$\dagger$" if cell.vacuous else "")


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
    """Escape text for LaTeX; a signed number gets a mathematical sign."""
    text = _one_line(text)
    if re.fullmatch(r"[+-]\d+(\.\d+)?", text):
        return f"${text[0]}${text[1:]}"
    return "".join(_LATEX.get(letter, letter) for letter in text)


# -- Markdown


def as_markdown(results: Results) -> str:
    """A table in GitHub's dialect, with notes below it."""
    table = Table.of(results)
    width = len(table.head) - table.varied
    lines = [
        _markdown_row(map(markdown, table.head)),
        _markdown_row([":--"] * table.varied + ["--:"] * width),
        *(_markdown_row([*map(markdown, m), *map(_markdown_cell, row)]) for m, row in table.models),
        *(_markdown_row(map(markdown, table.row(*row))) for row in table.references),
        "",
        markdown(table.notes),
    ]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    value = f"**{markdown(cell.value)}**" if cell.best else markdown(cell.value)
    error = "" if cell.error is None else f" ± {markdown(cell.error)}"
    return value + error + (" †" if cell.vacuous else "")


_MARKS = r"\`*_{}[]()#+!|~$^"


def markdown(text: str) -> str:
    """Escape text for Markdown."""
    shown = "".join(f"\\{c}" if c in _MARKS else c for c in _one_line(text))
    shown = re.sub(r"&(?=[#A-Za-z])", "&amp;", shown).replace("<", "&lt;")
    return re.sub(r"(?i)(https?|ftp)(?=:)|www(?=\.)", _not_a_link, shown)


def _not_a_link(found: re.Match[str]) -> str:
    """Escape the first letter of an address, which would become a link."""
    return f"&#{ord(found[0][0])};{found[0][1:]}"


# -- both


def _one_line(text: str) -> str:
    """Replace line breaks and invisible characters by spaces."""
    shaped = (" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join("".join(shaped).split())


FORMS: Mapping[str, Callable[[Results], str]] = {
    "results.tex": as_latex,
    "results.md": as_markdown,
}
"""The file of each form."""
