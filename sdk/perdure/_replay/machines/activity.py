"""An activity: scheduled, then closed by its outcome; in between it may be asked to stop.

    CREATED ──RECORDED──▶ SCHEDULED ──RESOLVED──▶ CLOSED
       │                   │     └──ABANDON──▶ ABANDONED ──RESOLVED──▶ CLOSED
       │                   └──CANCEL──▶ CANCEL_REQUESTED ──CANCEL_RECORDED──▶ CANCELING
       │                                                     CANCELING ──RESOLVED──▶ CLOSED
       └──CANCEL──▶ CLOSED      (never sent: neither command goes out)

The handle is a matter of its own: TRY_CANCEL and ABANDON end it when the code cancels, and what the
activity comes to afterwards is not looked at.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Protocol

from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.cancelled import activity_cancelled
from perdure._replay.ledger import Entry
from perdure._replay.machines.moves import next_state


class ActivityCancellationType(IntEnum):
    """What cancelling an activity means for the workflow.

    TRY_CANCEL: ask it to stop, and go on at once. WAIT_CANCELLATION_COMPLETED: ask it, and wait for
    what it comes to. ABANDON: do not ask it, and go on.
    """

    TRY_CANCEL = 0
    WAIT_CANCELLATION_COMPLETED = 1
    ABANDON = 2


class ActivityState(IntEnum):
    CREATED = 1
    SCHEDULED = 2
    CANCEL_REQUESTED = 3
    CANCELING = 4
    ABANDONED = 5
    CLOSED = 6


class ActivityMove(IntEnum):
    RECORDED = 1
    CANCEL = 2
    CANCEL_RECORDED = 3
    ABANDON = 4
    RESOLVED = 5


MOVES = {
    (ActivityState.CREATED, ActivityMove.RECORDED): ActivityState.SCHEDULED,
    (ActivityState.CREATED, ActivityMove.CANCEL): ActivityState.CLOSED,
    (ActivityState.SCHEDULED, ActivityMove.CANCEL): ActivityState.CANCEL_REQUESTED,
    (ActivityState.SCHEDULED, ActivityMove.ABANDON): ActivityState.ABANDONED,
    (ActivityState.SCHEDULED, ActivityMove.RESOLVED): ActivityState.CLOSED,
    (ActivityState.CANCEL_REQUESTED, ActivityMove.CANCEL_RECORDED): ActivityState.CANCELING,
    (ActivityState.CANCELING, ActivityMove.RESOLVED): ActivityState.CLOSED,
    (ActivityState.ABANDONED, ActivityMove.RESOLVED): ActivityState.CLOSED,
}


NOT_YET_ASKED = frozenset({ActivityState.CREATED, ActivityState.SCHEDULED})


class Canceller(Protocol):
    def cancel_activity(self, machine: ActivityMachine) -> None: ...


class ActivityMachine:
    __slots__ = (
        "_canceller",
        "activity_id",
        "activity_type",
        "by_asyncio",
        "cancellation",
        "entry",
        "handle",
        "result_hint",
        "scheduled_event_id",
        "state",
    )

    def __init__(
        self,
        activity_id: str,
        activity_type: str,
        result_hint: Any,
        cancellation: ActivityCancellationType,
        canceller: Canceller,
    ) -> None:
        self.activity_id = activity_id
        self.activity_type = activity_type
        self.result_hint = result_hint
        self.cancellation = cancellation
        self._canceller = canceller
        self.state = ActivityState.CREATED
        self.scheduled_event_id = 0
        self.entry: Entry | None = None  # of the scheduling, until it is recorded
        self.handle: ActivityHandle[Any]
        self.by_asyncio = False  # has nobody else cancelled it?

    def move(self, move: ActivityMove) -> None:
        self.state = next_state(MOVES, self.state, move, self)

    def let_go(self) -> None:
        """It is closed and has said so. Opens the ring with its handle, which would keep the whole
        run until the garbage collector comes."""
        del self.handle

    @property
    def waits_for_cancellation(self) -> bool:
        return self.cancellation is ActivityCancellationType.WAIT_CANCELLATION_COMPLETED

    def cancelled_error(self) -> BaseException:
        return activity_cancelled(self)

    def request_cancel(self, *, by_asyncio: bool) -> bool:
        # Once the code or its client has cancelled it, it ends as they know it, whoever else does.
        self.by_asyncio = by_asyncio and (self.by_asyncio or self.state in NOT_YET_ASKED)
        self._canceller.cancel_activity(self)
        return True

    def describe(self) -> str:
        return f"activity {self.activity_id} ({self.activity_type})"
