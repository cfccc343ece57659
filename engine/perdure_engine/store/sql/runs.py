"""What a shard reads: runs, tasks, timers, history."""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.ports.rows import (
    CurrentRunRow,
    ExecutionRow,
    HistoryRow,
    InboxRow,
    SnapshotRow,
    TaskRow,
    TimerRow,
    VisibilityRow,
)
from perdure_engine.ports.store import (
    ClosedPage,
    ClosedRun,
    HistoryPage,
    RunRecord,
    TaskKeysOfHead,
)
from perdure_engine.store.sql import (
    current_runs,
    executions,
    history,
    inbox,
    snapshots,
    tasks,
    timers,
    visibility,
)
from perdure_engine.store.sql.access import Access
from perdure_engine.store.sql.connection import Row, Session, Statement
from perdure_engine.store.sql.parameters import (
    Instant,
    Int4,
    Int4s,
    Int8,
    Int8s,
    Texts,
    Uuid,
    Uuids,
)

BEGIN: Final[LiteralString] = "begin isolation level serializable read only"
COMMIT: Final[LiteralString] = "commit"

STATEMENTS: Final[dict[str, LiteralString]] = {"runs.begin": BEGIN, "runs.commit": COMMIT}


class SqlRuns:
    """`RunStore` on SQL."""

    _access: Access

    async def load_run(
        self, shard_id: int, run_id: bytes, task_keys_of_head: TaskKeysOfHead
    ) -> RunRecord | None:
        """Two round trips: which task rows there are stands in the head."""
        key = (Int4(shard_id), Uuid(run_id))

        async def load(session: Session) -> RunRecord | None:
            _, heads, current, snapshot, tail, live = await session.fetch_together(
                [
                    (BEGIN, ()),
                    (executions.READ, key),
                    (current_runs.READ_OF_RUN, key),
                    (snapshots.READ, key),
                    (history.READ_TAIL, key),
                    (inbox.READ_LIVE, key),
                ]
            )
            if not heads:
                await session.fetch(COMMIT)
                return None
            head = ExecutionRow._make(heads[0])
            return RunRecord(
                execution=head,
                current=CurrentRunRow._make(current[0]) if current else None,
                snapshot=[SnapshotRow._make(row) for row in snapshot],
                history=[HistoryRow._make(row) for row in tail],
                inbox=[InboxRow._make(row) for row in live],
                tasks=await _tasks_and_end(session, shard_id, task_keys_of_head(head.head)),
            )

        return await self._access.read_with(load)

    async def load_current_runs(self, keys: list[tuple[int, bytes, str]]) -> list[CurrentRunRow]:
        rows = await self._access.read(
            current_runs.READ_KEYS,
            (
                Int4s([shard_id for shard_id, _, _ in keys]),
                Uuids([namespace_id for _, namespace_id, _ in keys]),
                Texts([workflow_id for _, _, workflow_id in keys]),
            ),
        )
        return [CurrentRunRow._make(row) for row in rows]

    async def load_tasks(self, shard_id: int, after: tuple[int, int], limit: int) -> list[TaskRow]:
        queue_no, task_id = after
        rows = await self._access.read(
            tasks.READ_AFTER, (Int4(shard_id), Int4(queue_no), Int8(task_id), Int8(limit))
        )
        return [TaskRow._make(row) for row in rows]

    async def load_queue_tasks(
        self, shard_id: int, queue_no: int, after_task_id: int, limit: int
    ) -> list[TaskRow]:
        rows = await self._access.read(
            tasks.READ_QUEUE, (Int4(shard_id), Int4(queue_no), Int8(after_task_id), Int8(limit))
        )
        return [TaskRow._make(row) for row in rows]

    async def load_timers(
        self, shard_id: int, after: tuple[int, int], to_wake_us: int, limit: int
    ) -> list[TimerRow]:
        wake_us, timer_id = after
        rows = await self._access.read(
            timers.READ_WINDOW,
            (
                Int4(shard_id),
                Instant(wake_us),
                Int8(timer_id),
                Instant(to_wake_us),
                Int8(limit),
            ),
        )
        return [TimerRow._make(row) for row in rows]

    async def load_closed_runs(self, shard_id: int, after_run_id: bytes, limit: int) -> ClosedPage:
        rows = await self._access.read(
            visibility.READ_AFTER, (Int4(shard_id), Uuid(after_run_id), Int8(limit))
        )
        closed = [
            ClosedRun(run_id, namespace_id, workflow_id, close_us, history_bytes)
            for run_id, namespace_id, workflow_id, close_us, history_bytes in rows
            if close_us is not None
        ]
        return ClosedPage(closed, rows[-1][0] if len(rows) == limit else None)

    async def load_listed_runs(self, shard_id: int, run_ids: list[bytes]) -> list[VisibilityRow]:
        rows = await self._access.read(visibility.READ_KEYS, (Int4(shard_id), Uuids(run_ids)))
        return [VisibilityRow._make(row) for row in rows]

    async def load_histories(self, shard_id: int, run_ids: list[bytes]) -> list[HistoryRow]:
        rows = await self._access.read(history.READ_MANY, (Int4(shard_id), Uuids(run_ids)))
        return [HistoryRow._make(row) for row in rows]

    async def load_history(
        self, shard_id: int, run_id: bytes, from_event_id: int, limit: int
    ) -> HistoryPage:
        rows = await self._access.read(
            history.READ_PAGE, (Int4(shard_id), Uuid(run_id), Int8(from_event_id), Int8(limit))
        )
        more = bool(rows and rows[0][-1])
        return HistoryPage(rows=[HistoryRow._make(row[:-1]) for row in rows], more=more)


async def _tasks_and_end(
    session: Session, shard_id: int, keys: list[tuple[int, int]]
) -> list[TaskRow]:
    end: Statement = (COMMIT, ())
    if not keys:
        await session.fetch(*end)
        return []
    queue_nos = Int4s([queue_no for queue_no, _ in keys])
    task_ids = Int8s([task_id for _, task_id in keys])
    rows: list[Row]
    rows, _ = await session.fetch_together(
        [(tasks.READ_KEYS, (Int4(shard_id), queue_nos, task_ids)), end]
    )
    return [TaskRow._make(row) for row in rows]
