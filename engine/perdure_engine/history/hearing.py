"""When each worker was last heard of by this process. Only from then on for a while is it certain that it lived."""

from __future__ import annotations

from perdure_engine.ports.clock import Clock

SILENT_S = 4.0  # two heartbeats
WORKERS_MAX = 20_000


class Hearing:
    __slots__ = ("_clock", "_heard")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[bytes, float] = {}  # in the order of their last heartbeat

    def heard(self, worker_id: bytes) -> None:
        self._heard.pop(worker_id, None)
        self._heard[worker_id] = self._clock.monotonic()
        if len(self._heard) > WORKERS_MAX:
            del self._heard[next(iter(self._heard))]

    def was_silent(self, worker_id: bytes, at: float) -> bool:
        """Whether it had not been heard of for a while, at that time of the process's clock, nor has been since: what
        it was given then it may never have got. One that was never heard of has just begun."""
        heard = self._heard.get(worker_id)
        return heard is not None and at - heard > SILENT_S
