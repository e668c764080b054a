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
    plugin.checkpoint_saved(
        attrs.evolve(begin, step=50, path=folder / "checkpoints/step-000000050")
    )
    plugin.run_ended(attrs.evolve(begin, step=50, reason="interrupted"))


def test_without_a_terminal_there_are_plain_lines_on_standard_error(tmp_path, capsys):
    """Each thing once: loss, bits/dim, speed and ETA, then validation, what was saved, the end.

    Standard output stays free.
    """
    observe(tmp_path, None)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    lines = err.splitlines()
    assert lines[0] == f"training in {tmp_path}"
    assert lines[1].startswith(
        "step 50/100  loss 12.35  bits/dim 2.500  640 examples/s  ETA 0:00:0"
    )
    assert lines[2].startswith("step 50/100  validation 2.250  ETA 0:00:0")
    assert lines[3] == "saved checkpoints/step-000000050"
    assert lines[4:] == ["interrupted at step 50 of 100"]


def test_a_last_line_ends_with_its_last_word(tmp_path, capsys):
    """Where no time is left, there are no blanks in its place."""
    begin = RunEvent(tmp_path, 0, 4, {})
    plugin.run_started(begin)
    plugin.step_logged(attrs.evolve(begin, step=4, scalars={"loss": 2.0}))
    plugin.run_ended(attrs.evolve(begin, step=4, reason="finished"))
    assert "step 4/4  loss 2\n" in capsys.readouterr().err


def test_on_a_terminal_there_is_a_bar(tmp_path):
    """The same words beside it, and brackets in a path are no markup."""
    screen = io.StringIO()
    folder = tmp_path / "[bold]run"
    observe(folder, Console(file=screen, force_terminal=True, width=160))
    shown = screen.getvalue()
    assert "50/100" in shown
    assert "bits/dim 2.500" in shown
    assert "640 examples/s" in shown
    assert "bits/dim 2.500  validation 2.250  640 examples/s" in shown  # it keeps what it knows
    assert "[bold]run" in shown


@pytest.mark.parametrize("hook", ["step_logged", "evaluated", "checkpoint_saved", "run_ended"])
def test_events_without_a_start_are_ignored(tmp_path, capsys, hook):
    """An observer loaded half way says nothing."""
    getattr(plugin, hook)(RunEvent(tmp_path, 1, 4, {}, {"loss": 1.0}))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_run_says_how_long_it_will_take(tmp_path, capsys, device):
    """Once, after its first steps; a CPU is warned of where that is more than a day."""
    now = [0.0]
    begin = RunEvent(tmp_path, 0, 100_000, {}, device=device)
    progress.start(begin, Console(file=io.StringIO()), clock=lambda: now[0])
    for step, seconds in ((1, 3.0), (2, 5.0), (3, 7.0)):
        now[0] = seconds
        plugin.progressed(attrs.evolve(begin, step=step))
    plugin.run_ended(attrs.evolve(begin, step=3, reason="interrupted"))
    told = capsys.readouterr().err
    assert told.count("2 s per step, 2 days 7:33:16 remaining") == 1
    assert ("more than a day on this CPU" in told) == (device == "cpu")


def test_a_long_first_step_is_enough_to_tell(tmp_path, capsys):
    """Nobody waits for a second one."""
    now = [0.0]
    begin = RunEvent(tmp_path, 0, 11, {})
    progress.start(begin, Console(file=io.StringIO()), clock=lambda: now[0])
    now[0] = 40.0
    plugin.progressed(attrs.evolve(begin, step=1))
    plugin.run_ended(attrs.evolve(begin, step=1, reason="interrupted"))
    told = capsys.readouterr().err
    assert "training, step 1/11, 0:00:40 so far, 0:06:40 to go" in told
    assert "40 s per step, 0:06:40 remaining" in told


def test_a_bar_moves_between_logs(tmp_path):
    """By the step and by what is being done."""
    screen = io.StringIO()
    begin = RunEvent(tmp_path, 0, 100, {})
    progress.start(begin, Console(file=screen, force_terminal=True, width=160))
    plugin.progressed(attrs.evolve(begin, step=7, doing="validating"))
    plugin.run_ended(attrs.evolve(begin, step=7, reason="finished"))
    assert "7/100" in screen.getvalue() and "validating" in screen.getvalue()
