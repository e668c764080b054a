"""Run the code blocks of a page of the docs, at sizes a test can wait for.

Blocks run from top to bottom in the current folder:

- ``python``: executed; all blocks of a page share one namespace. A block whose first line is
  ``# name.py`` is written to that file instead.
- ``yaml``: a block whose first line is ``# name.yaml`` is written to that file; others are read.
- ``console``: lines ``$ elbowroom ...`` run in this process, with sizes made small. A folder
  ``runs/NAME`` that does not exist is a copy of a tiny run, a Gaussian one if its name says so.

A comment ``<!-- not run: reason -->`` above a block has its commands parsed only.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import yaml

from tests.helpers.command import elbowroom

_BLOCK = re.compile(
    r"(?P<skip>^ *<!-- not run: [^>]+-->\n\s*)?^ *```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# ([\w./-]+\.(?:py|yaml))\b")
_SIZES = {"width": 32, "depth": 1, "channels": 32}
_SMALLER: dict[str, tuple[str, ...]] = {
    "sample": ("--count", "2"),
    "evaluate": ("--samples", "8"),
    "compare": ("--dry-run",),
    "bench": ("--rounds", "1", "--samples", "2", "--no-samplers", "train.batch_size=8"),
}


def blocks(page: Path) -> Iterator[tuple[str, str, bool]]:
    """(language, text, whether it is run) of each code block."""
    for found in _BLOCK.finditer(page.read_text("utf-8")):
        yield found["language"], found["text"], found["skip"] is None


def commands(text: str) -> list[list[str]]:
    """The ``elbowroom`` commands of a console block, split into words."""
    joined = text.replace("\\\n", " ")
    lines = [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
    lines = [line.partition(" elbowroom ")[2] if "torchrun" in line else line for line in lines]
    return [
        shlex.split(line.removeprefix("elbowroom "), comments=True)
        for line in lines
        if line.startswith("elbowroom ") or (line and not re.match(r"[\w./]+ ", line))
    ]


def run_page(page: Path) -> int:
    """Run a page in this folder: the number of blocks that ran."""
    names: dict[str, Any] = {"__name__": "example"}
    ran = 0
    for language, text, is_run in blocks(page):
        named = _FILE.match(text)
        if named:
            Path(named[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(named[1]).write_text(text, "utf-8")
        elif language == "python" and is_run:
            exec(compile(text, f"{page.name}: {text.splitlines()[0]}", "exec"), names)
        elif language == "python":
            compile(text, page.name, "exec")
        elif language == "yaml":
            yaml.safe_load(text)
        elif language == "console":
            for command in commands(text):
                run_small(command) if is_run else parse(command)
        ran += language in ("python", "console")
    return ran


def run_small(command: Sequence[str]) -> None:
    """Run ``elbowroom COMMAND`` with small sizes."""
    name, *rest = command
    if ">" in rest:
        rest = rest[: rest.index(">")]
    for word in rest:
        if word.startswith("data.") or name not in ("train", "compare") or "--resume" in rest:
            _provide(word)
    more = _smaller_training(rest) if name == "train" else _SMALLER.get(name, ())
    ran = elbowroom(name, *rest, *more)
    assert ran.code == 0, f"elbowroom {shlex.join([name, *rest, *more])}: {ran.err or ran.out}"


def parse(command: Sequence[str]) -> None:
    """Check that the command line understands a command."""
    import typer
    from elbowroom.cli import app

    group = typer.main.get_command(app)
    name, *rest = command
    found = group.get_command(group.make_context("elbowroom", [name]), name)
    assert found is not None, f"there is no command {name}"
    found.make_context(name, [word for word in rest if word != ">"])


def _smaller_training(words: Sequence[str]) -> list[str]:
    """Changes that make a training small, for the denoiser that the config has."""
    if "--resume" in words:
        return [] if any(word.startswith("train.steps=") for word in words) else ["train.steps=4"]
    config = next(word for word in words if not word.startswith("-"))
    changes = [word for word in words[1:] if "=" in word and not word.startswith("-")]
    denoiser = elbowroom("explain", config, *changes, "--json").json["config"]["denoiser"]
    small = [f"denoiser.{size}={value}" for size, value in _SIZES.items() if size in denoiser]
    steps = ["train.steps=2", "train.batch_size=8", "train.evaluate_every=2", "sampler.steps=4"]
    return steps + small


def _provide(word: str) -> None:
    """Put a tiny run where a page takes one for granted."""
    if word == "data.path=DIR" and not Path("DIR").exists():
        _images(Path("DIR"))
    path = Path(word)
    if path.parts[:1] == ("runs",) and len(path.parts) == 2 and not path.exists():
        shutil.copytree(_tiny_run("gaussian" if "gaussian" in word else "masked"), path)


def _images(folder: Path) -> None:
    """A folder of small images of two classes."""
    import numpy
    from PIL import Image

    for kind in ("cat", "dog"):
        (folder / kind).mkdir(parents=True)
        for number in range(12):
            pixels = numpy.random.default_rng(number).integers(256, size=(32, 32, 3), dtype="uint8")
            Image.fromarray(pixels).save(folder / kind / f"{number}.png")


@cache
def _tiny_run(process: str) -> Path:
    folder = Path(mkdtemp()) / process
    small = _smaller_training(["digits"])
    ran = elbowroom("train", "digits", f"process={process}", *small, "--out", folder)
    assert ran.code == 0, ran.err
    return folder
