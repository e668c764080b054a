"""Classes of a folder: sub-folders in the order of numbers, or a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.datasets.folders import natural
from elbowroom.plugins.datasets.image_folder import ImageFolder
from hypothesis import given, strategies as st
from PIL import Image

FILES = {"a.png": "cat", "below/b.png": "dog", "c.png": "cat", "d.png": "mouse", "e.png": "cat"}


def shade(k: int) -> Image.Image:
    return Image.fromarray(np.full((4, 4, 3), k, np.uint8))


def pictures(folder: Path, names) -> Path:
    """A picture of one shade for each name: its own number."""
    for k, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shade(k).save(folder / name)
    return folder


def csv(rows) -> str:
    return "file_name,label\n" + "".join(f"{name},{label}\n" for name, label in rows)


def jsonl(rows) -> str:
    return "".join(json.dumps({"file_name": n, "label": k, "text": "x"}) + "\n" for n, k in rows)


def labels(data) -> dict[int, str]:
    """Shade -> name of the class, over all splits."""
    found = {}
    for name in ("train", "validation", "test"):
        split = data.split(name)
        batch = split.take(torch.arange(len(split)))
        for x, y in zip(batch.x, batch.y, strict=True):
            found[int(x[0, 0, 0])] = data.spec.class_name(int(y))
    return found


def test_folders_sort_as_numbers(tmp_path):
    """0, 1, 2, 10: the label is the place in the order of numbers, and the name is kept."""
    names = ["0", "1", "10", "2"]
    root = pictures(tmp_path / "made", [f"{n}/{i}.png" for n in names for i in range(3)])
    data = ImageFolder(path=root)
    assert data.spec.names == ("0", "1", "2", "10")
    assert [data.spec.label_of(name) for name in ("0", "2", "10")] == [0, 2, 3]
    assert labels(data) == {3 * k + i: n for k, n in enumerate(names) for i in range(3)}


@given(st.lists(st.integers(0, 10**30), unique=True), st.text(max_size=3))
def test_numbers_in_names_count_as_numbers(numbers, word):
    """Whatever stands before them, unless it ends in a digit itself."""
    word = word.rstrip("0123456789")
    named = sorted((f"{word}{n}" for n in numbers), key=natural)
    assert named == [f"{word}{n}" for n in sorted(numbers)]


@pytest.mark.parametrize(
    ("file", "written"),
    [("metadata.csv", csv(FILES.items())), ("metadata.jsonl", jsonl(FILES.items()))],
)
def test_a_table_says_the_classes(tmp_path, file, written):
    """As Hugging Face's image folders have it; sub-folders are then no classes."""
    root = pictures(tmp_path / "made", FILES)
    (root / file).write_text(written)
    data = ImageFolder(path=root)
    assert data.spec.names == ("cat", "dog", "mouse")
    assert labels(data) == dict(enumerate(FILES.values()))


def test_a_table_with_numbers_and_a_changed_table(tmp_path):
    """Numbers are classes too, in their order; another label is another conversion."""
    root = pictures(tmp_path / "made", FILES)
    (root / "metadata.jsonl").write_text(jsonl(zip(FILES, (10, 2, 10, 2, 2), strict=True)))
    assert ImageFolder(path=root).spec.names == ("2", "10")
    assert labels(ImageFolder(path=root))[0] == "10"
    (root / "metadata.jsonl").write_text(jsonl(zip(FILES, (2, 2, 10, 2, 2), strict=True)))
    assert labels(ImageFolder(path=root))[0] == "2"


def test_each_split_has_a_table_of_its_own(tmp_path):
    """One split may have folders and another a table; the classes are those of train."""
    root = tmp_path / "made"
    pictures(root / "train", [f"{n}/{i}.png" for n in ("cat", "dog") for i in range(2)])
    pictures(root / "val", ["x.png", "y.png"])
    (root / "val" / "metadata.csv").write_text(csv([("x.png", "dog"), ("y.png", "cat")]))
    data = ImageFolder(path=root)
    assert len(data.split("train")) == 4
    (root / "val" / "metadata.csv").write_text(csv([("x.png", "dog"), ("y.png", "cow")]))
    with pytest.raises(ElbowroomError, match="'cow'"):
        ImageFolder(path=root).split("train")
    (root / "metadata.csv").write_text(csv([]))
    with pytest.raises(ElbowroomError, match="write a table into each of train, val instead"):
        ImageFolder(path=root).split("train")


def test_a_table_without_labels_leaves_the_folders(tmp_path):
    """Captions are no classes."""
    root = pictures(tmp_path / "made", [f"{n}/{i}.png" for n in ("cat", "dog") for i in range(2)])
    (root / "metadata.csv").write_text("file_name,text\ncat/0.png,a cat\n")
    assert ImageFolder(path=root).spec.names == ("cat", "dog")


WRONG = {
    "unlisted": (csv(list(FILES.items())[1:]), "has no line for a.png"),
    "gone": (csv([*FILES.items(), ("z.png", "cat")]), "names z.png, which is not an image there"),
    "twice": (csv([*FILES.items(), ("a.png", "dog")]), "line 7: a.png is listed twice"),
    "outside": (csv([("../a.png", "cat")]), r"line 2: ../a.png is outside"),
    "absolute": (csv([("/a.png", "cat")]), "is outside"),
    "no label": ("file_name,label\na.png\n", "line 2: label None is not a class"),
    "empty label": (csv([("a.png", "")]), "line 2: label '' is not a class"),
    "no name": ("file,label\na.png,cat\n", "line 2: no file_name"),
    "no lines": (csv([]), "has no lines"),
    "quotes": ('file_name,label\n"a.png,cat\n', r"line \d: unexpected end of data"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_tables_are_named(tmp_path, what):
    """With the line, or the picture."""
    root = pictures(tmp_path / "made", FILES)
    written, message = WRONG[what]
    (root / "metadata.csv").write_text(written)
    with pytest.raises(ElbowroomError, match=message):
        ImageFolder(path=root).split("train")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is not JSON"),
        ("[1]", "line 1 is not a JSON object"),
        ('{"file_name": "a.png", "label": true}', "label True"),
        ('{"file_name": "a.png", "label": 1.5}', "label 1.5"),
        ('{"file_name": 3, "label": "cat"}', "no file_name"),
        ("[" * 100_000, "line 1 is not JSON"),
    ],
)
def test_wrong_lines_are_named(tmp_path, line, message):
    """Whatever they hold."""
    root = pictures(tmp_path / "made", FILES)
    (root / "metadata.jsonl").write_text(line)
    with pytest.raises(ElbowroomError, match=message):
        ImageFolder(path=root).split("train")
    (root / "metadata.csv").write_text("")
    with pytest.raises(ElbowroomError, match=r"both metadata\.csv and metadata\.jsonl"):
        ImageFolder(path=root).split("train")
