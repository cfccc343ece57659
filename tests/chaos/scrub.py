"""Invariants of everything in a real database, read through SqlStore at quiescence.

Reuses the simulation's checks of one history; here are those that need rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.simulation.scrubber import check_history

from perdure_engine.core import events as ev
from perdure_engine.core.apply import fold
from perdure_engine.core.events import Event
from perdure_engine.core.state import RunState
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskState
from perdure_engine.history.loading import decode_history, restore
from perdure_engine.ports.rows import ROW_GONE, CurrentRunRow, TaskRow, TimerRow, VisibilityRow
from perdure_engine.ports.store import PageKey, RunRecord, VisibilityFilter
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

PAGE = 1_000
FOR_EVER_US = 1 << 52


class Saved(NamedTuple):
    """One run as the database has it."""

    workflow_id: str
    state: RunState
    history: list[Event]

    @property
    def closed(self) -> bool:
        return not self.state.open


@asynccontextmanager
async def open_store(dsn: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(SqlStoreConfig(dsn))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Scrubber:
    """Problems are collected, so that one broken run does not hide the others."""

    def __init__(self, store: SqlStore, number_of_shards: int) -> None:
        self.problems: list[str] = []
        self.runs = 0
        self._store = store
        self._shards = range(1, number_of_shards + 1)
        self._codec = MsgpackCodec()
        self._open: set[tuple[bytes, str]] = set()
        self._tasks: dict[bytes, dict[tuple[int, int], TaskRow]] = {}
        self._timers: dict[bytes, dict[tuple[int, int], TimerRow]] = {}

    async def scrub(self) -> AsyncIterator[Saved]:
        """Every run of every namespace, checked."""
        for shard_id in self._shards:
            await self._read_rows(shard_id)
        for namespace in await self._store.list_namespaces():
            async for listed in self._listed(namespace.namespace_id):
                self.runs += 1
                saved = await self._check(listed)
                if saved is not None:
                    yield saved
        for run_id, rows in [*self._tasks.items(), *self._timers.items()]:
            self._problem(run_id.hex(), f"13: rows of no run: {rows}")

    async def _read_rows(self, shard_id: int) -> None:
        """Live task and timer rows, by run: few at quiescence."""
        after = (-1, -1)
        while True:
            tasks = await self._store.load_tasks(shard_id, after, PAGE)
            for task in tasks:
                if task.state != TaskState.GONE:
                    by_run = self._tasks.setdefault(task.run_id, {})
                    by_run[task.queue_no, task.task_id] = task
            if len(tasks) < PAGE:
                break
            after = (tasks[-1].queue_no, tasks[-1].task_id)
        after = (0, 0)
        while True:
            timers = await self._store.load_timers(shard_id, after, FOR_EVER_US, PAGE)
            for timer in timers:
                if timer.state != ROW_GONE:
                    rows = self._timers.setdefault(timer.run_id, {})
                    rows[timer.wake_us, timer.timer_id] = timer
            if len(timers) < PAGE:
                return
            after = (timers[-1].wake_us, timers[-1].timer_id)

    async def _listed(self, namespace_id: bytes) -> AsyncIterator[VisibilityRow]:
        before: PageKey | None = None
        while True:
            page = await self._store.list_runs(VisibilityFilter(namespace_id), before, PAGE)
            for row in page.rows:
                yield row
            before = page.end
            if before is None:
                return

    async def _check(self, listed: VisibilityRow) -> Saved | None:
        name = listed.workflow_id
        record = await self._store.load_run(
            listed.shard_id, listed.run_id, self._codec.task_keys_of_head
        )
        if record is None:
            self._problem(name, "listed, but has no head row")
            return None
        try:
            state, tail, _ = restore(record, self._codec)
            history = await self._whole_history(record, tail)
            check_history(history)
            self._check_timers(history)
            self._check_saved(record, state, history)
            self._check_listed(listed, state)
            self._check_one_open(record)
            self._check_rows(state)
        except AssertionError as error:
            self._problem(name, str(error))
            return None
        except Exception as error:
            self._problem(name, f"does not read back: {error!r}")
            return None
        return Saved(name, state, history)

    async def _whole_history(self, record: RunRecord, tail: list[Event]) -> list[Event]:
        if not record.snapshot:
            return tail
        row = record.execution
        page = await self._store.load_history(row.shard_id, row.run_id, 1, 1 << 30)
        return decode_history(page.rows, self._codec)

    def _check_timers(self, history: list[Event]) -> None:
        started = {e.event_id: e for e in history if isinstance(e, ev.TimerStarted)}
        ended = [e for e in history if isinstance(e, ev.TimerFired | ev.TimerCanceled)]
        ids = [e.started_event_id for e in ended]
        assert len(ids) == len(set(ids)), "22: a timer ends once"
        for event in ended:
            due_us = (
                started[event.started_event_id].time_us
                + started[event.started_event_id].start_to_fire_ms * 1000
            )
            assert isinstance(event, ev.TimerCanceled) or event.time_us >= due_us, (
                f"21: a timer fired {(due_us - event.time_us) / 1e6} s early"
            )

    def _check_saved(self, record: RunRecord, state: RunState, history: list[Event]) -> None:
        folded = fold(history)
        assert self._codec.encode_snapshot(folded) == self._codec.encode_snapshot(state.folded), (
            "4: the fold of the whole history is the saved state"
        )
        row = record.execution
        assert row.next_event_id == len(history) + 1, "1: next_event_id is n + 1"
        status = Status.RUNNING if folded.status is Status.PAUSED else folded.status
        assert Status(row.status) is status, "4: the head's status is that of history"

    def _check_listed(self, listed: VisibilityRow, state: RunState) -> None:
        assert Status(listed.status) is state.folded.status, "64: the list says another status"
        assert listed.history_events == state.folded.next_event_id - 1 or state.open, (
            "64: the list says another number of events"
        )

    def _check_one_open(self, record: RunRecord) -> None:
        row, current = record.execution, record.current
        key = (row.namespace_id, row.workflow_id)
        if row.status == Status.RUNNING:
            assert key not in self._open, "9: two open runs of one workflow id"
            self._open.add(key)
        assert isinstance(current, CurrentRunRow), "9: no current run of the id"
        if current.run_id == row.run_id:
            assert current.status == row.status, "9: the current run has another status"

    def _check_rows(self, state: RunState) -> None:
        tasks = self._tasks.pop(state.run_id, {})
        timers = self._timers.pop(state.run_id, {})
        if not state.open:
            pending = [*state.tasks.values(), *state.timer_rows.values(), *state.buffered]
            assert not pending, f"6: of a closed run is pending: {pending}"
        known = {(one.queue_no, one.task_id) for one in state.tasks.values()}
        assert tasks.keys() == known, "13: the run's task rows are those that its head names"
        wakes = {(one.wake_us, one.timer_id) for one in state.timer_rows.values()}
        assert timers.keys() == wakes, "13: the run's timer rows are those that its head names"
        if state.open:
            self._check_pending(state)

    def _check_pending(self, state: RunState) -> None:
        for timer in state.folded.timers.values():
            fired = any(
                isinstance(e, ev.TimerFired) and e.started_event_id == timer.started_event_id
                for e in state.buffered
            )
            rows = [one.reference for one in state.timer_rows.values()]
            assert fired or timer.started_event_id in rows, "13: a pending timer has a row"
        for scheduled_id in state.folded.activities:
            assert scheduled_id < state.folded.next_event_id, "6: pending refers to no event"
            ended = any(getattr(e, "scheduled_event_id", 0) == scheduled_id for e in state.buffered)
            assert ended or scheduled_id in state.tasks, "13: a pending activity has a row"

    def _problem(self, name: str, what: str) -> None:
        self.problems.append(f"{name}: invariant {what}")
