"""The report in a real browser: it is drawn, the slider moves, nothing runs that should not."""

from __future__ import annotations

import os
import shutil

import attrs
import pytest
from elbowroom.plugins.compare.report import write_report
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol

from tests.helpers.reporting import NASTY, results

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("ELBOWROOM_CHROMIUM") or next(
    filter(None, map(shutil.which, NAMES)), None
)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason=f"no Chromium found (looked for {', '.join(NAMES)})"
)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        # a sandbox needs privileges that containers do not have; the page is our own
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write_report(results(folder, ("gaussian", "masked", NASTY, "broken")))


@pytest.fixture(params=[(1200, 800, "light"), (390, 844, "dark")], ids=["desktop", "phone"])
def view(request, browser, report):
    """The open page, and what it complained of."""
    width, height, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    shown = context.new_page()
    complaints, asked = [], []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(report.as_uri())
    yield shown, complaints, asked
    context.close()


def test_the_page_is_drawn_without_complaint(view):
    """Table, curves, grids and slider are visible; nothing is asked of a network."""
    page, complaints, asked = view
    for where in (
        "#results",
        "img.grid",
        ".reel",
        "#time",
        ".chart svg .series polyline",
        ".shape",
    ):
        assert page.locator(where).first.is_visible(), where
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    sizes = page.evaluate("[...document.images].map((image) => image.naturalWidth)")
    assert sizes == [20, 20, 20]


def test_the_page_fits_its_window(view):
    """Nothing but tables scrolls sideways."""
    page, _, _ = view
    wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window


def test_the_slider_moves_every_model(view):
    """Its ends show noise and data, and the frames in between are other ones."""
    page, _, _ = view
    places = {}
    for value in (0, 500, 1000):
        page.locator("#time").fill(str(value))
        places[value] = page.evaluate(
            "[...document.querySelectorAll('.reel')]"
            ".map((reel) => [reel.dataset.frame, getComputedStyle(reel).backgroundPositionX])"
        )
    assert places[0] == [["0", "0%"]] * 3
    assert places[500] == [["2", "50%"]] * 3
    assert places[1000] == [["4", "100%"]] * 3


def test_the_frame_that_is_shown_is_the_one_meant(view):
    """The pixels of the first model go from the first frame's shade to the last one's."""
    page, _, _ = view
    shades = []
    for value in (0, 1000):
        page.locator("#time").fill(str(value))
        shades.append(_shade(page.locator(".reel").first.screenshot()))
    assert shades == [0, 160]


def _shade(png):
    import io

    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    return picture.getpixel((picture.width // 2, picture.height // 2))[0]


def test_play_runs_from_noise_to_data(view):
    """The button moves the slider, and stops it."""
    page, _, _ = view
    page.locator("#time").fill("0")
    page.locator("#play").click()
    for _ in range(600):  # the page's policy forbids to wait by a function
        if page.locator("#time").input_value() > "0":
            break
        page.wait_for_timeout(50)
    assert int(page.locator("#time").input_value()) > 0
    assert page.locator("#play").inner_text() == "Stop"
    page.locator("#play").click()
    assert page.locator("#play").inner_text() == "Play"


def test_the_legend_hides_a_line(view):
    """In every chart at once, and brings it back."""
    page, _, _ = view
    lines = page.locator(".series.c0")
    button = page.locator(".legend button").first
    assert lines.first.is_visible()
    button.click()
    assert not lines.first.is_visible() and button.get_attribute("aria-pressed") == "false"
    button.click()
    assert lines.first.is_visible()


def test_pointing_at_a_chart_reads_it(view):
    """The values of every line at the place."""
    page, _, _ = view
    chart = page.locator("figure.chart svg").first
    chart.scroll_into_view_if_needed()
    chart.hover()
    assert "gaussian" in page.locator("#tip").inner_text()


def test_a_script_in_a_value_does_not_run(view):
    """It is shown as text."""
    page, _, _ = view
    assert page.evaluate("window.hacked") is None
    assert NASTY in page.locator("#results").inner_text()


def test_dark_is_dark_and_light_is_light(browser, report):
    """The page follows the system's scheme."""
    shades = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(report.as_uri())
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades[scheme] = sum(map(int, colour.strip("rgb()").split(",")))
        context.close()
    assert shades["light"] > 600 > 200 > shades["dark"]


HOSTILE = (
    "</script></style></title></textarea><script>window.hacked = 1</script>"
    "<img src=x onerror='window.hacked = 1'>\"><svg onload=window.hacked=1>'"
    "<b class=hacked>--><!--{{7*7}}]]>"
)
_STRUCTURE = ("status", "name", "better", "checkpoint", "curves")
_KEYS = ("values", "vary", "skipped", "of", "budget")


def _hostile(value, key=""):
    """The same with something to run in every text, and in every key that is shown."""
    if isinstance(value, str):
        return value if key in _STRUCTURE else value + HOSTILE
    if isinstance(value, dict):
        named = key in _KEYS
        return {(k + HOSTILE if named else k): _hostile(v, key) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_hostile(item, key) for item in value]
    if attrs.has(type(value)) and not isinstance(value, EvaluationProtocol):
        fields = [f.name for f in attrs.fields(type(value)) if f.init]
        return attrs.evolve(value, **{n: _hostile(getattr(value, n), n) for n in fields})
    return value


def test_no_text_anywhere_becomes_markup(browser, tmp_path):
    """Labels, reasons, commands, budgets, protocols, titles are shown, and none of it runs."""
    made = results(tmp_path, ("gaussian", "masked", "broken"), seeds=2)
    page = browser.new_context().new_page()
    page.goto(write_report(_hostile(made)).as_uri())
    page.locator("figure.chart svg").first.hover()
    assert page.evaluate("window.hacked") is None
    assert page.locator(".hacked").count() == 0
    assert page.locator("img[src=x], svg[onload]").count() == 0
    assert "window.hacked" in page.locator("body").inner_text()
