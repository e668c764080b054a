"""Strict mypy on the built wheel: a plain editable install hides the mapped folders from it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from helpers.built_wheel import ROOT, build_wheel


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "unpacked"
        zipfile.ZipFile(build_wheel(Path(folder))).extractall(target)
        config = ROOT / "pyproject.toml"
        options = ["--config-file", str(config), "--cache-dir", str(ROOT / ".mypy_cache")]
        check = [sys.executable, "-m", "mypy", *options, "elbowroom"]
        return subprocess.run(check, cwd=target, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
