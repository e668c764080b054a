"""The command line: its shell, the commands of core, and what authors of commands use.

Nothing heavy is imported until a command runs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
