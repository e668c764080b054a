"""The model card: what the model is, how to use it, what was measured, where it comes from."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

from elbowroom import Config, Loaded, dump_yaml, listed, provenance, read_evaluation, write_yaml


def model_card(run: Loaded, config: Config) -> str:
    """README.md, with the header that the hub reads."""
    data = run.model.process.data
    picture = len(data.shape) == 3
    header: dict[str, Any] = {
        "library_name": "diffusers",
        "tags": ["elbowroom", "diffusion", config.process.name],
    }
    if picture:
        header["pipeline_tag"] = "unconditional-image-generation"
    parameters = sum(p.numel() for p in run.model.denoiser.parameters())
    sampler = config.sampler.name if config.sampler else "ancestral"
    names = {
        "Data": f"{_words(config.data.name if config.data else '?')}: "
        f"{' × '.join(map(str, data.shape))} integers of {data.levels} levels"
        + (f", {data.classes} classes" if data.classes else "")
        + (f" ({_words(listed(data.names))})" if data.names else ""),
        "Process": _words(config.process.name),
        "Schedule": _words(config.schedule.name if config.schedule else "natural"),
        "Weighting": _words(config.weighting.name),
        "Network": f"{_words(config.denoiser.name if config.denoiser else '?')}, "
        f"{parameters:,} parameters",
        "Sampler": _words(sampler),
        "Weights": f"exponential moving average at step {run.checkpoint.step:,}",
    }
    labels = ", class_labels=0" if data.classes else ""
    return "\n".join(
        [
            "---",
            write_yaml(header).rstrip(),
            "---",
            "",
            f"# {_words(run.folder.path.resolve().name)}",
            "",
            "A diffusion model trained with elbowroom.",
            "",
            "| | |",
            "| --- | --- |",
            *(f"| {key} | {value} |" for key, value in names.items()),
            "",
            "## Use",
            "",
            "```python",
            "from elbowroom.plugins.diffusers.export import ElbowroomPipeline",
            "",
            'pipe = ElbowroomPipeline.from_pretrained("THIS FOLDER")',
            f"drawn = pipe(batch_size=4{labels}, seed=0)",
            "drawn.images[0].show()" if picture else "print(drawn.tokens)",
            "```",
            "",
            "The samples of a seed are those that `elbowroom sample` draws from the run.",
            "",
            "## Measurements",
            "",
            *_measurements(run),
            "",
            "## Config",
            "",
            *_fenced("yaml", dump_yaml(config).rstrip()),
            "",
            "## Provenance",
            "",
            *_provenance(config),
            "",
        ]
    )


def _measurements(run: Loaded) -> Iterator[str]:
    evaluation = read_evaluation(run.folder.path / "evaluation")
    if evaluation is not None and evaluation.get("step") == run.checkpoint.step:
        yield "| measurement | value | of |"
        yield "| --- | --- | --- |"
        for name, measurement in evaluation["figures"].items():
            yield f"| {_words(name)} | {_number(measurement)} | {_of(measurement.get('of', {}))} |"
        return
    validation = run.checkpoint.state.validation
    if not validation:
        yield "None measured yet: `elbowroom evaluate RUN` before exporting fills this in."
        return
    yield "| measurement | value |"
    yield "| --- | --- |"
    for name, value in validation.items():
        yield f"| {_words(name)} | {_number({'value': value})} |"


def _number(measurement: Mapping[str, Any]) -> str:
    value, error = measurement.get("value"), measurement.get("standard_error")
    if not isinstance(value, int | float):
        return "-"
    return f"{value:.6g}" + (f" ± {error:.2g}" if isinstance(error, int | float) else "")


def _of(protocol: Mapping[str, Any]) -> str:
    return _words(", ".join(f"{key}: {value}" for key, value in protocol.items()))


def _provenance(config: Config) -> Iterator[str]:
    record = provenance(config)
    yield "| component | supplied by |"
    yield "| --- | --- |"
    for path, owner in record["components"].items():
        said = " ".join(str(owner[key]) for key in ("distribution", "version") if key in owner)
        yield f"| {_words(path)} | {_words(said or 'a file of the author')} |"
    for name, version in record["versions"].items():
        yield f"| {name} | {version} |"


def _words(text: Any) -> str:
    """A text in one line that is neither markup nor Markdown, whoever chose it."""
    plain = html.escape(" ".join(str(text).split()))
    return re.sub(r"[|`*\[\]!\\~#]", lambda sign: f"&#{ord(sign[0])};", plain)


def _fenced(language: str, text: str) -> Iterator[str]:
    """A block of code that no line inside can end."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}{language}", text, fence)
