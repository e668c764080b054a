"""``diffusers``: a folder with model, scheduler, pipeline and model card.

    DIR/
      model_index.json       the pipeline
      unet/ or model/        config.json, diffusion_pytorch_model.safetensors
      scheduler/             scheduler_config.json
      README.md              the model card

Weights are safetensors, everything else is text, and no code from the folder is executed. A
Gaussian U-Net whose sampler has an equivalent in diffusers is written in diffusers' classes
(``native.py``) and needs nothing else; loading any other model needs elbowroom and the plugins that
supplied its components.
"""

from __future__ import annotations

import json
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

    ``native: true`` raises an error for a model that needs elbowroom to be loaded; ``native:
    false`` always writes one that needs it, and whose seeds give the samples of the run.
    """

    native: bool | None = None  # None: if possible

    def write(self, run: Loaded, config: Config, folder: Path) -> None:
        require_package("diffusers", "export to diffusers", "diffusers")
        whole = attrs.evolve(
            config,
            schedule=config.schedule or natural_schedule(run.model.process),
            sampler=config.sampler or named_component("sampler", "ancestral", path="sampler"),
        )
        if self.native is False:
            self._write_ours(run, whole, folder, "native: false was set")
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
        _log.info("loads with diffusers only: DiffusionPipeline.from_pretrained")

    def push(self, folder: Path, repo: str) -> str:
        return push(folder, repo)

    def _write_ours(self, run: Loaded, whole: Config, folder: Path, why: str) -> None:
        """Write model and scheduler in elbowroom's own classes."""
        from .model import ElbowroomModel
        from .pipeline import ElbowroomPipeline
        from .scheduler import ElbowroomScheduler

        with trusting():  # as for the run
            model = ElbowroomModel(
                **self._arguments(whole, run, "process", "denoiser", "objective")
            )
            scheduler = ElbowroomScheduler(
                **self._arguments(whole, run, "process", "schedule", "sampler")
            )
        model.denoiser.load_state_dict(run.model.denoiser.state_dict())
        ElbowroomPipeline(model.eval(), scheduler).save_pretrained(folder)
        self._card(run, whole, folder, use_of_elbowroom(run, why))
        _log.info(
            "loading it needs elbowroom and diffusers: %s; load it with "
            "elbowroom.plugins.diffusers.export.ElbowroomPipeline.from_pretrained",
            why,
        )

    def _card(self, run: Loaded, whole: Config, folder: Path, use: list[str]) -> None:
        (folder / "README.md").write_text(model_card(run, whole, use), "utf-8")

    def _arguments(self, config: Config, run: Loaded, *names: str) -> dict[str, Any]:
        """The arguments of a part: sections of the config, their suppliers, the data's spec."""
        plain, suppliers = to_plain(config), provenance(config)["components"]
        plain["objective"] = {"path": plain["objective"]["path"]}  # the rest is for training
        for code in code_overrides(config):
            if ".py:" in code and code.partition(".")[0] in names:
                raise ElbowroomError(
                    f"{code}: a class in a file cannot be exported: put the class into a package "
                    "(elbowroom new-plugin)"
                )
        data = run.model.process.data
        return {
            "sections": {name: plain[name] for name in names},
            "owners": {
                path: owner
                for path, owner in suppliers.items()
                if path.partition(".")[0].partition("[")[0] in names
                and not path.startswith(("objective.times", "objective.normalise"))
            },
            "data": {
                name: value
                for name, value in json.loads(json.dumps(attrs.asdict(data))).items()
                if value is not None or name == "classes"
            },
        }
