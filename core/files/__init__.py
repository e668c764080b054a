"""Files: atomic writes, and the user's folders for caches and state."""
