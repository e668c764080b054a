"""Laws of an exporter, on a given run."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from os import PathLike
from pathlib import Path

import attrs
from elbowroom import Config
from elbowroom.plugins.export.exporter import Exporter
from elbowroom.runs import Loaded, load_run

from .law import ensure, run

_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib")


@attrs.frozen(eq=False)
class _Setting:
    """A run and a folder to write to."""

    exporter: Exporter
    loaded: Loaded
    config: Config
    place: Path

    def written(self, name: str) -> Path:
        folder = self.place / name
        folder.mkdir()
        self.exporter.write(self.loaded, self.config, folder)
        return folder


def check_exporter(exporter: Exporter, of: str | PathLike[str]) -> None:
    """Check the laws of an exporter, on the run in the folder ``of``."""
    loaded = load_run(of)
    laws = [_writes, _same_again, _leaves_the_run, _no_pickles, _moves]
    with tempfile.TemporaryDirectory() as place:
        run(exporter, laws, _Setting(exporter, loaded, loaded.folder.config(), Path(place)))


def _writes(setting: _Setting) -> None:
    """It writes files into the given folder, and nothing outside."""
    folder = setting.written("first")
    ensure(bool(_digests(folder)), "the folder is empty.")
    found = sorted(path.name for path in setting.place.iterdir())
    ensure(found == ["first"], f"outside there are {found}.")


def _same_again(setting: _Setting) -> None:
    """The same run gives the same files."""
    one, other = (_digests(setting.written(name)) for name in ("one", "other"))
    differ = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    ensure(not differ, f"{differ[:3]} differ.")


def _leaves_the_run(setting: _Setting) -> None:
    """The run is not changed."""
    before = _digests(setting.loaded.folder.path)
    weights = {k: v.clone() for k, v in setting.loaded.model.state_dict().items()}
    setting.written("again")
    ensure(_digests(setting.loaded.folder.path) == before, "files of the run changed.")
    now = setting.loaded.model.state_dict()
    changed = [k for k in weights if not bool((weights[k] == now[k]).all())]
    ensure(not changed, f"the model's {changed[:3]} changed.")


def _no_pickles(setting: _Setting) -> None:
    """It writes no pickles."""
    files = [path for path in setting.written("data").rglob("*") if path.is_file()]
    bad = [path.name for path in files if path.suffix in _PICKLES or _has_pickle(path)]
    ensure(not bad, f"{bad[:3]} are pickles.")


def _moves(setting: _Setting) -> None:
    """The folder can be moved: it has no links, and names no folder of this machine."""
    folder = setting.written("moves")
    links = [path.name for path in folder.rglob("*") if path.is_symlink()]
    ensure(not links, f"{links[:3]} are links.")
    here = [str(path).encode() for path in (setting.place, setting.loaded.folder.path.resolve())]
    for path in (path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        ensure(not any(name in content for name in here), f"{path.name} names a folder here.")


def _has_pickle(path: Path) -> bool:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(".pkl") for name in archive.namelist())
    with path.open("rb") as file:
        return file.read(2) in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
