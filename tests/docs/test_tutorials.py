"""The tutorials: their code and commands run from top to bottom, in an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w-]+\.(?:py|yaml))\n")


PAGES = sorted(TUTORIALS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_a_tutorial_runs(page, tmp_path, monkeypatch):
    """Python blocks share one namespace; one that begins with a file's name is that file."""
    monkeypatch.chdir(tmp_path)
    assert execute(page) >= 5


def execute(page: Path) -> int:
    """Run a page in this folder: how many blocks did something."""
    namespace: dict[str, object] = {"__name__": "tutorial"}
    ran = 0
    for language, text in BLOCK.findall(page.read_text("utf-8")):
        named = FILE.match(text)
        if named:
            Path(named[1]).write_text(text, "utf-8")
        elif language == "python":
            exec(compile(text, f"{page.name}: {text.splitlines()[0]}", "exec"), namespace)
        elif language == "console":
            for line in text.splitlines():
                run(line)
        ran += language in ("python", "console")
    return ran


def run(line: str) -> None:
    words = shlex.split(line.removeprefix("$ "))
    assert words[0] == "elbowroom", f"only elbowroom is run here: {line}"
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
