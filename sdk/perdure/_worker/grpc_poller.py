"""Which of gRPC's two ways of waiting for its sockets a process uses."""

from __future__ import annotations

import os
from importlib.metadata import version

_VARIABLE = "GRPC_EXPERIMENTS"
_EARLIER_POLLER = "-event_engine_client,-event_engine_listener"
# A version that has them no more would complain of them on stderr.
_LAST_VERSION_TRIED = (1, 85)


def use_earlier_poller() -> None:
    """Before the first connection of the process; later it changes nothing.

    The event engine hands each message from thread to thread three times, the poller before it once: half of what a
    message of a stream costs each side. What the environment says already stays.
    """
    major, minor = version("grpcio").split(".")[:2]
    if (int(major), int(minor)) <= _LAST_VERSION_TRIED:
        os.environ.setdefault(_VARIABLE, _EARLIER_POLLER)
