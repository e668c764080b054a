"""The paper's schedules: masking ones (MD4) and Gaussian ones."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.schedules"


@hookimpl
def schedules() -> dict[str, str]:
    """Three given by the share of unmasked tokens and four by the log-SNR."""
    return {
        "cosine": f"{_HERE}.masking:Cosine",
        "linear": f"{_HERE}.masking:Linear",
        "polynomial": f"{_HERE}.masking:Polynomial",
        "vp-cosine": f"{_HERE}.gaussian:VPCosine",
        "flow": f"{_HERE}.gaussian:Flow",
        "edm": f"{_HERE}.gaussian:EDM",
        "linear-log-snr": f"{_HERE}.gaussian:LinearLogSNR",
    }
