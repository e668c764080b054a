"""Drawing from a categorical distribution without losing its tail.

The value is where the CDF of the softmax reaches a uniform u, computed in float64. In float32 the
largest Gumbel number, or the last bits of a cumulative sum, are cut off silently: rare values
never come and the samples are sharper than the model, the more so the larger the vocabulary
(Zheng et al. 2024, "Masked diffusion models are secretly time-agnostic masked models").

Logits of minus infinity exclude a value. NaN, plus infinity, or minus infinity everywhere are not a
distribution: an error on a CPU. On an accelerator the check would synchronise with the device, so
:class:`elbowroom.contracts.trajectory.Trajectory` detects them there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ElbowroomError

if TYPE_CHECKING:
    from torch import Tensor


def draw_categorical(logits: Tensor, u: Tensor) -> Tensor:
    """Draw from softmax(logits): the value at which its CDF reaches u.

    Args:
        logits: [..., V].
        u: [...] uniforms in (0, 1).

    Returns:
        [...] int64.
    """
    import torch

    cdf = logits.double().softmax(-1).cumsum(-1)
    whole = cdf[..., -1]  # 1, or NaN
    if whole.device.type == "cpu" and bool(whole.isnan().any()):
        raise ElbowroomError(
            f"{int(whole.isnan().sum())} of {whole.numel()} distributions to draw from have logits "
            "that are NaN, plus infinity, or minus infinity for every value"
        )
    reached = torch.searchsorted(cdf, (u.double() * whole).unsqueeze(-1)).squeeze(-1)
    return reached.clamp(max=logits.shape[-1] - 1)
