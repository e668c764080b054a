"""A new plugin of every kind, built and installed by pip, passes its own tests untouched."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest
from elbowroom.plugins.new_plugin.new_plugin import kinds, new_plugin

KINDS = kinds()


def name_of(kind: str) -> str:
    return f"my-{kind.replace('_', '-')}"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """An environment that sees the packages of this one, and the new plugins beside it."""
    place = tmp_path_factory.mktemp("new-plugins")
    venv.create(place / "venv", with_pip=False, symlinks=os.name != "nt")
    shared = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    lines = [f"import site; site.addsitedir({path!r})\n" for path in sorted(shared)]
    purelib = python(place, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(purelib, "shared.pth").write_text("".join(lines))
    folders = [new_plugin(name_of(kind), kind, place) for kind in KINDS]
    python(
        place,
        *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"),
        *("--no-deps", "--no-build-isolation"),
        *map(str, folders),
    )
    return place


def python(place: Path, *arguments: str) -> str:
    """What the environment's Python prints, run as a user would."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ELBOWROOM", "PYTHON"))}
    done = subprocess.run(
        [str(place / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"), *arguments],
        cwd=place,
        env={**clean, "OMP_NUM_THREADS": "1", "ELBOWROOM_STRICT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_kind_passes_its_own_tests_as_installed(place):
    """The tests of all new packages pass: the laws of the component, and its registration."""
    told = python(
        place,
        *("-m", "pytest", "-v", "-p", "no:cacheprovider", "--import-mode=importlib"),
        *("-c", os.devnull, "--rootdir", str(place)),
        *(str(place / f"elbowroom-{name_of(kind)}" / "tests") for kind in KINDS),
    )
    for kind in KINDS:
        passed = [line for line in told.splitlines() if name_of(kind) in line and "PASSED" in line]
        assert len(passed) == 2, told
    assert "failed" not in told
    assert "skipped" not in told


def test_they_are_listed_without_torch(place):
    """New plugins are light: listing them imports no torch."""
    told = python(
        place,
        "-c",
        "import sys; from elbowroom import installed; from elbowroom.registry import KINDS;"
        "found = installed();"
        "print([name for kind in KINDS for name in found.components(kind)]);"
        "assert 'torch' not in sys.modules",
    )
    assert all(f"'{name_of(kind)}'" in told for kind in KINDS)


def test_the_wheel_has_all_of_it(place):
    """What was installed is the package with its type marker, from the wheel."""
    told = python(
        place,
        "-c",
        "from importlib import metadata;"
        "print(*[f.as_posix() for f in metadata.files('elbowroom-my-weighting')])",
    )
    assert "elbowroom_my_weighting/py.typed" in told
    assert "licenses/LICENSE" in told
