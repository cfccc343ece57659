"""A child workflow: initiated, started, then closed by its outcome; in between it may be asked to stop.

    CREATED ──RECORDED──▶ INITIATED ──STARTED──▶ STARTED ──RESOLVED──▶ CLOSED
       │                      │ │                   │ │
       │                      │ └─CANCEL──▶ CANCELING_START ──STARTED──▶ CANCELING ──RESOLVED──▶ CLOSED
       │                      │                     │ │                      ▲
       │                      │                     │ └───────CANCEL─────────┘
       │                      └─ABANDON──▶ ABANDONED_START ──STARTED──▶ ABANDONED ──RESOLVED──▶ CLOSED
       │                                            └──ABANDON──────────────▲
       └──CANCEL──▶ CLOSED      (never sent)

    INITIATED, CANCELING_START, ABANDONED_START: also START_FAILED (the id was taken) and TAKEN_BACK
    (cancelled before it was started) ──▶ CLOSED

The request to cancel is a command with an automaton of its own (external_cancel.py). Who waits is a matter of its
own, too: but for WAIT_CANCELLATION_COMPLETED the handle ends before the child does, and what the child comes to
afterwards is not looked at.
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from perdure._replay.machines.moves import next_state

if TYPE_CHECKING:
    from perdure._replay.child_handle import ChildWorkflowHandle
    from perdure._replay.ledger import Entry
    from perdure._replay.request_future import RequestFuture


class ChildWorkflowCancellationType(IntEnum):
    """What cancelling the wait for a child means for it.

    ABANDON: do not ask it, and go on at once. TRY_CANCEL: ask it, and go on at once.
    WAIT_CANCELLATION_COMPLETED: ask it, and wait for what it comes to. WAIT_CANCELLATION_REQUESTED: ask it, and go
    on when it has been told.
    """

    ABANDON = 0
    TRY_CANCEL = 1
    WAIT_CANCELLATION_COMPLETED = 2
    WAIT_CANCELLATION_REQUESTED = 3


class ChildState(IntEnum):
    CREATED = 1
    INITIATED = 2
    CANCELING_START = 3
    ABANDONED_START = 4
    STARTED = 5
    CANCELING = 6
    ABANDONED = 7
    CLOSED = 8


class ChildMove(IntEnum):
    RECORDED = 1
    STARTED = 2
    START_FAILED = 3
    TAKEN_BACK = 4
    CANCEL = 5
    ABANDON = 6
    RESOLVED = 7


_S, _M = ChildState, ChildMove
MOVES = {
    (_S.CREATED, _M.RECORDED): _S.INITIATED,
    (_S.CREATED, _M.CANCEL): _S.CLOSED,
    (_S.INITIATED, _M.STARTED): _S.STARTED,
    (_S.INITIATED, _M.START_FAILED): _S.CLOSED,
    (_S.INITIATED, _M.TAKEN_BACK): _S.CLOSED,
    (_S.INITIATED, _M.CANCEL): _S.CANCELING_START,
    (_S.INITIATED, _M.ABANDON): _S.ABANDONED_START,
    (_S.CANCELING_START, _M.STARTED): _S.CANCELING,
    (_S.CANCELING_START, _M.START_FAILED): _S.CLOSED,
    (_S.CANCELING_START, _M.TAKEN_BACK): _S.CLOSED,
    (_S.ABANDONED_START, _M.STARTED): _S.ABANDONED,
    (_S.ABANDONED_START, _M.START_FAILED): _S.CLOSED,
    (_S.ABANDONED_START, _M.TAKEN_BACK): _S.CLOSED,
    (_S.STARTED, _M.CANCEL): _S.CANCELING,
    (_S.STARTED, _M.ABANDON): _S.ABANDONED,
    (_S.STARTED, _M.RESOLVED): _S.CLOSED,
    (_S.CANCELING, _M.RESOLVED): _S.CLOSED,
    (_S.ABANDONED, _M.RESOLVED): _S.CLOSED,
}
NOT_YET_ASKED = frozenset({_S.CREATED, _S.INITIATED, _S.STARTED})
GO_ON_AT_ONCE = frozenset(
    {ChildWorkflowCancellationType.ABANDON, ChildWorkflowCancellationType.TRY_CANCEL}
)


class Family(Protocol):
    def cancel(self, machine: ChildMachine) -> None: ...

    def cancelled_error(self, machine: ChildMachine) -> BaseException: ...

    def signal(self, machine: ChildMachine, signal: Any, args: Any) -> Awaitable[None]: ...


class ChildMachine:
    """`started` is what its starter waits for, `handle` is for its outcome."""

    __slots__ = (
        "_family",
        "by_asyncio",
        "cancellation",
        "entry",
        "handle",
        "initiated_event_id",
        "result_hint",
        "run_id",
        "started",
        "started_event_id",
        "state",
        "workflow_id",
        "workflow_type",
    )

    def __init__(
        self,
        workflow_id: str,
        workflow_type: str,
        result_hint: Any,
        cancellation: ChildWorkflowCancellationType,
        family: Family,
    ) -> None:
        self.workflow_id = workflow_id
        self.workflow_type = workflow_type
        self.result_hint = result_hint
        self.cancellation = cancellation
        self._family = family
        self.state = ChildState.CREATED
        self.initiated_event_id = 0
        self.started_event_id = 0
        self.run_id = ""  # of the run that was started
        self.entry: Entry | None = None  # of the start, until it is recorded
        self.by_asyncio = False  # has nobody else cancelled it?
        self.started: RequestFuture[None]
        self.handle: ChildWorkflowHandle[Any, Any]

    def move(self, move: ChildMove) -> None:
        self.state = next_state(MOVES, self.state, move, self)

    @property
    def waits_for_cancellation(self) -> bool:
        return self.cancellation not in GO_ON_AT_ONCE

    def cancelled_error(self) -> BaseException:
        return self._family.cancelled_error(self)

    def request_cancel(self, *, by_asyncio: bool) -> bool:
        # As for an activity (machines/activity.py).
        self.by_asyncio = by_asyncio and (self.by_asyncio or self.state in NOT_YET_ASKED)
        self._family.cancel(self)
        return True

    def signal(self, signal: Any, args: Any) -> Awaitable[None]:
        return self._family.signal(self, signal, args)

    def describe(self) -> str:
        return f"child workflow {self.workflow_id!r} ({self.workflow_type})"
