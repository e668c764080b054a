"""Tables for papers: what is in them is the report's, and no text can change their layout."""

from __future__ import annotations

import re
from html import unescape

import pytest
from elbowroom.plugins.compare.results_files import write_results
from elbowroom.plugins.compare.typeset import (
    _LATEX,
    _one_line,
    as_latex,
    as_markdown,
    latex,
    markdown,
)
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt

from tests.helpers.reporting import NASTY, results

READ = {written: letter for letter, written in _LATEX.items()}
TOKEN = re.compile(r"\\(?:char34|[a-z]+)\{\}|\\.|\$[^$]+\$|\{-\}|[^\\${}&%#_^~]")


def cells(text):
    """The table that GitHub's dialect reads, as text."""
    html = MarkdownIt("commonmark").enable("table").render(text)
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [
        [
            unescape(re.sub(r"</?strong>", "", c))
            for c in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        ]
        for row in rows
    ]


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_comes_out_of_latex_as_itself(text):
    """Read sign by sign: every sign with a meaning stands escaped, and means what it was."""
    written = latex(text)
    signs = TOKEN.findall(written)
    assert "".join(signs) == written
    if not re.fullmatch(r"\$[+-]\$\d+(\.\d+)?", written):
        assert "".join(READ.get(sign, sign) for sign in signs) == _one_line(text)


@given(st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=30))
def test_any_text_comes_out_of_a_markdown_cell_as_itself(text):
    """No mark, no HTML, no link, no other cell, whatever a value holds."""
    table = f"| a | b |\n| :-- | --: |\n| {markdown(text)} | 1 |\n"
    assert cells(table)[1] == [text.strip(), "1"]


@pytest.mark.parametrize("form", [as_latex, as_markdown])
def test_bold_is_what_is_beyond_noise(tmp_path, form):
    """As in the report: with one seed nothing, with two what all pairs of seeds agree on."""
    bold = re.compile(r"\\textbf\{([^}]*)\}|\*\*(.*?)\*\*")
    assert not bold.search(form(results(tmp_path / "one")))
    found = bold.findall(form(results(tmp_path / "two", seeds=2)))
    assert ["".join(one) for one in found] == ["2.20", "4.20"]  # bits/dim, and FID of the other


def test_both_forms_have_a_row_for_each_model_and_for_real_data(tmp_path):
    """As many cells in each row; what a model has no measurement of is a dash."""
    made = results(tmp_path, ("gaussian", "a & b | c", "broken"), uniform_baseline=2.5)
    read = cells(as_markdown(made))
    assert [row[0] for row in read] == [
        "process", "gaussian", "a & b | c", "broken", "real data", "uniform baseline: log₂ 17",
    ]  # fmt: skip
    assert len({len(row) for row in read}) == 1 and set(read[3][1:]) == {"–"}
    assert "†" in read[2][1] and "†" not in read[1][1]
    lines = [line for line in as_latex(made).splitlines() if line.endswith(r"\\")]
    shape = re.search(r"\\begin\{tabular\}\{(l+r+)\}", as_latex(made)).group(1)
    assert {len(re.split(r"(?<!\\)&", line)) for line in lines} == {len(shape)}
    assert [line.split(" & ")[0] for line in lines][2] == r"a \& b \textbar{} c"


def test_a_value_cannot_leave_its_cell_or_its_comment(tmp_path):
    """Line breaks and signs of either language in names change nothing around them."""
    made = results(tmp_path, ("gaussian", "x\n\\end{tabular} % | **b**\r<i>"))
    made.vary = {"[3pt]\nprocess": made.vary["process"]}
    written = as_latex(made)
    assert written.count(r"\end{tabular}") == 1 and "{[3pt] process}" in written
    assert all(
        line.startswith("%") or "&" in line or line[0] == "\\" for line in written.splitlines()
    )
    assert cells(as_markdown(made))[2][0] == r"x \end{tabular} % | **b** <i>"
    assert NASTY not in as_markdown(made)


def test_tables_are_written_beside_the_results(tmp_path):
    """One file each."""
    paths = write_results(results(tmp_path))
    assert list(paths) == ["json", "csv", "tex", "md"]
    assert paths["tex"].read_text("utf-8").startswith("% needs \\usepackage{booktabs}\n")
    assert all(path.is_file() and path.stem == "results" for path in paths.values())
