"""``diffusers``: a folder with model, scheduler, pipeline and model card.

    DIR/
      model_index.json       the pipeline
      unet/ or model/        config.json, diffusion_pytorch_model.safetensors
      scheduler/             scheduler_config.json
      README.md              the model card

Weights are safetensors, everything else is text, and no code out of the folder is executed. A
Gaussian U-Net whose sampler diffusers knows is written in diffusers' own classes (``native.py``)
and needs nothing else; loading any other model needs elbowroom and the plugins that supplied its
components.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import attrs
from elbowroom import Config, ElbowroomError, named_component
from elbowroom.config import natural_schedule, to_plain
from elbowroom.errors import require_package
from elbowroom.plugins.export.exporter import Exporter
from elbowroom.registry import trusting
from elbowroom.runs import Loaded, code_overrides, provenance

from .card import model_card, use_of_elbowroom, use_of_native
from .hub import push
from .native import NotNativeError, native

_log = logging.getLogger(__name__)


@attrs.frozen
class DiffusersExporter(Exporter):
    """A folder that ``from_pretrained`` loads.

    With ``native: true`` a model that needs elbowroom where it is loaded is refused, with
    ``native: false`` each one is written that way, and draws the samples of its seeds.
    """

    native: bool | None = None  # None: where it can be

    def write(self, run: Loaded, config: Config, folder: Path) -> None:
        require_package("diffusers", "export to diffusers", "diffusers")
        whole = attrs.evolve(
            config,
            schedule=config.schedule or natural_schedule(run.model.process),
            sampler=config.sampler or named_component("sampler", "ancestral", path="sampler"),
        )
        if self.native is False:
            self._write_ours(run, whole, folder, "it was asked for")
            return
        try:
            made = native(run.model)
        except NotNativeError as error:
            if self.native:
                raise
            self._write_ours(run, whole, folder, str(error))
            return
        made.pipeline.save_pretrained(folder)
        self._card(run, whole, folder, use_of_native(run, made))
        _log.info("diffusers alone loads it: DiffusionPipeline.from_pretrained")

    def push(self, folder: Path, repo: str) -> str:
        return push(folder, repo)

    def _write_ours(self, run: Loaded, whole: Config, folder: Path, why: str) -> None:
        """Write model and scheduler in elbowroom's own classes."""
        from .model import ElbowroomModel
        from .pipeline import ElbowroomPipeline
        from .scheduler import ElbowroomScheduler

        with trusting():  # the run was loaded already
            model = ElbowroomModel(**self._said(whole, run, "process", "denoiser"))
            scheduler = ElbowroomScheduler(
                **self._said(whole, run, "process", "schedule", "sampler")
            )
        model.denoiser.load_state_dict(run.model.denoiser.state_dict())
        ElbowroomPipeline(model.eval(), scheduler).save_pretrained(folder)
        self._card(run, whole, folder, use_of_elbowroom(run, why))
        _log.info(
            "loading it needs elbowroom beside diffusers: %s; load it with "
            "elbowroom.plugins.diffusers.export.ElbowroomPipeline.from_pretrained",
            why,
        )

    def _card(self, run: Loaded, whole: Config, folder: Path, use: list[str]) -> None:
        (folder / "README.md").write_text(model_card(run, whole, use), "utf-8")

    def _said(self, config: Config, run: Loaded, *names: str) -> dict[str, Any]:
        """What a part needs to be made again."""
        plain, suppliers = to_plain(config), provenance(config)["components"]
        for code in code_overrides(config):
            if ".py:" in code and code.partition(".")[0] in names:
                raise ElbowroomError(
                    f"{code}: a file cannot be exported by its name: put the class into a package "
                    "(elbowroom new-plugin)"
                )
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
