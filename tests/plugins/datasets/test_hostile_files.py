"""Data of strangers: files that claim much, or are not what their names say."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.datasets.hf import HuggingFace
from elbowroom.plugins.datasets.image_folder import ImageFolder
from elbowroom.plugins.datasets.images import load_image
from elbowroom.plugins.datasets.npz import NpzArray
from PIL import Image


def png(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims a size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b"\x3b"


def tiff(width: int, height: int) -> bytes:
    entries = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: 1}
    body = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries.items())
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + body + struct.pack("<I", 0)


@pytest.mark.parametrize("made", [png, gif, tiff], ids=lambda made: made.__name__)
@pytest.mark.parametrize("size", [(9000, 9000), (65_000, 2_000), (65_535, 65_535)])
def test_a_picture_that_claims_too_many_pixels_is_refused(tmp_path, made, size, monkeypatch):
    """By its header, before any pixel is decoded."""
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("it was decoded"))
    path = tmp_path / f"bomb.{made.__name__}"
    path.write_bytes(made(*size))
    with pytest.raises(ElbowroomError, match=r"bomb\.\w+ (is|as).*pixels|bomb.*image"):
        load_image(path, 8, 3)


def test_a_program_under_a_pictures_name_is_not_run(tmp_path, monkeypatch):
    """EPS is PostScript, which Pillow hands to Ghostscript: it is opened under no name."""
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("it ran"))
    path = tmp_path / "cat.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    with pytest.raises(ElbowroomError, match=r"cat\.png"):
        load_image(path, 8, 3)


@pytest.mark.timeout(60)
def test_pipes_and_devices_in_a_folder_are_no_pictures(tmp_path):
    """What may never end is left out, links to pictures are followed."""
    folder, aside = tmp_path / "data" / "cat", tmp_path / "aside.png"
    folder.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(aside)
    os.mkfifo(folder / "pipe.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "around").symlink_to(tmp_path / "data")
    for name in "abc":
        (folder / f"{name}.png").symlink_to(aside)
    found = [path.name for path, _ in ImageFolder(path=tmp_path / "data")._images("train")]
    assert found == ["a.png", "b.png", "c.png"]


# -- npz


def npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def header(shape: str, descr: str = "'|u1'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


class Trap:
    def __reduce__(self):
        return (os.mkdir, ("was-run",))


@pytest.mark.parametrize(
    "content",
    [
        header("(0,)", "'|O'"),
        header("(-1,)"),
        header("(1099511627777, 0)"),
        header("(4, 0)"),
        header("()"),
        header("(%s)" % ("1, " * 40)),
        header("(2,)", "'<U9'"),
        header("(2,)", "'|V1000000000'"),
        header("(2,)", "[('a', '<i4')]"),
        header("(2,)", "__import__('os').mkdir('was-run')"),
        b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{",
        header("(2"),
        b"\x93NUMPY\x09\x00" + b"\0" * 64,
    ],
)
@pytest.mark.timeout(60)
def test_arrays_that_are_no_plain_numbers_are_refused(tmp_path, monkeypatch, content):
    """Objects, negative, empty and endless shapes, text, records, code in a header."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ElbowroomError, match=r"made\.npz"):
        list(NpzArray(npz(tmp_path / "made.npz", data=content), "data").pieces(4))
    assert not (tmp_path / "was-run").exists()


def test_pickled_objects_in_an_npz_are_not_unpickled(tmp_path, monkeypatch):
    """An array of objects is refused by its header."""
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(ElbowroomError, match="pickled objects"):
        NpzArray(npz(tmp_path / "made.npz", data=buffer.getvalue()), "data")
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(("place", "byte"), [(6, 1), (4, 0xEB)], ids=["encrypted", "version"])
def test_an_archive_that_zipfile_cannot_open_is_an_error(tmp_path, place, byte):
    """An encrypted array, or a version of the format that zipfile does not support."""
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3, np.uint8))
    path = npz(tmp_path / "made.npz", data=buffer.getvalue())
    content = bytearray(path.read_bytes())
    content[place] = byte
    directory = content.index(b"PK\x01\x02")
    content[directory + place + 2] = byte
    path.write_bytes(content)
    with pytest.raises(ElbowroomError, match=r"cannot read .*made\.npz"):
        NpzArray(path, "data")


def test_a_library_that_runs_loading_scripts_is_refused(monkeypatch):
    """datasets before version 4 could execute code that comes with the data."""
    import sys
    from types import ModuleType

    old = ModuleType("datasets")
    old.__version__ = "3.6.0"
    monkeypatch.setitem(sys.modules, "datasets", old)
    with pytest.raises(ElbowroomError, match="needs datasets 4 or later"):
        HuggingFace(path="somebody/data").spec  # noqa: B018  # a property that loads
