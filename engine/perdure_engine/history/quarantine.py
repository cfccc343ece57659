"""Runs that are set aside, so that their neighbours go on.

A run gets here when its writes were refused three times in a row with nobody else in the batch, or when its rows do
not read back. Not for ever: causes go away (a full disk, a bug fixed), so after a while it is tried again.
"""

from __future__ import annotations

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.history.rooms import Rooms

QUARANTINE_S = 600.0
TRIES_MAX = 3  # of a write that is refused with nobody else in its batch


class Quarantine:
    __slots__ = ("_failures", "_rooms", "_runs")

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._failures: dict[bytes, int] = {}
        self._runs: dict[bytes, tuple[str, float]] = {}  # why, and until when

    def __contains__(self, run_id: bytes) -> bool:
        return run_id in self._runs

    def __len__(self) -> int:
        return len(self._runs)

    def count_failure(self, run_id: bytes, reason: str) -> None:
        tries = self._failures.get(run_id, 0) + 1
        self._failures[run_id] = tries
        if tries >= TRIES_MAX:
            del self._failures[run_id]
            self.add(run_id, reason)

    def went_well(self, run_id: bytes) -> bool:
        """Whether failures of others are counted."""
        self._failures.pop(run_id, None)
        return bool(self._failures)

    def add(self, run_id: bytes, reason: str) -> None:
        until = self._rooms.clock.monotonic() + QUARANTINE_S
        self._runs[run_id] = (f"the run is quarantined: {reason}", until)
        self._rooms.alarm("run_quarantined", run_id=run_id.hex(), reason=reason)

    def refusal(self, run_id: bytes) -> Rejected:
        return Rejected(Code.DATA_LOSS, "RUN_QUARANTINED", self._runs[run_id][0])

    def require_not_in(self, run_id: bytes) -> None:
        """Raises Rejected DATA_LOSS while the run is set aside."""
        known = self._runs.get(run_id)
        if known is None:
            return
        _, until = known
        if self._rooms.clock.monotonic() < until:
            raise self.refusal(run_id)
        del self._runs[run_id]
