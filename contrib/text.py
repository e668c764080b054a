"""The old name of the data set ``text`` (:mod:`elbowroom.plugins.text`): configs that use it go on.

data: {name: elbowroom.contrib.text:Text, path: book.txt, length: 64}
"""

from __future__ import annotations

from elbowroom.plugins.text.dataset import Runs, Text

__all__ = ["Runs", "Text"]
