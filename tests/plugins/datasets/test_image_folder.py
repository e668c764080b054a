"""Folders of one's own pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from elbowroom.contracts.dataset import DataSpec
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.datasets.image_folder import ImageFolder
from PIL import Image


def picture(seed: int, width: int = 12, height: int = 12) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def write(folder: Path, count: int = 10, classes=("cat", "dog"), seed: int = 0) -> Path:
    """``count`` pictures of each class."""
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            picture(seed + 1000 * label + i).save(folder / name / f"{i:03}.png")
    return folder


def conversions(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache" / "datasets").iterdir() if path.is_dir()]


def test_classes_become_labels(tmp_path):
    """Sub-folders in order of their names are the labels 0, 1, ...; pixels are unchanged."""
    data = ImageFolder(path=write(tmp_path / "made"))
    assert data.spec == DataSpec((12, 12, 3), levels=256, classes=2)
    seen: dict[bytes, int] = {}
    for name, size in {"train": 17, "validation": 1, "test": 2}.items():
        split = data.split(name)
        assert len(split) == size
        batch = split.take(torch.arange(len(split)))
        for x, y in zip(batch.x, batch.y, strict=True):
            seen[x.numpy().astype(np.uint8).tobytes()] = int(y)
    assert seen == {
        np.asarray(picture(1000 * label + i)).tobytes(): label
        for label in range(2)
        for i in range(10)
    }


def test_split_folders_are_used(tmp_path):
    """train, val and test folders are the splits, with the labels of train."""
    root = tmp_path / "made"
    write(root / "train", 8)
    write(root / "val", 3, seed=50)
    write(root / "test", 2, ("dog",), seed=90)
    data = ImageFolder(path=root)
    assert [len(data.split(name)) for name in ("train", "validation", "test")] == [16, 6, 2]
    test = data.split("test").take(torch.arange(2))
    assert test.y.tolist() == [1, 1]
    assert np.array_equal(test.x[0], np.asarray(picture(90)))


def test_missing_validation_is_carved_from_train_only(tmp_path):
    """With a test folder but no validation folder, test stays whole."""
    root = tmp_path / "made"
    write(root / "train", 10)
    write(root / "test", 3, seed=90)
    data = ImageFolder(path=root)
    assert [len(data.split(name)) for name in ("train", "validation", "test")] == [18, 2, 6]


def test_with_a_validation_folder_nothing_is_taken_out_of_train(tmp_path):
    """Without a test folder the validation folder gives both: a tenth of it, and the rest."""
    root = tmp_path / "made"
    write(root / "train", 10)
    write(root / "val", 10, seed=50)
    data = ImageFolder(path=root)
    sizes = {name: len(data.split(name)) for name in ("train", "validation", "test")}
    assert sizes == {"train": 20, "validation": 2, "test": 18}
    seen = [
        x.numpy().astype(np.uint8).tobytes()
        for name in ("validation", "test")
        for x in data.split(name).take(torch.arange(sizes[name])).x
    ]
    val = {np.asarray(picture(50 + 1000 * k + i)).tobytes() for k in range(2) for i in range(10)}
    assert len(seen) == len(val) and set(seen) == val


def test_smaller_pictures_are_enlarged_where_it_is_asked_for(tmp_path):
    """By the same rule: a pixel is the mean over its own area, here of one source pixel."""
    data = ImageFolder(path=write(tmp_path / "made", 3), size=24, enlarge=True)
    x = data.split("train").take(torch.arange(4)).x
    assert x.equal(x[:, ::2, ::2].repeat_interleave(2, 1).repeat_interleave(2, 2))


def test_rotation_marks_are_passed_over_where_it_is_asked_for(tmp_path):
    """``upright: false`` keeps pictures as they are stored; it is another conversion."""
    root = write(tmp_path / "made", 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(5).save(root / "cat" / "turned.png", exif=exif)
    ImageFolder(path=root).split("train")
    data = ImageFolder(path=root, upright=False)
    seen = {
        x.numpy().astype(np.uint8).tobytes()
        for name in ("train", "validation", "test")
        for x in data.split(name).take(torch.arange(len(data.split(name)))).x
    }
    assert np.asarray(picture(5)).tobytes() in seen


def test_a_class_named_train_is_a_class(tmp_path):
    """Vehicles may be sorted into car, plane and train."""
    data = ImageFolder(path=write(tmp_path / "made", 4, ("car", "plane", "train")))
    assert data.spec.classes == 3


def test_flat_folder_has_no_labels(tmp_path):
    """Pictures without sub-folders are read without labels."""
    data = ImageFolder(path=write(tmp_path / "made", 10, ("cat",)) / "cat")
    assert data.spec.classes is None
    assert data.split("train").take(torch.tensor([0])).y is None


def test_pictures_are_cropped_and_averaged(tmp_path):
    """A wide picture keeps its centred square, and each pixel is the mean of its area."""
    root = tmp_path / "made"
    write(root, 4)
    wide = np.zeros((8, 20, 3), np.uint8)
    wide[:, 6:14] = np.arange(64, dtype=np.uint8).reshape(8, 8, 1) * 4
    Image.fromarray(wide).save(root / "cat" / "000.png")
    data = ImageFolder(path=root, size=4)
    assert data.spec.shape == (4, 4, 3)
    everything = torch.cat(
        [
            data.split(name).take(torch.arange(len(data.split(name)))).x
            for name in ("train", "validation", "test")
        ]
    )
    blocks = wide[:, 6:14].reshape(4, 2, 4, 2, 3).astype(float).mean((1, 3))
    expected = torch.from_numpy(np.floor(blocks + 0.5)).long()
    assert (everything == expected).flatten(1).all(1).sum() == 1


@pytest.mark.parametrize(
    ("mode", "ending"),
    [
        ("L", "png"),
        ("RGBA", "png"),
        ("P", "gif"),
        ("1", "png"),
        ("CMYK", "jpg"),
        ("RGB", "webp"),
        ("RGB", "BMP"),
        ("LA", "png"),
        ("RGB", "tiff"),
        ("RGB", "ppm"),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_usual_format_is_read(tmp_path, mode: str, ending: str, channels: int):
    """Grey, palette, transparent and printing colours come as grey or RGB."""
    root = write(tmp_path / "made", 3)
    picture(5).convert(mode).save(root / "cat" / f"x.{ending}")
    data = ImageFolder(path=root, channels=channels)
    assert data.split("train").take(torch.arange(3)).x.shape == (3, 12, 12, channels)
    assert sum(len(data.split(name)) for name in ("train", "validation", "test")) == 7


def test_rotation_marks_are_obeyed(tmp_path):
    """A picture marked as turned by the camera is turned back."""
    root = write(tmp_path / "made", 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(5).save(root / "cat" / "turned.png", exif=exif)
    data = ImageFolder(path=root)
    expected = np.asarray(picture(5).transpose(Image.Transpose.ROTATE_270)).tobytes()
    seen = {
        x.numpy().astype(np.uint8).tobytes()
        for name in ("train", "validation", "test")
        for x in data.split(name).take(torch.arange(len(data.split(name)))).x
    }
    assert expected in seen


def test_other_files_are_passed_over(tmp_path):
    """Notes, hidden files and hidden folders are not pictures."""
    root = write(tmp_path / "made", 5)
    (root / "README.txt").write_text("notes")
    (root / "cat" / "notes.csv").write_text("a,b")
    (root / "cat" / "._000.png").write_bytes(b"junk")
    (root / ".git").mkdir()
    data = ImageFolder(path=root)
    assert data.spec.classes == 2
    assert sum(len(data.split(name)) for name in ("train", "validation", "test")) == 10


def test_converts_once(tmp_path, monkeypatch):
    """A second use decodes no picture."""
    root = write(tmp_path / "made")
    first = ImageFolder(path=root).split("train").take(torch.arange(5))

    def fail(*_):
        raise AssertionError("decoded again")

    monkeypatch.setattr("elbowroom.plugins.datasets.image_folder.load_image", fail)
    again = ImageFolder(path=root).split("train").take(torch.arange(5))
    assert again.x.equal(first.x)


@pytest.mark.parametrize("change", ["content", "added", "removed", "moved", "size", "channels"])
def test_changes_are_noticed(tmp_path, change: str):
    """A folder or an option that changed is converted again."""
    root = write(tmp_path / "made")
    ImageFolder(path=root).split("train")
    path = root / "cat" / "003.png"
    options = {}
    if change == "content":
        picture(77).save(path)
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    elif change == "added":
        picture(77).save(root / "cat" / "new.png")
    elif change == "removed":
        path.unlink()
    elif change == "moved":
        path.rename(root / "dog" / "moved.png")
    else:
        options = {"size": {"size": 6}, "channels": {"channels": 1}}[change]
    ImageFolder(path=root, **options).split("train")
    assert len(conversions(tmp_path)) == 2


def test_cut_conversion_is_not_read(tmp_path):
    """A process killed while it converts leaves nothing that is read; the next one cleans up."""
    root = write(tmp_path / "made")
    program = f"""
import os, signal
from pathlib import Path
import elbowroom.plugins.datasets.image_folder as f
f._GROUP, load, seen = 4, f.load_image, []
def kill(*a):
    seen.append(a)
    if len(seen) > 9: os.kill(os.getpid(), signal.SIGKILL)
    return load(*a)
f.load_image = kill
f.ImageFolder(path=Path({str(root)!r})).split("train")
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -9
    assert [path.name[0] for path in conversions(tmp_path)] == ["."]
    assert len(ImageFolder(path=root).split("train")) == 17
    assert [path.name.split("-")[0] for path in conversions(tmp_path)] == ["image"]


def test_two_processes_convert_one_folder(tmp_path):
    """Ranks that start together end with one conversion and the same data."""
    root = write(tmp_path / "made")
    program = f"""
from pathlib import Path
import torch
from elbowroom.plugins.datasets.image_folder import ImageFolder
print(int(ImageFolder(path=Path({str(root)!r})).split("train").take(torch.arange(17)).x.sum()))
"""
    ranks = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    sums = [rank.communicate()[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert len(set(sums)) == 1
    assert len(conversions(tmp_path)) == 1


@pytest.mark.parametrize("lock", ["missing", "refused"])
def test_works_without_locks(tmp_path, monkeypatch, lock: str):
    """Systems and file systems without locks convert too."""
    if lock == "missing":
        monkeypatch.setitem(sys.modules, "fcntl", None)
    else:
        fcntl = pytest.importorskip("fcntl")

        def refuse(*_):
            raise OSError("no locks")

        monkeypatch.setattr(fcntl, "flock", refuse)
    assert len(ImageFolder(path=write(tmp_path / "made")).split("train")) == 17


def test_damaged_conversion_is_named(tmp_path):
    """A conversion damaged later says which folder to delete."""
    root = write(tmp_path / "made")
    ImageFolder(path=root).split("train")
    (folder,) = conversions(tmp_path)
    images = folder / "train.images"
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(ElbowroomError, match=f"delete the folder {folder}"):
        ImageFolder(path=root).split("train")
    (folder / "about.json").write_text("{")
    with pytest.raises(ElbowroomError, match=f"delete the folder {folder}"):
        ImageFolder(path=root).split("train")


def test_unwritable_cache_is_named(tmp_path, monkeypatch):
    """Where a conversion cannot be written the error says how to choose another place."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ELBOWROOM_CACHE", str(tmp_path / "file"))
    with pytest.raises(ElbowroomError, match="ELBOWROOM_CACHE"):
        ImageFolder(path=write(tmp_path / "made")).split("train")


def test_full_disk_is_named(tmp_path):
    """A conversion that runs out of space is an error and leaves nothing behind."""
    resource = pytest.importorskip("resource")
    root = write(tmp_path / "made")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        with pytest.raises(ElbowroomError, match=r"File too large.*ELBOWROOM_CACHE"):
            ImageFolder(path=root).split("train")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert conversions(tmp_path) == []
    assert len(ImageFolder(path=root).split("train")) == 17


def test_missing_folder_says_what_to_do(tmp_path):
    """A folder that is not there is named, with what is wanted."""
    with pytest.raises(ElbowroomError, match=r"nowhere[\s\S]*sub-folder for each class"):
        _ = ImageFolder(path=tmp_path / "nowhere").spec


def break_file(root: Path) -> None:
    path = root / "cat" / "004.png"
    path.write_bytes(path.read_bytes()[:200])


BREAKAGES = {
    "truncated": (break_file, "cat/004.png"),
    "no picture": (lambda root: (root / "cat" / "004.png").write_text("hello"), "cat/004.png"),
    "empty": (lambda root: (root / "cat" / "004.png").write_bytes(b""), "cat/004.png"),
    "a folder": (lambda root: (root / "cat" / "zz.png").mkdir(), None),
    "dangling": (lambda root: (root / "cat" / "zz.png").symlink_to("nothing"), "zz.png"),
    "another size": (lambda root: picture(1, 9, 9).save(root / "cat" / "zz.png"), "data.size"),
    "16 bits": (
        lambda root: Image.fromarray(np.zeros((12, 12), np.uint16)).save(root / "cat" / "zz.png"),
        "more than 8 bits",
    ),
    "both": (lambda root: picture(1).save(root / "loose.png"), "both sub-folders"),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_broken_folders_are_named(tmp_path, breakage: str):
    """Whatever is wrong in a folder, the error names the file or the remedy."""
    root = write(tmp_path / "made")
    do, message = BREAKAGES[breakage]
    do(root)
    if message is None:
        assert len(ImageFolder(path=root).split("train")) == 17
    else:
        with pytest.raises(ElbowroomError, match=message):
            ImageFolder(path=root).split("train")


def test_too_small_pictures_are_named(tmp_path):
    """A picture is never enlarged."""
    with pytest.raises(ElbowroomError, match=r"12x12, smaller than size=64: set data.size=12"):
        ImageFolder(path=write(tmp_path / "made"), size=64).split("train")


@pytest.mark.parametrize("missing", ["train", "pictures", "classes"])
def test_incomplete_layouts_are_named(tmp_path, missing: str):
    """Folders without train, without pictures or with unknown classes are refused."""
    root = tmp_path / "made"
    if missing == "train":
        write(root / "test", 2)
        message = "no folder train"
    elif missing == "pictures":
        (root / "cat").mkdir(parents=True)
        message = "no images"
    else:
        write(root / "train", 2)
        write(root / "test", 2, ("cat", "mouse"))
        message = "'mouse'"
    with pytest.raises(ElbowroomError, match=message):
        ImageFolder(path=root, size=8).split("train")


# -- broken pictures


def test_broken_pictures_can_be_left_out_and_are_named_each_time(tmp_path):
    """The rest is as if they had never been there; each use says how many and which."""
    root, whole = write(tmp_path / "made"), write(tmp_path / "whole")
    for name in ("cat/0000.png", "cat/zz.jpg", "dog/001b.png"):  # the very first one too
        (root / name).write_bytes(b"no picture")
    for size in (None, 8):  # found when the size is looked for, and when pictures are read
        with pytest.raises(ElbowroomError, match=r"cannot read.*data\.on_error=skip") as told:
            ImageFolder(path=root, size=size).split("train")
        assert str(told.value).count("0000.png") == 1
    for _ in range(2):  # converted, then found
        data = ImageFolder(path=root, on_error="skip")
        with pytest.warns(UserWarning, match=r"3 unreadable images are skipped: .*0000\.png"):
            split = data.split("train")
    there = ImageFolder(path=whole).split("train")
    rows = torch.arange(len(there))
    assert torch.equal(split.take(rows).x, there.take(rows).x)
    assert torch.equal(split.take(rows).y, there.take(rows).y)


def test_only_what_is_broken_is_left_out(tmp_path):
    """A picture that is too small is no broken one; a folder of broken ones is an error."""
    root = write(tmp_path / "made")
    picture(1, 4, 4).save(root / "cat" / "zz.png")
    with pytest.raises(ElbowroomError, match="smaller than size"):
        ImageFolder(path=root, size=8, on_error="skip").split("train")
    (tmp_path / "none" / "cat").mkdir(parents=True)
    (tmp_path / "none" / "cat" / "1.png").write_bytes(b"no picture")
    with pytest.raises(ElbowroomError, match="no image"):
        ImageFolder(path=tmp_path / "none", size=8, on_error="skip").split("train")
