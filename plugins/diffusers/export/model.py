"""The network as a model of diffusers: config.json and safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from diffusers.utils.outputs import BaseOutput
from elbowroom import Path, Process
from elbowroom.config import network_signature
from torch import Tensor

from .sections import Sections, bound_process, read_sections, reading


@dataclass
class ElbowroomOutput(BaseOutput):
    """The network's output: [B, *D], or logits [B, *D, V]."""

    sample: Tensor


class ElbowroomModel(ModelMixin, ConfigMixin):  # type: ignore[misc]  # their bases differ
    """A denoiser of elbowroom.

    ``sections`` are ``process`` and ``denoiser`` of a config, ``owners`` their suppliers, ``data``
    the data's spec.
    """

    @register_to_config  # type: ignore[untyped-decorator]  # diffusers has no types
    def __init__(
        self, sections: Sections, owners: Mapping[str, Mapping[str, str]], data: Mapping[str, Any]
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # diffusers' own
        config = read_sections(sections, owners)
        assert config.denoiser is not None, "a model has a network"
        self.process: Process = bound_process(config, data)
        self.path: Path = config.objective.path.build().prepare(self.process.data)
        self.denoiser = config.denoiser.build(network_signature(config, self.process))

    @classmethod
    def from_pretrained(cls, *arguments: Any, trust: bool = False, **options: Any) -> Any:
        """As diffusers, but only safetensors, and not on the meta device.

        ``trust`` allows running code that the folder names.
        """
        options = {**options, "low_cpu_mem_usage": False, "use_safetensors": True}
        with reading(trust):
            return super().from_pretrained(*arguments, **options)

    def forward(
        self,
        sample: Tensor,
        log_snr: Tensor | None = None,
        class_labels: Tensor | None = None,
        return_dict: bool = True,
    ) -> ElbowroomOutput | tuple[Tensor]:
        """The output for z [B, *D] at lambda [B], an input of ``ElbowroomScheduler.step``."""
        output = self.denoiser(sample, log_snr, class_labels)
        return ElbowroomOutput(sample=output) if return_dict else (output,)
