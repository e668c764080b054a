"""The config: from YAML to checked specs to built parts."""

from elbowroom.registry.moved import old_names

__getattr__ = old_names(__name__)
