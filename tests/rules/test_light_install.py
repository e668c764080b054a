"""What works with the base install, and how errors name the extra that is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

OPTIONAL = ("diffusers", "matplotlib", "tensorboard", "torchmetrics")
"""Packages of extras that the test environment has and the base install has not."""
TOTAL_VARIATION = "{name: torchmetrics, metric: torchmetrics.image.TotalVariation}"
SMALL = ["digits", "train.steps=2", "train.batch_size=8", "denoiser.channels=8"]
SMALL += ["train.evaluate_every=2", "sampler.steps=2"]


def run_without(packages, code, folder):
    """The finished process of ``code`` in which these packages cannot be found."""
    block = f"import sys; sys.modules.update(dict.fromkeys({list(packages)!r}))\n"
    command = [sys.executable, "-c", block + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def cli(*arguments):
    return f"from elbowroom.cli import main; sys.argv = {['elbowroom', *arguments]!r}; main()"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was trained without any optional package."""
    folder = tmp_path_factory.mktemp("light")
    done = run_without(OPTIONAL, cli("train", *SMALL, "--out", "run"), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run"


def test_training_writes_no_tensorboard_logs_without_it(run):
    """A run is complete without the folder of event files."""
    assert (run / "config.yaml").exists()
    assert not (run / "tensorboard").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("plugins",),
        ("doctor",),
        ("presets",),
        ("explain", "digits"),
        ("weighting", "edm", "--process", "masked", "--project"),
        ("sample", "RUN", "--out", "samples"),
        ("evaluate", "RUN", "--metric", "kid", "--samples", "16"),
    ],
    ids=lambda command: command[0],
)
def test_commands_work_without_optional_packages(run, command):
    """Each command of the README's first screen, with no extra installed."""
    arguments = [str(run) if word == "RUN" else word for word in command]
    done = run_without(OPTIONAL, cli(*arguments), run.parent)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_comparing_works_without_optional_packages(tmp_path):
    """The report is written, without the plots that matplotlib draws."""
    options = ["--vary", "process=gaussian,masked", "--samples", "16", "--jobs", "1"]
    compare = cli("compare", *SMALL, *options, "--out", "out")
    done = run_without(OPTIONAL, compare, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("package", "extra", "command"),
    [
        ("diffusers", "diffusers", ("train", "digits", "denoiser=unet", "--out", "out")),
        ("diffusers", "diffusers", ("export", "RUN", "--to", "diffusers", "exported")),
        ("matplotlib", "plots", ("figures", "--out", "figures")),
        (
            "torchmetrics",
            "torchmetrics",
            ("evaluate", "RUN", "--metric", TOTAL_VARIATION),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_the_error_names_the_extra(run, package, extra, command):
    """A command that needs a missing package says what to install, without a traceback."""
    arguments = [str(run) if word == "RUN" else word for word in command]
    done = run_without([package], cli(*arguments), run.parent)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said
    assert f"package {package}: pip install 'elbowroom[{extra}]'" in said
    assert "Traceback" not in said
