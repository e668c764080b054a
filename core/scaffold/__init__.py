"""The scaffold of a new plugin package."""
