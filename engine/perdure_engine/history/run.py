"""A run in its owner's memory: the state, the events a worker may still need, and who waits for it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure_engine.core.events import Event
from perdure_engine.core.intents import QueryWorkflow
from perdure_engine.core.state import RunState
from perdure_engine.core.status import Status
from perdure_engine.history.pacing import Pace
from perdure_engine.history.work import Item

EVENTS_KEPT_MAX = (
    256  # in memory per run; a worker that needs older ones gets them from the database
)


class CurrentRun(msgspec.Struct, eq=False, gc=False):
    """The current_runs row of a workflow id. `version` 0: there is no row yet; then `run_id` is b""."""

    run_id: bytes
    status: Status
    version: int
    pace: Pace | None = None  # of starts that replaced its run


class PendingQuery(msgspec.Struct, eq=False):
    query_no: int
    intent: QueryWorkflow
    item: Item
    out: bool = False  # a worker has it
    worker_id: bytes = b""  # which one had it last


class Run:
    __slots__ = (
        "busy",
        "current",
        "event_waiters",
        "events",
        "events_from",
        "queries",
        "result_waiters",
        "state",
        "then",
        "update_waiters",
    )

    def __init__(
        self, state: RunState, current: CurrentRun, events: list[Event], events_from: int
    ) -> None:
        self.state = state
        self.current = current  # of its workflow id; may name a later run by now
        self.events = events  # from event id `events_from` on, without a gap
        self.events_from = events_from
        self.busy = False  # decided and not yet committed: nothing of it may be shown
        self.result_waiters: list[Item] = []
        self.event_waiters: list[Item] = []
        self.queries: dict[int, PendingQuery] = {}
        self.update_waiters: dict[str, list[Item]] | None = None  # by update id; None: nobody waits
        self.then: list[Callable[[], None]] = []  # called as soon as it is not busy

    @property
    def pinned(self) -> bool:
        """Whether memory holds something of this run that a reload would not bring back."""
        return bool(
            self.busy
            or self.result_waiters
            or self.event_waiters
            or self.queries
            or (self.update_waiters and any(self.update_waiters.values()))
            or any(record.handout is not None for record in self.state.tasks.values())
        )

    def free(self) -> None:
        """It is not busy any more (or leaves memory): let those go on who waited for that, before it is busy again."""
        self.busy = False
        waiting, self.then = self.then, []
        for go_on in waiting:
            go_on()

    def take_waiters(self) -> list[Item]:
        """All who wait for something of the run; queries are apart."""
        updates = self.update_waiters.values() if self.update_waiters is not None else ()
        return self.result_waiters + self.event_waiters + [i for items in updates for i in items]

    def wait(self, waiters: list[Item], item: Item) -> None:
        """Let the item wait in one of the lists, until it is answered or its caller has gone."""
        waiters.append(item)
        if item.future is not None:
            item.future.add_done_callback(
                lambda f: _forget(waiters, item) if f.cancelled() else None
            )

    def add_events(self, events: list[Event]) -> None:
        self.events += events
        if len(self.events) > EVENTS_KEPT_MAX:
            keep_from = max(self.state.folded.previous_started_id + 1, self.events_from)
            del self.events[: keep_from - self.events_from]
            self.events_from = keep_from

    def events_past(self, event_id: int) -> list[Event] | None:
        """Committed events with a larger id, or None when they are not all in memory."""
        if event_id + 1 < self.events_from:
            return None
        return self.events[event_id + 1 - self.events_from :]


def _forget(waiters: list[Item], item: Item) -> None:
    if item in waiters:
        waiters.remove(item)
