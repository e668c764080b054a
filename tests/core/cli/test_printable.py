"""No control character of a run, a config or a path reaches a terminal."""

from __future__ import annotations

import json
import logging
import shutil
import unicodedata
import warnings

import pytest
from elbowroom.cli import console, printable, set_up_logging, table
from elbowroom.plugins.training.run import train

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import tiny_config

NASTY = "a\x1b[31mred\x1b]0;title\x07 \x9b1m \u202egnp.exe \u2028 \r b"


def is_safe(text: str) -> bool:
    kinds = {unicodedata.category(letter) for letter in text if letter not in "\n\t"}
    return not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "run"
    train(tiny_config(steps=2, save_every=2), out, without=["console"])
    return out


def test_every_way_to_write_is_safe(capsys):
    """Console, tables, logging and warnings; ordinary text and lines stay as they are."""
    from rich.text import Text

    console().print(NASTY, markup=False)
    console(stderr=True).print(Text(NASTY))
    listing = table("title", "name")
    listing.add_row(NASTY)
    console().print(listing)
    set_up_logging()
    logging.getLogger("elbowroom.test").warning(NASTY)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning(UserWarning(NASTY), UserWarning, "file", 1)
    said = capsys.readouterr()
    assert is_safe(said.out + said.err)
    assert "\\x1b[31mred" in said.out
    assert printable("λ → 漢字 é\n\tb") == "λ → 漢字 é\n\tb"


@pytest.mark.parametrize(
    "words",
    [
        ("sample", "RUN", "--count", 1),
        ("evaluate", "RUN", "--metric", "bpd", "--samples", 2),
        ("evaluate", "RUN", "--metric", "bpd", "--samples", 2, "--json"),
        ("sample", "RUN", f"denoiser={NASTY}"),
        ("sample", "RUN", f"denoiser=./{NASTY}.py:Net"),
        ("train", NASTY),
        ("plugins", "--requirements", "RUN"),
        ("export", "RUN", "OUT"),
    ],
    ids=lambda words: "-".join(map(str, words[:2])).encode("unicode_escape").decode(),
)
def test_no_command_writes_control_characters(run, tmp_path, words):
    """Of a folder's name, of provenance, of a name that is wrong."""
    folder = tmp_path / NASTY
    shutil.copytree(run, folder)
    record = json.loads((folder / "provenance.json").read_text())
    record["components"]["weighting"] = {"path": NASTY}
    (folder / "provenance.json").write_text(json.dumps(record))
    named = {"RUN": folder, "OUT": tmp_path / f"{NASTY}-out"}
    ran = elbowroom(*(named.get(word, word) for word in words))
    assert is_safe(ran.out + ran.err)
    assert ran.out + ran.err


@pytest.mark.parametrize(
    "owner",
    [
        {"distribution": "--extra-index-url http://evil x", "version": "1"},
        {"distribution": "a\n--index-url http://evil", "version": "1"},
        {"distribution": "a", "version": "1'; touch PWN; '"},
        {"distribution": ["a"], "version": {"b": 1}},
    ],
)
def test_provenance_becomes_no_option_of_pip(run, tmp_path, owner):
    """A requirements.txt of a stranger's run has requirements and remarks only."""
    shutil.copytree(run, tmp_path / "run")
    record = json.loads((run / "provenance.json").read_text())
    record["components"]["weighting"] = owner
    (tmp_path / "run" / "provenance.json").write_text(json.dumps(record))
    lines = elbowroom("plugins", "--requirements", tmp_path / "run").out.splitlines()
    assert all(line.startswith("#") or "==" in line for line in lines)
    assert not any("evil" in line or "PWN" in line for line in lines)
