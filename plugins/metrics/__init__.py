"""Metrics: bits per dimension, FID, KID, IS, nearest neighbours, any of torchmetrics.

FID, KID and IS look at samples through a feature network, given as ``features``:
``classifier`` (trained on the data set's own train split), ``inception`` or ``inception:FILE``,
or a reference to one's own, ``./my.py:Network`` (see :mod:`elbowroom.plugins.metrics.features`).
"""

from __future__ import annotations

from collections.abc import Mapping

from elbowroom import hookimpl


@hookimpl
def metrics() -> Mapping[str, str]:
    """Name -> class, loaded when an evaluation asks for it."""
    home = "elbowroom.plugins.metrics"
    return {
        "bpd": f"{home}.bpd:BitsPerDim",
        "fid": f"{home}.fid:FID",
        "kid": f"{home}.kid:KID",
        "is": f"{home}.inception_score:InceptionScore",
        "neighbours": f"{home}.neighbours:Neighbours",
        "torchmetrics": f"{home}.from_torchmetrics:TorchMetrics",
    }
