"""What the database refuses by value: its CHECK constraints, its texts, its jsonb."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from perdure_engine.core.audit import AuditRow
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
from perdure_engine.ports.store import Batch, BatchRefused

CHECK_VIOLATION = "23514"
UNIQUE_VIOLATION = "23505"
CARDINALITY_VIOLATION = "21000"
INVALID_TEXT = "22P02"
UNTRANSLATABLE_CHARACTER = "22021"

STATUS_MAX = 7
LISTED_STATUS_MAX = 8  # a run that is paused has a status of its own in lists only
STATE_MAX = 9
BUCKET_MAX = 15
HASH_BYTES = 32


def _current_run(row: CurrentRunRow) -> bool:
    return 1 <= row.status <= STATUS_MAX and row.version != 0


def _execution(row: ExecutionRow) -> bool:
    return (
        1 <= row.status <= STATUS_MAX
        and row.next_event_id >= 2
        and row.inbox_done >= 0
        and row.version != 0
    )


def _history(row: HistoryRow) -> bool:
    return row.first_event_id >= 1 and row.part >= 0


def _snapshot(row: SnapshotRow) -> bool:
    return row.event_id >= 1 and row.part >= 0


def _inbox(row: InboxRow) -> bool:
    return row.seq >= 1


def _task(row: TaskRow) -> bool:
    return (
        1 <= row.state <= STATE_MAX and row.attempt >= 0 and row.start_no >= 0 and row.version != 0
    )


def _timer(row: TimerRow) -> bool:
    return 1 <= row.state <= STATE_MAX and row.wake_us >= row.due_us and row.version != 0


def _visibility(row: VisibilityRow) -> bool:
    return (
        0 <= row.bucket <= BUCKET_MAX
        and 1 <= row.status <= LISTED_STATUS_MAX
        and (row.status in (1, 8)) == (row.close_us is None)
    )


def _audit(row: AuditRow) -> bool:
    return row.shard_id >= 0 and row.seq >= 1 and row.action != "" and len(row.hash) == HASH_BYTES


CONSTRAINTS: dict[str, Callable[[Any], bool]] = {
    "current_runs": _current_run,
    "executions": _execution,
    "history": _history,
    "snapshots": _snapshot,
    "inbox": _inbox,
    "tasks": _task,
    "timers": _timer,
    "visibility": _visibility,
    "audit": _audit,
}


def check_texts(batch: Batch) -> None:
    """Texts are refused as they arrive, before any fence is looked at."""
    texts = [row.workflow_id for row in batch.current_runs]
    texts += [row.workflow_id for row in batch.executions]
    for row in batch.visibility:
        texts += [row.workflow_id, row.workflow_type, row.task_queue, row.attrs]
    for audited in batch.audit:
        texts += [audited.workflow_id, audited.action]
    for text in texts:
        if "\0" in text:
            raise BatchRefused(UNTRANSLATABLE_CHARACTER, "a text with a zero in it")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BatchRefused(UNTRANSLATABLE_CHARACTER, str(error)) from error


def as_jsonb(text: str) -> str:
    """The text of the value after its way through jsonb: keys by length, then by byte."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise BatchRefused(INVALID_TEXT, "invalid input syntax for type json") from error
    return json.dumps(_ordered(value), ensure_ascii=False)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return {key: _ordered(value[key]) for key in keys}
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return value
