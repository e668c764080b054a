"""The registry: hooks, plugins, and the components they supply."""
