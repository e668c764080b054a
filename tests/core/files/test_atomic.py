"""Files and folders that are there whole or not at all, and locks."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import pytest
from elbowroom.errors import ElbowroomError
from elbowroom.files.atomic import (
    apply_default_mode,
    atomic_folder,
    remove_folder,
    remove_leftovers,
    replace_file,
)
from elbowroom.files.lock import LockedError, locked, take_lock


def test_a_folder_gets_its_name_when_it_is_whole(tmp_path):
    """Until then it is hidden; an empty folder of its name gives way."""
    place = tmp_path / "made"
    place.mkdir()
    with atomic_folder(place) as aside:
        (aside / "inner").mkdir()
        (aside / "inner/file").write_text("all")
        assert not list(place.iterdir()) and aside.name.startswith(".made.partial-")
    assert (place / "inner/file").read_text() == "all"
    assert list(tmp_path.iterdir()) == [place]


def test_a_folder_that_fails_leaves_nothing(tmp_path):
    """Neither half of it, nor what was written aside."""
    with suppress(KeyboardInterrupt), atomic_folder(tmp_path / "made") as aside:
        (aside / "file").write_text("half")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_folder_with_something_in_it_is_never_replaced(tmp_path):
    """It stays as it was, and what was written aside goes."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made/mine").write_text("here")
    with pytest.raises(OSError), atomic_folder(tmp_path / "made") as aside:  # noqa: PT011  # any
        (aside / "file").write_text("new")
    assert (tmp_path / "made/mine").read_text() == "here"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_kill_leaves_is_swept_away(tmp_path):
    """Files and folders of that name, and nothing else."""
    program = f"""
import os, signal
from pathlib import Path
from elbowroom.files.atomic import atomic_folder
with atomic_folder(Path({str(tmp_path)!r}) / "made") as aside:
    (aside / "file").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    (tmp_path / "kept").write_text("")
    assert len(list(tmp_path.iterdir())) == 2
    remove_leftovers(tmp_path, ".made.*")
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]
    remove_leftovers(tmp_path / "nowhere", "*")


def test_removing_takes_the_name_first(tmp_path, monkeypatch):
    """Whoever is killed while removing leaves no folder that looks whole."""
    (tmp_path / "made").mkdir()
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    remove_folder(tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_file_that_cannot_be_replaced_stays(tmp_path, monkeypatch):
    """At any moment the old content or the new."""
    file = tmp_path / "file"
    replace_file(file, b"old")

    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="full"):
        replace_file(file, b"new")
    assert file.read_bytes() == b"old" and list(tmp_path.iterdir()) == [file]


# -- locks


def test_a_lock_has_one_holder_and_is_free_again_after_it(tmp_path):
    """Whoever comes second is told what the first one does."""
    with (
        locked(tmp_path, "training"),
        pytest.raises(LockedError, match="another process is training in"),
        locked(tmp_path, "training", patience=0.2),
    ):
        pass
    with locked(tmp_path, "training"):
        pass


def test_a_lock_is_taken_refused_or_not_to_be_had(tmp_path, monkeypatch):
    """True, False, and None where there are no locks."""
    with (tmp_path / "lock").open("w") as one, (tmp_path / "lock").open("w") as other:
        assert take_lock(one) is True
        assert take_lock(other) is False
        monkeypatch.setitem(sys.modules, "fcntl", None)
        assert take_lock(other) is None


def test_no_lock_is_taken_through_a_link(tmp_path):
    """The folder may be a stranger's."""
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ElbowroomError, match="is not a regular file"), locked(tmp_path, "training"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_files_get_one_mode_and_what_links_lead_to_keeps_its_own(tmp_path):
    """A file that was made for its owner alone becomes as readable as a new one."""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.touch(0o600)
    (folder / "weights").touch(0o600)
    (folder / "link").symlink_to(outside)
    apply_default_mode(folder)
    (tmp_path / "new").touch()
    assert (folder / "weights").stat().st_mode == (tmp_path / "new").stat().st_mode
    assert outside.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["link", "weights"]
