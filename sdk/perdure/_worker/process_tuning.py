"""What a process that runs workers may change for itself: how it collects garbage, and waits for sockets."""

from __future__ import annotations

import gc
import os
from importlib.metadata import version

_VARIABLE = "GRPC_EXPERIMENTS"
_EARLIER_POLLER = "-event_engine_client,-event_engine_listener"
# A version that has them no more would complain of them on stderr.
_LAST_VERSION_TRIED = (1, 85)


def tune_garbage_collector() -> None:
    """For a process that only runs workers, at its start: collect rarely, and not what is there.

    Objects of a run live as long as the run waits, so that by CPython's thresholds most of them
    count as long-lived and all of those are walked again and again: 12 % of a busy worker's CPU.
    Afterwards cyclic garbage of your own code stays until some 50,000 objects have come together.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def tune_grpc() -> None:
    """For a process whose gRPC is Perdure's alone, before it connects: messages cost half as much.

    Puts GRPC_EXPERIMENTS into the environment, unless that is set, and so turns gRPC's event engine
    off: its earlier poller takes fewer threads. Does nothing with a grpcio newer than 1.85.
    """
    # The event engine hands each message from thread to thread three times, the poller before it
    # once: half of what a message of a stream costs each side.
    major, minor = version("grpcio").split(".")[:2]
    if (int(major), int(minor)) <= _LAST_VERSION_TRIED:
        os.environ.setdefault(_VARIABLE, _EARLIER_POLLER)
