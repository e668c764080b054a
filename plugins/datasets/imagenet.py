"""``imagenet``: ImageNet's photographs (ILSVRC 2012) as in MD4, cropped and resized to 64x64.

    DIR/train/n01440764/*.JPEG ...     1,281,167 images of 1000 classes, all of train
    DIR/val/n01440764/*.JPEG ...       the official 50,000: 5,000 are validation, 45,000 test

MD4 crops the largest centred square and resizes it with OpenCV's INTER_AREA, the mean over the area
of each new pixel, as :mod:`elbowroom.plugins.datasets.shrink` does. Smaller images are enlarged by
the same rule, and the EXIF orientation is ignored, as by MD4's decoder.

The downsampled batches, made differently, are ``imagenet64``.
"""

from __future__ import annotations

from pathlib import Path

import attrs
from attrs.validators import ge, optional
from elbowroom import DataSpec, ElbowroomError

from .files import Recipe, places
from .folders import FolderOfImages
from .image_folder import Images, check_classes

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
class ImageNet(Images):
    """ImageNet from its image files; validation and test are parts of the official val."""

    path: Path | None = None  # the folder; None: the default one
    size: int | None = attrs.field(default=_SIZE, validator=optional(ge(1)))
    enlarge: bool = True  # a few of its images are smaller than 64
    upright: bool = False  # as by MD4's decoder

    @property
    def root(self) -> Path:
        return places("imagenet", self.path)[0]

    @property
    def full_spec(self) -> DataSpec:
        """Known without the images, except for the class names."""
        if self.size is None or (self.root / "train").is_dir():
            return super().full_spec
        return DataSpec((self.size, self.size, self.channels), 256, _CLASSES)

    def missing(self) -> ElbowroomError:
        return _RECIPE.missing([self.root])

    def _look(self, root: Path) -> dict[str, FolderOfImages]:
        """Its train and val; test has no labels and is not read."""
        if not all((root / name).is_dir() for name in ("train", "val")):
            raise self.missing()
        train, validation = FolderOfImages.look(root / "train"), FolderOfImages.look(root / "val")
        found = len(train.classes or ())
        if found != _CLASSES:
            raise ElbowroomError(
                f"imagenet: {train.path} has {found} classes, not {_CLASSES}: unpack all of them, "
                "or use a part of it as data=image-folder"
            )
        check_classes(validation, train)
        return {"train": train, "validation": validation}
