"""elbowroom: diffusion objectives as variational bounds, for every noise process.

The names of this package are listed in ``__init__.pyi``, which type checkers read as well. Each is
imported on first use, so importing the package does not import torch. A command with a Python form
is a function of this package too: ``elbowroom.compare``.
"""

from typing import Any

import lazy_loader

_listed, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _listed(name)
    if name == "__version__":
        from importlib.metadata import version

        return version("elbowroom")
    if not name.startswith("_"):
        from .registry.components import installed

        found = installed().commands().get(name.replace("_", "-"))
        if found is not None and (function := found.python_form()) is not None:
            return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
