"""``imagenet``: ImageNet's photographs (ILSVRC 2012) as MD4 has them, cropped and brought to 64x64.

    DIR/train/n01440764/*.JPEG ...     1,281,167 pictures of 1000 classes, none taken out of train
    DIR/val/n01440764/*.JPEG ...       the official 50,000: 5,000 are validation, 45,000 test

MD4 keeps the largest centred square and resizes it with OpenCV's INTER_AREA, the mean over the
area of each new pixel, which is what :mod:`elbowroom.plugins.datasets.shrink` computes exactly.
Pictures smaller than that are enlarged by the same rule, and a camera's rotation mark is passed
over, as its decoder does.

The downsampled batches, made in another way, are ``imagenet64``.
"""

from __future__ import annotations

from pathlib import Path

import attrs
from attrs.validators import ge, optional
from elbowroom import DataSpec, ElbowroomError

from .files import Recipe, places
from .folders import PictureFolder
from .image_folder import Pictures, check_classes

_CLASSES = 1000
_SIZE: int | None = 64  # the paper's
_RECIPE = Recipe(
    "imagenet",
    "train/n01440764/*.JPEG and val/n01440764/*.JPEG, a folder for each of 1000 classes (or, in "
    "place of val's folders, val/metadata.csv with the columns file_name and label)",
    "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar of https://image-net.org (free account); "
    "the downsampled batches are another data set, data=imagenet64",
)


@attrs.frozen(kw_only=True, slots=False)
class ImageNet(Pictures):
    """ImageNet from its pictures: train is whole, validation and test are the official val."""

    path: Path | None = None  # the folder; None: the usual place
    size: int | None = attrs.field(default=_SIZE, validator=optional(ge(1)))
    enlarge: bool = True  # a few of its pictures are smaller than 64
    upright: bool = False  # as MD4's decoder has it

    @property
    def root(self) -> Path:
        return places("imagenet", self.path)[0]

    @property
    def full_spec(self) -> DataSpec:
        """The form is known before the pictures are there; names of classes are the folders'."""
        if self.size is None or (self.root / "train").is_dir():
            return super().full_spec
        return DataSpec((self.size, self.size, self.channels), 256, _CLASSES)

    def missing(self) -> ElbowroomError:
        return _RECIPE.missing([self.root])

    def _look(self, root: Path) -> dict[str, PictureFolder]:
        """Its train and val; the test pictures, which have no labels, and all else are left."""
        if not all((root / name).is_dir() for name in ("train", "val")):
            raise self.missing()
        train, validation = PictureFolder.look(root / "train"), PictureFolder.look(root / "val")
        found = len(train.classes or ())
        if found != _CLASSES:
            raise ElbowroomError(
                f"imagenet: {train.path} has {found} classes, not {_CLASSES}: unpack all of them, "
                "or name a part of it as data=image-folder"
            )
        check_classes(validation, train)
        return {"train": train, "validation": validation}
