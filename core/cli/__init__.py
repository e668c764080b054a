"""The command line: parse, call, print. One file a command; what they do lives elsewhere.

Nothing heavy is imported until a command runs, so that ``--help`` and ``plugins`` answer at once.
What stands here is for authors of commands: options that read the same everywhere, and ways to
answer.
"""

from __future__ import annotations

from .app import app
from .main import main
from .options import (
    JSON,
    Changes,
    Checkpoint,
    Config,
    Device,
    Devices,
    Features,
    Measure,
    Metrics,
    Overrides,
    Precision,
    Reference,
    Run,
    Samples,
    Seed,
    Tflops,
    Trust,
    Utilisation,
)
from .output import (
    complain,
    console,
    in_detail,
    listen,
    number,
    print_json,
    progress_bars,
    progress_display,
    table,
)
from .pace import Lines, Pace, duration

__all__ = [
    "JSON",
    "Changes",
    "Checkpoint",
    "Config",
    "Device",
    "Devices",
    "Features",
    "Lines",
    "Measure",
    "Metrics",
    "Overrides",
    "Pace",
    "Precision",
    "Reference",
    "Run",
    "Samples",
    "Seed",
    "Tflops",
    "Trust",
    "Utilisation",
    "app",
    "complain",
    "console",
    "duration",
    "in_detail",
    "listen",
    "main",
    "number",
    "print_json",
    "progress_bars",
    "progress_display",
    "table",
]
