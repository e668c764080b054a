"""Tables as a data set: inference of columns, splits, decoding and encoding of rows."""

from __future__ import annotations

import csv
import json
from itertools import pairwise

import attrs
import numpy as np
import pytest
import torch
from elbowroom import ConfigError, DataSpec, ElbowroomError, assemble, named_component, train
from elbowroom.plugins.conformance import check_dataset
from elbowroom.plugins.sampling.rows import as_csv, decode_rows, encode_rows
from elbowroom.plugins.sampling.write import sample_run
from elbowroom.plugins.tables.columns import MOST, quantile_bins
from elbowroom.plugins.tables.dataset import FrameTable, Table


def people(rows: int = 400) -> str:
    rng = np.random.default_rng(0)
    lines = ["age,income,city,unit,code,member"]
    for k in range(rows):
        income = "" if k % 7 == 0 else f"{rng.lognormal(8, 1):.2f}"
        city = ["=Bonn", "Köln", "?", "Aachen"][k % 4]
        lines.append(f"{rng.integers(18, 30)},{income},{city},kg,0{k % 3},{'yn'[k % 2]}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(people(), "utf-8")
    return path


def test_it_keeps_the_laws_of_a_data_set(file):
    check_dataset(Table(path=file, bins=16))
    check_dataset(Table(path=file, bins=16, label="member"))


def test_columns_are_text_integers_or_bins(file):
    """Missing is the first value, a constant has no position, 00 is text."""
    spec = Table(path=file, bins=16).spec
    parts = {part.name: part for part in spec.parts}
    assert parts["age"].values == tuple(map(str, range(18, 30)))
    assert parts["city"].values == ("", "=Bonn", "Aachen", "Köln")
    assert parts["code"].values == ("00", "01", "02")
    assert parts["unit"].values == ("kg",) and parts["unit"].start == parts["unit"].stop
    assert len(parts["income"].bins) == 15 and parts["income"].values[0] == ""
    assert parts["income"].decimals == 2
    assert spec.sizes == (12, 16, 4, 3, 2) and spec.levels == 16
    assert "income: " in str(parts["income"]) and "one of them missing" in str(parts["income"])


def test_a_label_is_a_condition(file):
    data = Table(path=file, bins=16, label="member", drop=("unit", "code"))
    assert data.spec.classes == 2 and data.spec.names == ("n", "y")
    assert [part.name for part in data.spec.parts] == ["age", "income", "city", "member"]
    batch = data.split("train").take(torch.arange(5))
    rows = decode_rows(data.spec, batch.x, batch.y)
    assert rows["member"] == [data.spec.names[k] for k in batch.y.tolist()]


def test_splits_share_no_row_and_follow_the_seed(file):
    data = Table(path=file)
    assert [len(data.split(name)) for name in ("train", "validation", "test")] == [320, 40, 40]
    rows = np.concatenate([data.split(n).rows for n in ("train", "validation", "test")])
    assert sorted(rows.tolist()) == list(range(400))
    assert data.split("test").rows.tolist() != Table(path=file, seed=1).split("test").rows.tolist()


def test_decoded_rows_are_encoded_to_the_same_integers(file, tmp_path):
    """Also a text that a spreadsheet would take for a formula, and missing cells."""
    data = Table(path=file, bins=16)
    x = data.split("train").take(torch.arange(200)).x
    written = tmp_path / "rows.csv"
    written.write_text(as_csv(decode_rows(data.spec, x, seed=3)), "utf-8")
    assert "'=Bonn" in written.read_text("utf-8")
    found = data.encode_rows(written)
    assert torch.equal(found.x, x)
    assert found.keep(["age", "city"]).tolist() == [True, False, True, False, False]
    with pytest.raises(ElbowroomError, match=r"no column 'aeg'.*age"):
        found.keep(["aeg"])


def test_numbers_inside_a_bin_are_between_training_numbers(file):
    data = Table(path=file, bins=16)
    x = data.split("train").take(torch.arange(300)).x
    rows = decode_rows(data.spec, x, seed=1)
    part = next(part for part in data.spec.parts if part.name == "income")
    for cell, code in zip(rows["income"], x[:, part.start].tolist(), strict=True):
        if code == 0:
            assert cell == ""
        else:
            low, high = part.bins[code - 1]
            assert low <= float(cell) <= high and len(cell.partition(".")[2]) == 2
    assert rows != decode_rows(data.spec, x, seed=2)
    assert all(cell.isdigit() for cell in rows["age"])


def test_whole_numbers_in_bins_stay_whole(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{k},{k % 2}\n" for k in range(1000)))
    data = Table(path=path, bins=8)
    cells = decode_rows(data.spec, data.split("train").take(torch.arange(100)).x)["a"]
    assert all(cell.isdigit() for cell in cells) and len(set(cells)) > 50


def test_what_a_file_does_not_have_is_unknown(file, tmp_path):
    """-1 for absent columns and for empty cells, unless missing is a value of the column."""
    given = tmp_path / "given.csv"
    given.write_text("city,age\n,20.0\nKöln,\n", "utf-8")
    found = encode_rows(given, Table(path=file, bins=16).spec)
    assert found.x.tolist() == [[2, -1, 0, -1, -1], [-1, -1, 3, -1, -1]]


def test_rows_are_completed_by_the_command_line(file, tmp_path):
    """sample --given rows.csv --keep age,city, without the training table."""
    model = assemble(
        {
            "data": {"name": "table", "path": str(file), "bins": 16},
            "process": "masked",
            "denoiser": {"name": "dit", "width": 16, "depth": 1},
            "sampler": {"name": "ancestral", "steps": 4},
        }
    )
    train(model, tmp_path / "run", steps=2)
    file.unlink()
    given = tmp_path / "given.csv"
    given.write_text("age,city\n20,Aachen\n29,\n", "utf-8")
    report = sample_run(tmp_path / "run", count=8, given=str(given), keep="age,city")
    with report.paths["rows"].open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert {(row["age"], row["city"]) for row in rows} == {("20", "Aachen"), ("29", "")}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("age\n99\n", "column 'age': '99' was not in training; the nearest known value is 29"),
        ("city\nKoln\n", "column 'city': 'Koln' was not in training.*'Köln'"),
        ("age\n\n,\n", "row 1 has 2 cells"),
        ("income\n1e9\n", "'1e9' was not in training; the nearest known value is"),
        ("citi\nKöln\n", "no column 'citi'.*city"),
        ("age\n", "has no rows"),
    ],
)
def test_a_given_row_that_cannot_be_is_refused_in_a_sentence(file, tmp_path, row, message):
    given = tmp_path / "given.csv"
    given.write_text(row, "utf-8")
    with pytest.raises(ElbowroomError, match=message):
        encode_rows(given, Table(path=file, bins=16).spec)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a,b\n", "has 0 rows"),
        (b"a,a\n1,2\n", "two columns are named 'a'"),
        (b"a,b\n1,2\n3\n", "row 2 has 1 cells, and there are 2 columns"),
        (b"a,b\n1,\xff\n", "no utf-8 text.*data.encoding"),
        (b"a;b\n1;2\n", "data.delimiter=';'"),
        (b'a,b\n1,"2\n', "line 2: unexpected end of data"),
        (b"a,b\n" + b"1,x\n" * 9, "every column is constant"),
        (b"a,b\n" + b"".join(b"%d,n%d\n" % (k % 3, k) for k in range(30)), "another text in every"),
        (
            b"a,b\n" + b"".join(b"%d,n%d\n" % (k % 3, k // 2) for k in range(2 * MOST + 4)),
            "column 'b' has more than 4096 different values.*data.drop",
        ),
    ],
    ids=[
        "empty",
        "no rows",
        "twice",
        "ragged",
        "latin",
        "semicolon",
        "quote",
        "same",
        "id",
        "many",
    ],
)
def test_a_file_that_is_no_table_is_refused_in_a_sentence(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(ElbowroomError, match=message) as caught:
        Table(path=path).spec  # noqa: B018
    assert "\n" not in str(caught.value)


def test_unknown_columns_are_refused_with_the_nearest_name(file):
    with pytest.raises(ConfigError, match=r"data.drop: no column 'ages'.*age"):
        Table(path=file, drop=("ages",)).spec  # noqa: B018
    with pytest.raises(ConfigError, match="'income' has numbers in bins"):
        Table(path=file, label="income", bins=16).spec  # noqa: B018
    with pytest.raises(ElbowroomError, match="cannot read the table"):
        Table(path=file.parent / "none.csv").spec  # noqa: B018
    with pytest.raises(ValueError, match="no name of a package"):
        Table(path=file, package="os.path")
    with pytest.raises(ElbowroomError, match="pip install --no-deps nothing-here"):
        Table(path=file, package="nothing_here").spec  # noqa: B018


def test_a_file_may_have_no_header_and_other_delimiters(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("1;ä\n2;b\n3;b\n".encode("latin-1") * 5)
    data = Table(path=path, header=("n", "c"), delimiter=";", encoding="latin-1")
    assert [part.values for part in data.spec.parts] == [("1", "2", "3"), ("b", "ä")]


def test_numbers_beyond_a_few_thousand_are_kept_once_and_binned(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    numbers = rng.normal(size=3 * MOST)
    cells = ["NA" if k % 10 == 3 else f"{v:.5f}" for k, v in enumerate(numbers)]
    path.write_text("a,b\n" + "".join(f"{cell},{k % 2}\n" for k, cell in enumerate(cells)))
    data = Table(path=path, bins=64)
    assert data.spec.sizes == (64, 2)
    counts = torch.bincount(data.split("train").take(torch.arange(8000)).x[:, 0], minlength=64)
    assert 700 < counts[0] < 900 and counts[1:].float().std() / counts[1:].float().mean() < 0.15


def test_quantile_bins_give_a_frequent_number_its_own_bin():
    rng = np.random.default_rng(1)
    numbers = np.concatenate([np.zeros(9000), rng.integers(1, 100_000, 1000)])
    bins = quantile_bins(numbers, 16)
    assert bins[0] == (0.0, 0.0) and len(bins) == 16
    assert all(a[1] < b[0] for a, b in pairwise(bins))
    inside = [((numbers >= a) & (numbers <= b)).sum() for a, b in bins[1:]]
    assert sum(inside) == 1000 and max(inside) < 90


def test_a_run_writes_rows_without_its_data(file, tmp_path):
    """samples.csv has the columns of the table in their order; constants come back."""
    model = assemble(
        {
            "data": {"name": "table", "path": str(file), "bins": 16, "label": "member"},
            "process": "masked",
            "denoiser": {"name": "dit", "width": 16, "depth": 1},
            "sampler": {"name": "ancestral", "steps": 4},
        }
    )
    train(model, tmp_path / "run", steps=2)
    file.unlink()
    report = sample_run(tmp_path / "run", count=20)
    with report.paths["rows"].open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert list(rows[0]) == ["age", "income", "city", "unit", "code", "member"] and len(rows) == 20
    assert {row["unit"] for row in rows} == {"kg"} and {row["member"] for row in rows} == {"y", "n"}
    assert {row["age"] for row in rows} <= set(map(str, range(18, 30)))


def test_the_spec_of_a_table_is_restored_from_json(file):
    spec = Table(path=file, bins=16).spec
    back = DataSpec.recorded(json.loads(json.dumps(attrs.asdict(spec))))
    assert back == spec and back.parts == spec.parts
    other = Table(path=file, bins=8).spec
    assert not other.fits(spec)


def test_an_array_of_records_is_a_table(file, tmp_path):
    """The same integers as of the file; a model can be trained on it."""
    with file.open(encoding="utf-8", newline="") as opened:
        rows = [tuple(row.values()) for row in csv.DictReader(opened)]
    names = "age income city unit code member".split()  # noqa: SIM905
    records = np.array(rows, dtype=[(name, "U20") for name in names])
    given = FrameTable(frame=records, bins=16)
    assert given.spec.parts == Table(path=file, bins=16).spec.parts
    model = assemble("table", {"denoiser.width": 16, "denoiser.depth": 1}, data=given)
    with pytest.warns(UserWarning, match="made in Python"):
        train(model, tmp_path / "run", steps=2)


def test_a_data_frame_is_a_table(file):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(file, na_values=["?"], dtype={"code": str})
    given, plain = FrameTable(frame=frame, bins=16), Table(path=file, bins=16)
    assert given.spec.sizes == plain.spec.sizes
    assert torch.equal(*(d.split("train").take(torch.arange(300)).x for d in (plain, given)))


@pytest.mark.extra
def test_parquet_is_read_as_csv_is(file, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["age"] = list(map(int, columns["age"]))
    columns["income"] = [float(cell) if cell else None for cell in columns["income"]]
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    plain, other = Table(path=file, bins=16), Table(path=tmp_path / "t.parquet", bins=16)
    assert plain.spec.sizes == other.spec.sizes
    assert torch.equal(*(d.split("train").take(torch.arange(300)).x for d in (plain, other)))


@pytest.mark.parametrize("name", ["table", "adult", "magic"])
def test_presets_are_configs(name, file):
    changes = {"data.path": str(file)} if name == "table" else {}
    from elbowroom import load_config

    assert load_config(name, changes).data.name == "table"


def test_a_table_is_named_in_a_config(file):
    data = named_component(
        "dataset", {"name": "table", "path": str(file), "drop": ["unit"]}
    ).build()
    assert len(data.spec.parts) == 5 and data.units("test") == {"row": 1.0}
