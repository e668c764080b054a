"""The registry: hooks, plugins, and the components they supply."""

from elbowroom.registry.moved import old_names

__getattr__ = old_names(__name__)
