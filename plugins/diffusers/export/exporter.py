"""``diffusers``: a folder with model, scheduler, pipeline and model card.

    DIR/
      model_index.json       the pipeline
      model/                 config.json, diffusion_pytorch_model.safetensors
      scheduler/             scheduler_config.json
      README.md              the model card

Weights are safetensors, everything else is text; loading it needs elbowroom and the plugins that
supplied the components, and executes no code out of the folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from elbowroom import (
    Config,
    Exporter,
    Loaded,
    named_component,
    natural_schedule,
    provenance,
    to_plain,
)

from .card import model_card
from .model import ElbowroomModel
from .pipeline import ElbowroomPipeline
from .scheduler import ElbowroomScheduler
from .sections import trusting


class DiffusersExporter(Exporter):
    """A folder that ``ElbowroomPipeline.from_pretrained`` loads."""

    def write(self, run: Loaded, config: Config, folder: Path) -> None:
        whole = attrs.evolve(
            config,
            schedule=config.schedule or natural_schedule(run.model.process),
            sampler=config.sampler or named_component("sampler", "ancestral", path="sampler"),
        )
        with trusting():  # the run was vetted when it was loaded
            model = ElbowroomModel(**self._said(whole, run, "process", "denoiser"))
            scheduler = ElbowroomScheduler(
                **self._said(whole, run, "process", "schedule", "sampler")
            )
        model.denoiser.load_state_dict(run.model.denoiser.state_dict())
        ElbowroomPipeline(model.eval(), scheduler).save_pretrained(folder)
        (folder / "README.md").write_text(model_card(run, whole), "utf-8")

    def _said(self, config: Config, run: Loaded, *names: str) -> dict[str, Any]:
        """What a part needs to be made again."""
        plain, suppliers = to_plain(config), provenance(config)["components"]
        data = run.model.process.data
        return {
            "sections": {name: plain[name] for name in names},
            "owners": {
                path: owner
                for path, owner in suppliers.items()
                if path.partition(".")[0].partition("[")[0] in names
            },
            "data": {
                "shape": list(data.shape),
                "levels": data.levels,
                "classes": data.classes,
                **({} if data.names is None else {"names": list(data.names)}),
            },
        }
