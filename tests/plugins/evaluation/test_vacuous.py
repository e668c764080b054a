"""Measurements worse than those of a model that knows nothing: marked, and never praised."""

from __future__ import annotations

import csv
import io
import math
import re

import pytest
from elbowroom.plugins.compare.command import print_results
from elbowroom.plugins.compare.report.page import page
from elbowroom.plugins.compare.results_files import as_csv
from elbowroom.plugins.compare.tables import baseline_of, best_of, columns, reference_rows
from elbowroom.plugins.evaluation.command import _print as print_record
from elbowroom.plugins.evaluation.evaluation import evaluate
from elbowroom.plugins.evaluation.metric import Measurement, is_vacuous
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol

from tests.helpers.reporting import changed, results


@pytest.fixture
def found(tmp_path):
    """Three models of three seeds: 2.4, 3.4 and 4.4 bits/dim, where knowing nothing costs 3.9."""
    return results(tmp_path, ("gaussian", "masked", "uniform"), seeds=3, uniform_baseline=3.9)


def test_a_measurement_says_whether_it_is_vacuous():
    """Above what knowing nothing costs, or below where more is better; only beside a reference."""
    assert is_vacuous(4.1, "lower", 4.0) and not is_vacuous(4.0, "lower", 4.0)
    assert is_vacuous(0.9, "higher", 1.0) and not is_vacuous(1.1, "higher", 1.0)
    assert not is_vacuous(9.0, "lower", None) and not is_vacuous(9.0, None, 1.0)
    assert not is_vacuous(None, "lower", 1.0)
    assert Measurement(5.0, better="lower", uniform_baseline=4.0).record()["vacuous"] is True
    assert Measurement(5.0).record()["vacuous"] is False


def test_results_know_what_knowing_nothing_costs(found):
    """Each group's measurement has it, with a name; so do JSON and CSV of each point."""
    assert [model.measurements["bits_per_dim"].vacuous for model in found.models] == [
        False,
        False,
        True,
    ]
    assert baseline_of(found, "bits_per_dim") == 3.9
    assert baseline_of(found, "fid_train") is None
    assert reference_rows(found, columns(found))[1][0] == "uniform baseline: log₂ 17"
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [row["bits_per_dim_vacuous"] for row in rows] == 6 * ["False"] + 3 * ["True"]
    assert {row["bits_per_dim_uniform_baseline"] for row in rows} == {"3.9"}


def test_data_with_other_values_have_no_row_in_common(found):
    """Where groups differ in what knowing nothing costs, no one number stands for all."""
    changed(found.models[0], "bits_per_dim", uniform_baseline=8.0)
    assert baseline_of(found, "bits_per_dim") is None


def test_a_vacuous_measurement_is_never_the_best(tmp_path):
    """Nor is one the best that has only vacuous ones to be better than."""
    three = results(tmp_path / "a", ("a", "b", "c"), uniform_baseline=3.5)
    assert best_of(three)["bits_per_dim"] == 0
    two = results(tmp_path / "b", ("a", "b"), uniform_baseline=2.5)
    assert "bits_per_dim" not in best_of(two) and "fid_train" in best_of(two)


def test_a_difference_to_a_vacuous_measurement_is_no_merit(found):
    """It is told, and neither for the better nor for the worse."""
    _, masked, uniform = found.differences.models
    assert masked["bits_per_dim"].for_the_better is False
    assert uniform["bits_per_dim"].vacuous and uniform["bits_per_dim"].mean == pytest.approx(2)
    assert uniform["bits_per_dim"].for_the_better is None
    assert uniform["fid_train"].for_the_better is True


def test_the_page_has_the_row_and_the_mark(found, tmp_path):
    """The measurement's cell says vacuous; the difference is not bold where others are."""
    html = page(found)
    assert "uniform baseline: log₂ 17" in html
    assert (
        html.count('<span class="badge no">vacuous</span>') == 2
    )  # in measurements and in details
    table = html.split('id="differences"')[1].split("</table>")[0]
    assert re.search(r"<b>\+1\.0+</b>", table) and re.search(r"<span>\+2\.0+</span>", table)


def test_the_terminal_has_the_row_and_the_mark(found, capsys, monkeypatch):
    """A dagger at the measurement, and words for it below."""
    monkeypatch.setenv("COLUMNS", "160")
    print_results(found)
    out = capsys.readouterr().out
    assert "uniform baseline: log₂ 17" in out and "†: vacuous" in out
    assert [line.split()[0] for line in out.splitlines() if "\u00a0†" in line] == ["uniform"]


def test_an_evaluation_says_it_too(capsys, monkeypatch):
    """A column for what knowing nothing costs, and a line for a measurement that is worse."""
    monkeypatch.setenv("COLUMNS", "160")
    bits = Measurement(6.1, better="lower", of={"split": "9 test examples"}, uniform_baseline=4.0)
    measurements = {"bits_per_dim": bits.record(), "is": Measurement(6.0, better="higher").record()}
    record = {
        "figures": measurements,
        "calls_mean": None,
        "skipped": {},
        "failed": {},
        "protocol": {"seed": 0, "samples": 1000, "sample_seeds": 1},
    }
    print_record(record)
    out = capsys.readouterr().out
    assert "uniform baseline" in out and "bits_per_dim is vacuous: worse than" in out
    assert "is is vacuous" not in out


def test_bits_per_dim_stand_beside_log2_of_the_number_of_values():
    """The metric says it itself, of the data it is measured on."""
    from elbowroom.config.assembly import build_model, build_parts

    from tests.helpers.tiny_run import tiny_config

    parts = build_parts(tiny_config())  # 5 values, a fresh network
    protocol = EvaluationProtocol(metrics=({"name": "bpd", "limit": 8, "draws": 2},), samples=2)
    measurements = evaluate(build_model(parts), parts.data, protocol).measurements
    assert measurements["bits_per_dim"].uniform_baseline == math.log2(5)
    assert measurements["bits_per_dim"].of["uniform_baseline"] == "log₂ 5"
    assert measurements["bits_per_dim_prior"].uniform_baseline is None
