"""A database in small for one shard's runs: the rows of committed batches, with the promises the real one keeps.

A history or inbox key is inserted once; a versioned row is written over the version it was read at.
"""

from __future__ import annotations

from typing import TypeVar

from perdure_engine.ports.rows import (
    ROW_GONE,
    ExecutionRow,
    HistoryRow,
    InboxRow,
    SnapshotRow,
    TaskRow,
    TimerRow,
    VisibilityRow,
)
from perdure_engine.ports.store import Batch, RunRecord
from perdure_engine.store.codec import MsgpackCodec

SHARD = 3
CODEC = MsgpackCodec()

V = TypeVar("V", ExecutionRow, TaskRow, TimerRow)


def new_batch() -> Batch:
    return Batch(b"batch", [], [], [], [], [], [], [], [], [])


class Saved:
    """Rows by key. Rows that are gone stay, marked so, as they do until a sweep."""

    def __init__(self) -> None:
        self.executions: dict[bytes, ExecutionRow] = {}
        self.history: dict[tuple[bytes, int, int], HistoryRow] = {}
        self.inbox: dict[tuple[bytes, int], InboxRow] = {}
        self.tasks: dict[tuple[int, int], TaskRow] = {}
        self.timers: dict[tuple[int, int], TimerRow] = {}
        self.snapshots: dict[bytes, list[SnapshotRow]] = {}
        self.visibility: dict[bytes, VisibilityRow] = {}

    def commit(self, batch: Batch) -> None:
        for execution in batch.executions:
            _upsert(self.executions, execution.run_id, execution)
        for history in batch.history:
            key = (history.run_id, history.first_event_id, history.part)
            assert key not in self.history, "an event id is written once"
            self.history[key] = history
        for inbox in batch.inbox:
            assert (inbox.run_id, inbox.seq) not in self.inbox
            self.inbox[inbox.run_id, inbox.seq] = inbox
        for task in batch.tasks:
            _upsert(self.tasks, (task.queue_no, task.task_id), task)
        for timer in batch.timers:
            _upsert(self.timers, (timer.wake_us, timer.timer_id), timer)
        for visible in batch.visibility:
            self.visibility[visible.run_id] = visible
        for run_id in {row.run_id for row in batch.snapshots}:
            self.snapshots[run_id] = [row for row in batch.snapshots if row.run_id == run_id]

    def record(self, run_id: bytes) -> RunRecord:
        """What `ports.store.RunStore.load_run` answers."""
        execution = self.executions[run_id]
        snapshot = self.snapshots.get(run_id, [])
        after = snapshot[0].event_id if snapshot else 0
        return RunRecord(
            execution,
            None,
            snapshot,
            [
                row
                for (run, first, _), row in sorted(self.history.items())
                if run == run_id and first > after
            ],
            [
                row
                for (run, seq), row in sorted(self.inbox.items())
                if run == run_id and seq > execution.inbox_done
            ],
            [self.tasks[key] for key in CODEC.task_keys_of_head(execution.head)],
        )

    def live_tasks(self, run_id: bytes) -> dict[tuple[int, int], TaskRow]:
        return {
            key: row
            for key, row in self.tasks.items()
            if row.run_id == run_id and row.state != ROW_GONE
        }

    def live_timers(self, run_id: bytes) -> dict[tuple[int, int], TimerRow]:
        return {
            key: row
            for key, row in self.timers.items()
            if row.run_id == run_id and row.state != ROW_GONE
        }


K = TypeVar("K")


def _upsert(rows: dict[K, V], key: K, row: V) -> None:
    """The sign trick of design §3: 1 for a new row, -v for an update of the row now at v."""
    stored = rows.get(key)
    expected = 1 if stored is None else -stored.version
    assert row.version == expected, f"{row} over {stored}"
    rows[key] = row._replace(version=1 if stored is None else stored.version + 1)
