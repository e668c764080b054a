"""Kinds of component.

Core has the kinds of the parts of a model, and those that extend elbowroom (data sets, config
sections, commands). A plugin adds kinds by the hook ``kinds``; they appear in ``plugins``,
``schema``, ``new-plugin`` and the conformance kit.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Kind:
    """A kind of component.

    Args:
        name: In configs and messages, e.g. ``time_sampler``.
        hook: The registering hook, e.g. ``time_samplers``.
        contract: ``"module:Class"``, the base of its components or a protocol of functions.
        meaning: One line.
        is_class: Whether components are classes (else functions).
        also: ``"module:Class"`` of another library whose subclasses are accepted.
        laws: ``"module:function"`` that checks a component against the contract.
        template: ``"package:folder"`` with the files of ``new-plugin``.
    """

    name: str
    hook: str
    contract: str
    meaning: str
    is_class: bool = True
    also: str = ""
    laws: str = ""
    template: str = ""

    @property
    def words(self) -> str:
        """The name in a sentence: ``time sampler``."""
        return self.name.replace("_", " ")

    @property
    def plural(self) -> str:
        """The plural in a sentence: ``time samplers``."""
        return self.hook.replace("_", " ")


_C = "elbowroom.contracts"

CORE = (
    Kind("process", "processes", f"{_C}.process:Process", "Noise processes"),
    Kind("schedule", "schedules", f"{_C}.schedule:Schedule", "Log-SNR schedules"),
    Kind("weighting", "weightings", f"{_C}.weighting:Weighting", "Weightings of the objective"),
    Kind("denoiser", "denoisers", f"{_C}.denoiser:Denoiser", "Networks", also="torch.nn:Module"),
    Kind("sampler", "samplers", f"{_C}.sampler:Sampler", "Samplers of the reverse process"),
    Kind(
        "time_sampler",
        "time_samplers",
        f"{_C}.time_sampler:TimeSampler",
        "Distributions of training times",
    ),
    Kind("path", "paths", f"{_C}.path:Path", "Times of the positions along the diffusion"),
    Kind("normaliser", "normalisers", f"{_C}.normaliser:Normaliser", "Reductions of a batch loss"),
    Kind("grid", "grids", f"{_C}.grid:Grid", "Time grids of samplers"),
    Kind("guidance", "guidances", f"{_C}.guidance:Guidance", "Guidance methods"),
    Kind("dataset", "datasets", f"{_C}.dataset:Dataset", "Data sets"),
    Kind("section", "sections", f"{_C}.section:Section", "Sections of the config"),
    Kind("command", "commands", f"{_C}.command:Command", "Commands", is_class=False),
)

KINDS: dict[str, Kind] = {row.name: row for row in CORE}
"""Kind -> its row: those of core, and those of the plugins loaded in this process."""
