"""A port for processes that meet on this machine."""

from __future__ import annotations

import socket


def free_port():
    with socket.socket() as found_one:
        found_one.bind(("127.0.0.1", 0))
        return found_one.getsockname()[1]
