"""Closed runs that are to go, deleted in the shard's turn (design §3: only the owner deletes).

A call that asked for it is answered when its run is gone. If the process dies before, the run is there
still, closed, and the call may be repeated.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from perdure_engine.core import audit
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import DeleteWorkflow
from perdure_engine.core.status import Status
from perdure_engine.history.refusals import moved
from perdure_engine.history.work import Item
from perdure_engine.ports.store import Removal

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

RUNS_MAX = 100  # in one statement
HISTORY_BYTES_MAX = 8 * 1024 * 1024  # in one statement; a larger run goes alone


class Leaving(msgspec.Struct, eq=False):
    """A closed run that is to go."""

    run_id: bytes
    namespace_id: bytes
    workflow_id: str
    history_bytes: int
    items: list[Item]  # who asked for it; nobody: retention
    status: Status = Status.COMPLETED  # for the audit log, if somebody asked


class Removing:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._leaving: dict[bytes, Leaving] = {}
        self._under_way: frozenset[bytes] = frozenset()  # runs that a statement deletes now
        self._held: dict[bytes, Leaving] = {}  # runs that have something to say to others still
        self._idle = asyncio.Event()
        self._idle.set()
        self._audit_head: audit.Head | None = None  # when the removal that was taken is saved

    @property
    def due(self) -> bool:
        """The writer sends a removal in the shard's next turn."""
        return bool(self._leaving)

    def takes(self, run_id: bytes) -> bool:
        """Whether the run's rows are about to go, or may have gone already."""
        return run_id in self._leaving or run_id in self._under_way

    def add(self, leaving: Leaving) -> None:
        """Its run has closed, and that is saved. It goes when it has nothing to say to other runs any more."""
        if self._shard.closed:  # a pass has read of it before
            self.give_back([leaving])
            return
        if self._shard.outbox.holds(leaving.run_id):
            self._hold(leaving)
            return
        self._idle.clear()
        there = self._leaving.setdefault(leaving.run_id, leaving)
        if there is not leaving:
            there.items += leaving.items
        self._shard.chore_waits()

    def _hold(self, leaving: Leaving) -> None:
        if not leaving.items:
            return  # retention finds it again in its next pass
        there = self._held.setdefault(leaving.run_id, leaving)
        if there is leaving:
            self._shard.outbox.when_empty(leaving.run_id, partial(self._let_go, leaving.run_id))
        else:
            there.items += leaving.items

    def _let_go(self, run_id: bytes) -> None:
        self.add(self._held.pop(run_id))

    async def wait_idle(self) -> None:
        """Returns when nothing waits and nothing is under way."""
        await self._idle.wait()

    def take(self, batch_id: bytes) -> tuple[Removal, list[Leaving]]:
        """The next statement's runs. To be settled with `removed`, `refused` or `give_back`."""
        taken: list[Leaving] = []
        size = 0
        for leaving in self._leaving.values():
            size += leaving.history_bytes
            if len(taken) == RUNS_MAX or (taken and size > HISTORY_BYTES_MAX):
                break
            taken.append(leaving)
        for leaving in taken:
            del self._leaving[leaving.run_id]
        self._under_way = frozenset(leaving.run_id for leaving in taken)
        rows, self._audit_head = self._audited(taken)
        removal = Removal(
            batch_id,
            self._shard.fence,
            [leaving.run_id for leaving in taken],
            [(leaving.namespace_id, leaving.workflow_id) for leaving in taken],
            rows,
        )
        return removal, taken

    def _audited(self, taken: list[Leaving]) -> tuple[list[audit.AuditRow], audit.Head]:
        """A row for each run that somebody asked to delete: who asked first has deleted it."""
        rows, head = [], self._shard.audit_head
        now_us = self._shard.rooms.database_clock.low_us()
        for leaving in taken:
            if leaving.items:
                row, head = audit.append(head, _entry(leaving, now_us))
                rows.append(row)
        return rows, head

    def removed(self, taken: list[Leaving]) -> None:
        """They are gone from the database: now from memory, and whoever asked hears so.

        Whoever still waits for one of them (a query, say) is asked again what it wants of a run that is
        not there.
        """
        assert self._audit_head is not None
        self._shard.audit_head = self._audit_head
        for leaving in taken:
            run = self._shard.runs.get(leaving.run_id)
            if run is not None:
                self._shard.evict(run)
            key = (leaving.namespace_id, leaving.workflow_id)
            current = self._shard.currents.get(key)
            if current is not None and current.run_id == leaving.run_id:
                del self._shard.currents[key]
            for item in leaving.items:
                item.answer(None)
        self._shard.rooms.metrics.runs_removed.inc(by=len(taken))
        self._settle()

    def refused(self, taken: list[Leaving], error: Exception) -> None:
        """Memory and database differ about one of them: what comes next is decided on reloaded state."""
        rooms, shard_id = self._shard.rooms, self._shard.shard_id
        rooms.alarm("removal_met_an_open_run", shard_id=shard_id, error=error)
        for leaving in taken:
            run = self._shard.runs.get(leaving.run_id)
            if run is not None:
                self._shard.evict(run)
            for item in leaving.items:
                item.refuse(Rejected(Code.ABORTED, "RUN_CHANGED", "the run has changed; try again"))
        self._settle()

    def give_back(self, taken: list[Leaving]) -> None:
        """It was not deleted (or may not have been): deleting it once more is harmless.

        A shard that has closed meanwhile does no more: whoever asked is to ask elsewhere.
        """
        self._under_way = frozenset()
        if self._shard.closed:
            for item in [item for leaving in taken for item in leaving.items]:
                item.refuse(moved(self._shard.shard_id))
            return
        for leaving in taken:
            there = self._leaving.setdefault(leaving.run_id, leaving)
            if there is not leaving:
                there.items += leaving.items
        self._shard.chore_waits()

    def drain(self) -> list[Item]:
        """Whoever waits, given up (the shard closes)."""
        waiting = [*self._leaving.values(), *self._held.values()]
        items = [item for leaving in waiting for item in leaving.items]
        self._leaving.clear()
        self._held.clear()
        self._settle()
        return items

    def _settle(self) -> None:
        self._under_way = frozenset()
        if not self._leaving:
            self._idle.set()


def _entry(leaving: Leaving, now_us: int) -> audit.Entry:
    asked = leaving.items[0].intent
    assert isinstance(asked, DeleteWorkflow)
    return audit.Entry(
        time_us=now_us,
        action=audit.Action.DELETE,
        namespace_id=leaving.namespace_id,
        workflow_id=leaving.workflow_id,
        run_id=leaving.run_id,
        identity=asked.identity,
        reason=asked.reason,
        request_id=asked.request_id,
        before=leaving.status.name,
        after="DELETED",
    )
