"""sFID: the Fréchet distance of spatial features (Nash et al. 2021).

FID's vectors are means over a picture, which see what is there and hardly where. sFID is the same
distance of features that keep their places: of Inception the first seven channels of its layer
``mixed_6``, 17 x 17 x 7 numbers, as in ADM's evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs
from elbowroom import Display
from torch import Tensor

from .fid import FID


@attrs.define(eq=False)
class SFID(FID):
    """sFID against train and against test, or against a reference file."""

    display: ClassVar[Mapping[str, Display]] = {
        "sfid_train": Display("sFID train"),
        "sfid_test": Display("sFID test"),
        "sfid_reference": Display("sFID"),
    }
    name: ClassVar[str] = "sfid"
    kind: ClassVar[str] = "_s"

    def look(self, x: Tensor) -> Tensor:
        return self._eye.spatial(x)
