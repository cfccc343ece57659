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
    JobBatchRow,
    JobKeyRow,
    JobRunRow,
    ScheduleRow,
    ScheduleSlotRow,
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
JOB_STATUS_MAX = 9
JOB_OPEN = (1, 2, 3, 8, 9)
ORIGIN_MAX = 3
OUTCOME_MAX = 8


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


def _job_run(row: JobRunRow) -> bool:
    return (
        (row.version < 0 or 0 <= row.bucket <= BUCKET_MAX)  # an update does not say it
        and 1 <= row.status <= JOB_STATUS_MAX
        and (row.status in JOB_OPEN) == (row.closed_us is None)
        and (row.task_id == 0 or row.closed_us is None)
        and row.attempt >= 0
        and row.start_no >= 0
        and row.version != 0
    )


def _job_key(row: JobKeyRow) -> bool:
    return row.kind >= 1 and row.key != "" and row.version != 0


def _job_batch(row: JobBatchRow) -> bool:
    return row.batch_id != "" and 0 <= row.open <= row.total and row.version != 0


def _schedule(row: ScheduleRow) -> bool:
    return row.schedule_id != "" and row.conflict_token >= 1 and row.version != 0


def _schedule_slot(row: ScheduleSlotRow) -> bool:
    return 1 <= row.origin <= ORIGIN_MAX and 1 <= row.outcome <= OUTCOME_MAX and row.version != 0


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
    "job_runs": _job_run,
    "job_keys": _job_key,
    "job_batches": _job_batch,
    "schedules": _schedule,
    "schedule_slots": _schedule_slot,
}


def check_texts(batch: Batch) -> None:
    """Texts are refused as they arrive, before any fence is looked at."""
    texts = [row.workflow_id for row in batch.current_runs]
    texts += [row.workflow_id for row in batch.executions]
    for row in batch.visibility:
        texts += [row.workflow_id, row.workflow_type, row.task_queue, row.attrs]
    for audited in batch.audit:
        texts += [audited.workflow_id, audited.action]
    for text in [*texts, *_texts_of_jobs(batch)]:
        if "\0" in text:
            raise BatchRefused(UNTRANSLATABLE_CHARACTER, "a text with a zero in it")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BatchRefused(UNTRANSLATABLE_CHARACTER, str(error)) from error


def _texts_of_jobs(batch: Batch) -> list[str]:
    texts: list[str] = [row.key for row in batch.job_keys]
    texts += [row.batch_id for row in batch.job_batches]
    for job in batch.job_runs:
        if job.version > 0:
            texts += [job.task_name, job.queue, job.user_id]
            texts += [job.schedule_id, job.concurrency_key, job.batch_id]
    for schedule in batch.schedules:
        texts += [schedule.schedule_id, schedule.user_id]
    for slot in batch.schedule_slots:
        texts += [slot.schedule_id, slot.target_id, slot.detail]
    return texts


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
