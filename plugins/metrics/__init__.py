"""Metrics: bits per dimension, FID, sFID, KID, IS, precision and recall, and those of torchmetrics.

FID, KID, IS, precision and recall look at samples through a feature network, given as ``features``:
``classifier`` (trained on the data set's own train split), ``inception`` or ``inception:FILE``,
another plugin's, or one's own, ``./my.py:Network`` (see :class:`elbowroom.FeatureNetwork`).
"""

from __future__ import annotations

from collections.abc import Mapping

from elbowroom import hookimpl

_HOME = "elbowroom.plugins.metrics"


@hookimpl
def metrics() -> Mapping[str, str]:
    """Name -> class, loaded when an evaluation asks for it."""
    return {
        "bpd": f"{_HOME}.bpd:BitsPerDim",
        "conditional-bits": f"{_HOME}.conditional_bits:ConditionalBits",
        "fid": f"{_HOME}.fid:FID",
        "sfid": f"{_HOME}.sfid:SFID",
        "kid": f"{_HOME}.kid:KID",
        "is": f"{_HOME}.inception_score:InceptionScore",
        "precision-recall": f"{_HOME}.precision_recall:PrecisionRecall",
        "neighbours": f"{_HOME}.neighbours:Neighbours",
        "torchmetrics": f"{_HOME}.from_torchmetrics:TorchMetrics",
    }


@hookimpl
def commands() -> Mapping[str, str]:
    """What this plugin adds to the command line."""
    return {"reference": f"{_HOME}.command:reference"}


@hookimpl
def feature_networks() -> Mapping[str, str]:
    """What the metrics see of a picture."""
    return {
        "classifier": f"{_HOME}.classifier:Classifier",
        "inception": f"{_HOME}.inception:Inception",
        "dinov2": f"{_HOME}.dinov2:DINOv2",
    }
