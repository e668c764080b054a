"""One light environment with the example plugins, some odd or broken ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
BROKEN = ROOT / "tests" / "fixtures" / "plugins"
KINDS = ROOT / "tests" / "fixtures" / "elbowroom-flips"


@attrs.frozen
class Environment:
    """An environment's Python, run as a user would."""

    python: Path
    folder: Path  # with the sources of what is installed in it

    def run(
        self, *arguments: str, check: bool = True, **environ: str
    ) -> subprocess.CompletedProcess:
        """Runs Python with these arguments, outside of any source tree."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ELBOWROOM", "PYTHON"))}
        done = subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env={**clean, "OMP_NUM_THREADS": "1", **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def ask(self, program: str, **environ: str) -> object:
        """What a program prints as JSON."""
        return json.loads(self.run("-c", program, **environ).stdout)


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> Environment:
    """The packages of this environment, and more installed by pip from their sources."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", with_pip=False, symlinks=os.name != "nt")
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    environment = Environment(python, folder)
    site = Path(
        environment.ask("import json, sysconfig; print(json.dumps(sysconfig.get_path('purelib')))")
    )
    # addsitedir, not a bare path: an editable elbowroom is found through a .pth file of its own.
    shared = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    lines = [f"import site; site.addsitedir({path!r})\n" for path in sorted(shared)]
    (site / "shared.pth").write_text("".join(lines))
    sources = []
    found = [p for place in (EXAMPLES, BROKEN) for p in place.iterdir() if p.is_dir()]
    for source in sorted([*found, KINDS]):
        # Building writes beside the sources: build a copy.
        ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
        sources.append(shutil.copytree(source, folder / "sources" / source.name, ignore=ignored))
    environment.run(
        *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"),
        *("--no-deps", "--no-build-isolation"),
        *map(str, sources),
    )
    return environment
