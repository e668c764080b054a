from .component import (
    Component as Component,
    Owner as Owner,
    cause as cause,
    import_target as import_target,
)
from .components import OURS as OURS, Registry as Registry
from .discovery import GROUP as GROUP, normalised as normalised
from .kinds import KINDS as KINDS
from .plugin import Plugin as Plugin
from .reference import find_reference as find_reference
from .supplier import component_label as component_label
from .trust import (
    Origin as Origin,
    refuse_if_forbidden as refuse_if_forbidden,
    trusting as trusting,
)
