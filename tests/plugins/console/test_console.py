"""The console shows how a run goes."""

from __future__ import annotations

import io

import attrs
import pytest
from elbowroom import RunEvent
from elbowroom.plugins import console as plugin
from elbowroom.plugins.console import progress
from rich.console import Console


def observe(folder, terminal):
    begin = RunEvent(folder, 0, 100, {})
    if terminal is None:
        plugin.run_started(begin)
    else:
        progress.start(begin, terminal)
    scalars = {"loss": 12.345, "bits_per_dim": 2.5, "images_per_second": 640.0}
    plugin.step_logged(attrs.evolve(begin, step=50, scalars=scalars))
    plugin.evaluated(attrs.evolve(begin, step=50, scalars={"validation/bits_per_dim": 2.25}))
    plugin.checkpoint_saved(attrs.evolve(begin, step=50, path=folder / "step-000000050"))
    plugin.run_ended(attrs.evolve(begin, step=50, reason="interrupted"))


def test_without_a_terminal_there_are_plain_lines_on_standard_error(tmp_path, capsys):
    """Loss, bits/dim, images/s and ETA; at the end how to go on. Standard output stays free."""
    observe(tmp_path, None)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    lines = err.splitlines()
    assert lines[0] == f"training in {tmp_path}"
    assert lines[1].startswith("step 50/100  loss 12.35  bits/dim 2.500  640 images/s  ETA 0:00:0")
    assert "validation 2.250" in lines[2]
    assert lines[3] == f"saved {tmp_path}/step-000000050"
    assert lines[-2] == "interrupted at step 50 of 100"
    assert lines[-1] == f"go on with: elbowroom train --resume {tmp_path}"


def test_on_a_terminal_there_is_a_bar(tmp_path):
    """The same words beside it, and brackets in a path are no markup."""
    screen = io.StringIO()
    folder = tmp_path / "[bold]run"
    observe(folder, Console(file=screen, force_terminal=True, width=160))
    shown = screen.getvalue()
    assert "50/100" in shown
    assert "bits/dim 2.500" in shown
    assert "640 images/s" in shown
    assert "[bold]run" in shown
    assert "go on with" in shown


@pytest.mark.parametrize("hook", ["step_logged", "evaluated", "checkpoint_saved", "run_ended"])
def test_events_without_a_start_are_ignored(tmp_path, capsys, hook):
    """An observer loaded half way says nothing."""
    getattr(plugin, hook)(RunEvent(tmp_path, 1, 4, {}, {"loss": 1.0}))
    assert capsys.readouterr() == ("", "")
