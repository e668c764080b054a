"""The model card: description, usage, measurements and provenance."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from elbowroom import Config, dump_yaml
from elbowroom.config import write_yaml
from elbowroom.contracts import join_names
from elbowroom.plugins.evaluation.run import read_evaluation
from elbowroom.runs import Loaded, provenance

from .native import Native


def model_card(run: Loaded, config: Config, use: Iterable[str]) -> str:
    """README.md with the hub's header; ``use`` are the lines on usage."""
    data = run.model.process.data
    header: dict[str, Any] = {
        "library_name": "diffusers",
        "tags": ["elbowroom", "diffusion", config.process.name],
    }
    if len(data.shape) == 3:
        header["pipeline_tag"] = "unconditional-image-generation"
    parameters = sum(p.numel() for p in run.model.denoiser.parameters())
    sampler = config.sampler.name if config.sampler else "ancestral"
    names = {
        "Data": f"{_escaped(config.data.name if config.data else '?')}: "
        f"{' × '.join(map(str, data.shape))} integers of {data.levels} levels"
        + (f", {data.classes} classes" if data.classes else "")
        + (f" ({_escaped(join_names(data.names))})" if data.names else ""),
        "Process": _escaped(config.process.name),
        "Schedule": _escaped(config.schedule.name if config.schedule else "natural"),
        "Weighting": _escaped(config.weighting.name),
        "Network": f"{_escaped(config.denoiser.name if config.denoiser else '?')}, "
        f"{parameters:,} parameters",
        "Sampler": _escaped(sampler),
        "Weights": f"exponential moving average at step {run.checkpoint.step:,}",
    }
    return "\n".join(
        [
            "---",
            write_yaml(header).rstrip(),
            "---",
            "",
            f"# {_escaped(run.folder.path.resolve().name)}",
            "",
            "A diffusion model trained with elbowroom.",
            "",
            "| | |",
            "| --- | --- |",
            *(f"| {key} | {value} |" for key, value in names.items()),
            "",
            "## Use",
            "",
            *use,
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


def use_of_elbowroom(run: Loaded, why: str) -> list[str]:
    """Usage of a model that needs elbowroom, and the reason."""
    data = run.model.process.data
    labels = ", class_labels=0" if data.classes else ""
    return [
        f"Loading it needs elbowroom and diffusers: {_escaped(why)}. "
        "`DiffusionPipeline.from_pretrained` cannot load it: diffusers has no `ElbowroomPipeline`.",
        "",
        "```python",
        "from elbowroom.plugins.diffusers.export import ElbowroomPipeline",
        "",
        'pipe = ElbowroomPipeline.from_pretrained("THIS FOLDER")',
        f"drawn = pipe(batch_size=4{labels}, seed=0)",
        "drawn.images[0].show()" if len(data.shape) == 3 else "print(drawn.tokens)",
        "```",
        "",
        "The samples of a seed are those that `elbowroom sample` draws from the run.",
    ]


def use_of_native(run: Loaded, made: Native) -> list[str]:
    """Usage of a model that needs only diffusers, and how samples differ."""
    data = run.model.process.data
    labels = ", class_labels=[0, 0, 0, 0]" if data.classes else ""
    return [
        "It needs only diffusers.",
        "",
        "```python",
        "import torch",
        "from diffusers import DiffusionPipeline",
        "",
        'pipe = DiffusionPipeline.from_pretrained("THIS FOLDER")',
        f"drawn = pipe(batch_size=4{labels}, num_inference_steps={made.calls},",
        "             generator=torch.Generator().manual_seed(0))",
        "drawn.images[0].show()",
        "```",
        "",
        f"With {made.calls} steps it calls the network at the levels of the run's sampler. From "
        "the same noise a deterministic sampler gives the same images within float32; a seed gives "
        f"other noise than in elbowroom, and pixels are not rounded to the data's {data.levels} "
        "values.",
    ]


def _measurements(run: Loaded) -> Iterator[str]:
    evaluation = read_evaluation(run.folder.path / "evaluation")
    if evaluation is not None and evaluation.get("step") == run.checkpoint.step:
        yield "| measurement | value | of |"
        yield "| --- | --- | --- |"
        for name, measurement in evaluation["figures"].items():
            of = _of(measurement.get("of", {}))
            yield f"| {_escaped(name)} | {_number(measurement)} | {of} |"
        return
    validation = run.checkpoint.state.validation
    if not validation:
        yield "None. Run `elbowroom evaluate RUN` before exporting."
        return
    yield "| measurement | value |"
    yield "| --- | --- |"
    for name, value in validation.items():
        yield f"| {_escaped(name)} | {_number({'value': value})} |"


def _number(measurement: Mapping[str, Any]) -> str:
    value, error = measurement.get("value"), measurement.get("standard_error")
    if not isinstance(value, int | float):
        return "-"
    return f"{value:.6g}" + (f" ± {error:.2g}" if isinstance(error, int | float) else "")


def _of(protocol: Mapping[str, Any]) -> str:
    return _escaped(", ".join(f"{key}: {value}" for key, value in protocol.items()))


def _provenance(config: Config) -> Iterator[str]:
    record = provenance(config)
    yield "| component | supplied by |"
    yield "| --- | --- |"
    for path, owner in record["components"].items():
        supplier = " ".join(str(owner[key]) for key in ("distribution", "version") if key in owner)
        yield f"| {_escaped(path)} | {_escaped(supplier or 'a file of the author')} |"
    for name, version in record["versions"].items():
        yield f"| {name} | {version} |"


def _escaped(text: Any) -> str:
    """A text on one line, with HTML and Markdown escaped."""
    plain = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"[|`*\[\]!\\~#]", lambda sign: f"&#{ord(sign[0])};", plain)


def _fenced(language: str, text: str) -> Iterator[str]:
    """A code block with a fence longer than any inside."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}{language}", text, fence)
