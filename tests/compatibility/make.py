"""Makes the fixtures of one version, with that version's own command and nothing else.

    python -m tests.compatibility.make ELBOWROOM FOLDER

ELBOWROOM is the installed command (``.venv/bin/elbowroom``). FOLDER gets runs that were asked to
stop half-way, what that version drew, measured and reached from them, an export, a finished
comparison and two scaffolded plugins: all that a later version must be able to go on with. Once
committed, a folder is never made again.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy

NETWORK = {"name": "uvit", "width": 8, "depth": 1, "heads": 1, "channels": 4, "dropout": 0.1}
TRAIN = {
    "steps": 16,
    "batch_size": 8,
    "warmup": 2,
    "log_every": 4,
    "save_every": 100,
    "keep": 1,
    "evaluate_every": None,
    "ema": 0.9,
}
RUNS: dict[str, dict[str, Any]] = {
    "masked": {
        "data": {"name": "digits", "levels": 8},
        "process": "masked",
        "weighting": "sigmoid",
        "denoiser": NETWORK,
        "sampler": {"name": "ancestral", "steps": 8},
        "train": TRAIN,
        "seed": 3,
    },
    "gaussian": {
        "data": {"name": "digits", "levels": 8},
        "process": "gaussian",
        "weighting": {"name": "isotonic", "of": "edm"},
        "denoiser": NETWORK | {"null_class": True},
        "sampler": {"name": "heun", "steps": 8, "guidance": 2.0},
        "train": TRAIN | {"label_dropout": 0.2, "milestones": [12]},
        "seed": 4,
    },
}
KINDS = ("weighting", "process")
COMPARED = {
    "data": {"name": "digits", "size": 4, "levels": 5, "limit": 64},
    "process": "masked",
    "denoiser": {"name": "dit", "width": 8, "depth": 1, "heads": 1, "patch": 2},
    "sampler": {"name": "ancestral", "steps": 4},
    "train": TRAIN | {"steps": 2},
}
COMPARE = ("compare", "comparison.yaml", "--vary", "weighting=elbo", "--metric", "bpd")
COMPARE += ("--samples", "8", "--out", "comparison", "--device", "cpu")


def main(command: str, folder: Path) -> None:
    """Everything, in a new folder."""
    folder.mkdir(parents=True)
    for name, config in RUNS.items():
        written = _config(folder / f"{name}.yaml", config)
        _stopped(command, written, folder / name)
        shutil.copytree(folder / name, at_end := folder / f"{name}-at-end")
        _run(command, "train", "--resume", at_end, "--device", "cpu", "--without", "tensorboard")
        expected = folder / "expected" / name
        _expect(command, folder / name, expected)
        (final,) = (at_end / "checkpoints").glob(f"step-*{TRAIN['steps']}")
        shutil.copy(final / "ema.safetensors", expected / "ema.safetensors")
        shutil.copy(at_end / "log.jsonl", expected / "log.jsonl")
        shutil.rmtree(at_end)
    _run(command, "export", folder / "gaussian", folder / "export")
    _config(folder / "comparison.yaml", COMPARED)
    _run(command, *COMPARE, at=folder)
    for kind in KINDS:
        _run(command, "new-plugin", f"old-{kind}", "--kind", kind, "--out", "plugins", at=folder)
    for needless in ("LICENSE", ".git*", ".lock", "jobs", "tensorboard", "report.html", "*.csv"):
        for path in folder.rglob(needless):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _config(file: Path, config: dict[str, Any]) -> Path:
    file.write_text(json.dumps(config, indent=1) + "\n", "utf-8")  # JSON is YAML
    return file


def _stopped(command: str, config: Path, out: Path) -> None:
    """A run that is told to stop once it has logged, and saves itself."""
    job = subprocess.Popen(
        [command, "train", config, "--out", out, "--device", "cpu", "--without", "tensorboard"]
    )
    while not (out / "log.jsonl").exists() or not (out / "log.jsonl").read_text("utf-8"):
        time.sleep(0.01)
    job.send_signal(signal.SIGTERM)
    assert job.wait() == 75, "the run ended before it could be stopped: more steps"


def _expect(command: str, run: Path, expected: Path) -> None:
    """What this version draws and measures."""
    drawn, measured = expected / "samples", expected / "evaluation"
    _run(command, "sample", run, "--count", "6", "--seed", "7", "--out", drawn, "--device", "cpu")
    (written,) = drawn.glob("*.npz")
    samples = {name: array.tolist() for name, array in numpy.load(written).items()}
    (expected / "samples.json").write_text(json.dumps(samples) + "\n", "utf-8")
    options = ("--metric", "bpd", "--samples", "8", "--out", measured, "--device", "cpu")
    _run(command, "evaluate", run, *options)
    shutil.copy(measured / "figures.json", expected / "figures.json")
    shutil.rmtree(drawn)
    shutil.rmtree(measured)


def _run(command: str, *words: str | Path, at: Path | None = None) -> None:
    subprocess.run([command, *map(str, words)], check=True, cwd=at)


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).absolute()), Path(sys.argv[2]).absolute())
