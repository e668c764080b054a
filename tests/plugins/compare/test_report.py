"""The report: one page that needs nothing else and cannot be broken by what it shows."""

from __future__ import annotations

import base64
import re
from html import unescape
from html.parser import HTMLParser

import attrs
import pytest
import torch
from elbowroom.plugins.compare.report import page, write_report
from elbowroom.plugins.compare.report.chart import Axis, Series, chart
from elbowroom.plugins.compare.report.page import templates
from elbowroom.plugins.sampling.filmstrip import save_small_png
from hypothesis import given, strategies as st
from jinja2 import UndefinedError

from tests.helpers.reporting import NASTY, results

EMPTY = {"meta", "input", "img", "br", "line", "path", "polyline", "polygon", "circle"}


class Reader(HTMLParser):
    """Checks that tags are closed in order, and keeps them."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], [], []

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))
        if name not in EMPTY:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.tags.append((name, dict(attributes)))

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        self.text.append(data)

    def all(self, name, **wanted):
        return [a for n, a in self.tags if n == name and wanted.items() <= a.items()]


def read(text):
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


@pytest.fixture
def shown(tmp_path):
    return read(page(results(tmp_path, ("gaussian", "masked", "broken"))))


def test_everything_is_on_the_page(shown):
    """Table, samples, slider, curves, weightings, budgets, what failed, each run."""
    ids = {attributes.get("id") for _, attributes in shown.tags}
    assert ids >= {
        "results", "samples", "reverse", "time", "play", "curves-section", "weightings",
        "budgets", "failed", "details", "points", "curves",
    }  # fmt: skip
    assert len(shown.all("img", **{"class": "grid"})) == 2
    assert len(shown.all("div", **{"class": "reel"})) == 2
    charts = {a["data-chart"] for a in shown.all("figure", **{"class": "chart"})}
    assert charts == {
        "loss", "bits_per_dim", "train_bits_per_dim", "elbo_by_level", "loss_by_level",
        "fid_train_over_training",
    }  # fmt: skip
    text = " ".join(shown.text)
    for words in ("real data", "not a bound", "no luck", "Different:", "1,000"):
        assert words in text, words


def test_differences_are_shown_seed_by_seed(tmp_path):
    """With several seeds: bold where all agree, coloured where it is for the better."""
    assert "differences" not in {a.get("id") for _, a in read(page(results(tmp_path / "one"))).tags}
    text = page(results(tmp_path, ("gaussian", "masked", "broken"), seeds=2))
    table = text[text.index('id="differences"') :]
    table = table[: table.index("</section>")]
    assert "Difference to gaussian, seed by seed" in table and "broken" not in table
    cells = dict(zip(("bits/dim", "FID", "IS"), re.findall(r"<td.*?</td>", table), strict=False))
    assert "<b>+1.0" in cells["bits/dim"] and "best" not in cells["bits/dim"]
    assert "<b>-1.0" in cells["FID"] and 'class="best"' in cells["FID"]
    assert "<b>" not in cells["IS"]  # one seed says more, the other less


def test_the_page_fetches_nothing(tmp_path):
    """No address outside, no file beside it; and the page forbids itself to try."""
    text = page(results(tmp_path))
    outside = re.compile(r"(?:https?:)?//[a-z]", re.IGNORECASE)
    assert not outside.search(re.sub(r"base64,[A-Za-z0-9+/=]+", "", text))
    reader = read(text)
    for _, attributes in reader.tags:
        assert attributes.get("src", "data:").startswith("data:")
        assert "href" not in attributes
    (policy,) = reader.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert "default-src 'none'" in policy["content"]


def test_the_policy_admits_the_page_s_own_script(tmp_path):
    """Its hash is that of the script that stands in the page, so that no other one runs."""
    import hashlib

    text = page(results(tmp_path))
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in unescape(text)


def test_names_and_values_are_escaped(tmp_path):
    """A script in a config's value is shown, not run."""
    text = page(results(tmp_path, (NASTY, "broken")))
    assert "<script>window" not in text
    reader = read(text)
    assert [a.get("type") for a in reader.all("script")] == ["application/json", None]
    assert NASTY in "".join(reader.text)


def test_a_page_without_pictures_or_curves_is_still_a_page(tmp_path):
    """Where everything failed there is the reason, and no empty section."""
    reader = read(page(results(tmp_path, ("broken",))))
    ids = {attributes.get("id") for _, attributes in reader.tags}
    assert "failed" in ids and not ids & {"samples", "reverse", "curves-section"}


def test_pictures_that_are_gone_are_left_out(tmp_path):
    """A run folder that was moved away does not spoil the report."""
    made = results(tmp_path)
    for picture in tmp_path.rglob("*.png"):
        picture.unlink()
    assert not read(page(made)).all("img")


def test_the_report_is_written_beside_the_results(tmp_path):
    """One file."""
    assert write_report(results(tmp_path)) == tmp_path / "report.html"
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_the_report_of_a_real_comparison(tmp_path):
    """What a comparison finds is what the page takes."""
    from elbowroom.plugins.compare.results import collect
    from elbowroom.plugins.compare.running import run_comparison

    from tests.helpers.comparing import Here, comparison

    made = comparison(tmp_path, "weighting=simple,elbo")
    points = made.points()
    run_comparison(made, points, Here())
    reader = read(write_report(collect(made, points)).read_text("utf-8"))
    assert len(reader.all("div", **{"class": "reel"})) == 2
    assert reader.all("figure", **{"class": "chart", "data-chart": "loss"})
    assert reader.all("table", id="results")


def test_classes_are_named_below_the_pictures(tmp_path):
    """A name for each column, or row after row; a name is text, whatever it holds."""
    made = results(tmp_path)
    first, second = (point.evaluated.reverse for point in made.points)
    first["classes"], second["classes"] = [["<script>", "cat"], ["<script>"]], [["a", "b"], ["b"]]
    text = page(made)
    assert text.count("<span>&lt;script&gt;</span><span>cat</span></div>") == 2
    assert text.count("<span>row by row: a, b; b</span>") == 2


def test_the_data_are_named_as_the_config_names_them(tmp_path):
    """At the top: name and chosen options, a path among them, and nothing else."""
    text = page(results(tmp_path))
    summary = unescape(re.search(r'<p class="summary">(.*?)</p>', text).group(1))
    assert summary.startswith(f"data: digits (path: {NASTY}) · 2 models")


def test_real_examples_stand_before_the_samples(tmp_path):
    """One card for each data set whose picture is there, with the same classes below it."""
    made = results(tmp_path)
    assert not read(page(made)).all("figure", **{"class": "real"})
    save_small_png(torch.zeros(10, 20, 3, dtype=torch.uint8), tmp_path / "real.png")
    shown = {"picture": "real.png", "split": "test", "width": 20, "height": 10}
    classes = [["a", "b"], ["a", "b"]]
    made.data = [attrs.evolve(made.data[0], **shown, classes=classes)]
    text = page(made)
    assert len(read(text).all("figure", **{"class": "real"})) == 1
    assert "<span>a</span><span>b</span></div>" in text
    assert text.index("real: digits, test split") < text.index("samples of gaussian")


def test_a_noisy_curve_says_how_it_was_smoothed(tmp_path):
    """A band around it, and a sentence that tells the noise from the model; others have neither."""
    text = page(results(tmp_path))
    charts = dict(re.findall(r'data-chart="(\w+)">(.*?)</figure>', text, re.DOTALL))
    assert "polygon" in charts["loss"] and "Smoothed: " in charts["loss"]
    assert "polygon" in charts["elbo_by_level"] and "standard error" in charts["elbo_by_level"]
    assert "polygon" not in charts["bits_per_dim"] and "Band" not in charts["bits_per_dim"]


# -- templates


@given(st.text(), st.text())
def test_any_text_survives_a_template(text, value):
    """What is put in as text or attribute comes out as itself."""
    text, value = (
        text.replace("\r", "").replace("\0", ""),
        value.replace("\r", "").replace("\0", ""),
    )
    template = templates().from_string('<p title="{{ value }}">{{ text }}</p>')
    reader = read(template.render(text=text, value=value))
    assert "".join(reader.text) == text
    (attributes,) = reader.all("p")
    assert attributes["title"] == value


def test_a_slip_in_a_template_is_an_error():
    """A name that is not there is no empty place."""
    with pytest.raises(UndefinedError, match="labell"):
        templates().from_string("{{ group.labell }}").render(group={"label": "a"})


# -- charts


@given(
    st.lists(st.floats(1e-8, 1e8), min_size=1, max_size=30),
    st.booleans(),
)
def test_every_line_stays_inside_its_frame(values, may_bend):
    """Whatever the values, points and ticks lie where they can be seen."""
    line = Series("s", 0, list(range(len(values))), values, band=[3 * v for v in values])
    drawn = chart("c", "x", "y", [line], may_bend=may_bend)
    for points in (*drawn.lines[0].polylines, drawn.lines[0].band):
        for pair in points.split():
            x, y = map(float, pair.split(","))
            assert 40 <= x <= 440 and 20 <= y <= 240
    assert all(20 <= float(y) <= 240 for y, _ in drawn.y_ticks)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_an_axis_has_round_ticks_inside(low, span):
    """A handful of them, in order."""
    axis = Axis.over([low, low + span], 0, 100)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 12 and ticks == sorted(ticks)
    assert all(axis.low - span / 100 <= tick <= axis.high + span / 100 for tick in ticks)


def test_nothing_to_draw_is_nothing():
    """No series, or none with a value."""
    assert chart("c", "x", "y", []) is None
    assert chart("c", "x", "y", [Series("s", 0, [1, 2], [None, None])]) is None


def test_gaps_break_a_line():
    """A missing value is not bridged."""
    drawn = chart("c", "x", "y", [Series("s", 0, [0, 1, 2, 3, 4], [1.0, 2.0, None, 2.0, 1.0])])
    assert len(drawn.lines[0].polylines) == 2


def test_samples_that_are_text_are_shown_as_they_are(tmp_path):
    """Escaped, and without what a terminal would act on; a run without texts shows none."""
    made = results(tmp_path)
    first = made.points[0]
    first.evaluated = attrs.evolve(first.evaluated, texts=[f"{NASTY}\x1b[31m\n  indented"])
    text = page(made)
    reader = read(text)
    assert len(reader.all("figure", **{"class": "texts"})) == 1
    assert f"{NASTY}\ufffd[31m\n  indented" in reader.text or "indented" in "".join(reader.text)
    assert "\x1b" not in text and NASTY not in text
