"""A local activity: run by the worker inside the workflow task, known to the history by its markers.

    REQUESTED ──GIVEN──▶ RUNNING ──RESOLVED──▶ CLOSED
       ▲  │                │ │ └──CANCEL──▶ CANCELING ──RESOLVED──▶ CLOSED
       │  │                │ └──BACKOFF──▶ BACKING_OFF ──RETRY──▶ REQUESTED
       │  └──RESOLVED,     └──DROP──▶ CLOSED
       │     BACKOFF, CANCEL, DROP: as from RUNNING (on replay, nobody is given it)

DROP is the code's cancelling without waiting: what becomes of it is not looked at, and no marker is written. A
cancellation while it backs off closes it at once.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Protocol

from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.callsite import CallSite
from perdure._replay.cancelled import activity_cancelled
from perdure._replay.machines.activity import ActivityCancellationType
from perdure._replay.machines.moves import next_state
from perdure._replay.messages import LocalActivityTask


class LocalActivityState(IntEnum):
    REQUESTED = 1
    RUNNING = 2
    BACKING_OFF = 3
    CANCELING = 4
    CLOSED = 5


class LocalActivityMove(IntEnum):
    GIVEN = 1
    RESOLVED = 2
    BACKOFF = 3
    RETRY = 4
    CANCEL = 5
    DROP = 6


_S, _M = LocalActivityState, LocalActivityMove
MOVES = {
    (_S.REQUESTED, _M.GIVEN): _S.RUNNING,
    (_S.REQUESTED, _M.RESOLVED): _S.CLOSED,
    (_S.REQUESTED, _M.BACKOFF): _S.BACKING_OFF,
    (_S.REQUESTED, _M.CANCEL): _S.CANCELING,
    (_S.REQUESTED, _M.DROP): _S.CLOSED,
    (_S.RUNNING, _M.RESOLVED): _S.CLOSED,
    (_S.RUNNING, _M.BACKOFF): _S.BACKING_OFF,
    (_S.RUNNING, _M.CANCEL): _S.CANCELING,
    (_S.RUNNING, _M.DROP): _S.CLOSED,
    (_S.BACKING_OFF, _M.RETRY): _S.REQUESTED,
    (_S.BACKING_OFF, _M.DROP): _S.CLOSED,
    (_S.CANCELING, _M.RESOLVED): _S.CLOSED,
}
WITH_THE_WORKER = frozenset({_S.REQUESTED, _S.RUNNING, _S.CANCELING})


class Canceller(Protocol):
    def cancel(self, machine: LocalActivityMachine) -> None: ...


class LocalActivityMachine:
    __slots__ = (
        "_canceller",
        "by_asyncio",
        "cancellation",
        "handle",
        "result_hint",
        "site",
        "state",
        "task",
        "timer",
    )

    def __init__(
        self,
        task: LocalActivityTask,
        result_hint: Any,
        cancellation: ActivityCancellationType,
        canceller: Canceller,
        site: CallSite | None,
    ) -> None:
        self.task = task
        self.result_hint = result_hint
        self.cancellation = cancellation
        self._canceller = canceller
        self.site = site
        self.state = LocalActivityState.REQUESTED
        self.timer: Any = None  # while it backs off
        self.handle: ActivityHandle[Any]
        self.by_asyncio = False

    @property
    def activity_id(self) -> str:
        return self.task.activity_id

    @property
    def activity_type(self) -> str:
        return self.task.activity_type

    @property
    def scheduled_event_id(self) -> int:
        return 0  # there is no such event

    def move(self, move: LocalActivityMove) -> None:
        self.state = next_state(MOVES, self.state, move, self)

    @property
    def waits_for_cancellation(self) -> bool:
        return self.cancellation is ActivityCancellationType.WAIT_CANCELLATION_COMPLETED

    def cancelled_error(self) -> BaseException:
        return activity_cancelled(self)

    def request_cancel(self, *, by_asyncio: bool) -> bool:
        # As for any activity (machines/activity.py).
        is_asked = self.state is LocalActivityState.CANCELING
        self.by_asyncio = by_asyncio and (self.by_asyncio or not is_asked)
        self._canceller.cancel(self)
        return True

    def describe(self) -> str:
        return f"local activity {self.task.activity_id} ({self.task.activity_type})"
