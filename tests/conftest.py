"""What holds for every test.

None is judged by how busy the machine is or by where it was started (a shell that puts a command
into the background has it ignore Ctrl-C).
"""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
signal.signal(signal.SIGINT, signal.default_int_handler)
