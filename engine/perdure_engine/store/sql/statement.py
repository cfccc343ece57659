"""The batch: one autocommit statement that saves the decided work of several shards, or nothing.

Theory of operation (design §3; proofs and costs in the reference). A chain of data-modifying CTEs
over arrays, each an upsert or a plain insert, because at SERIALIZABLE PostgreSQL locks whole index
pages for what an UPDATE, DELETE or SELECT finds, and unrelated shards then abort each other. Three
parts:

- **fence first** (`shard_fence.ADVANCE`): advances the sequence of each shard that is still ours.
  All other CTEs join it, so that no row of a shard without its fence is ever written.
- **rows**: a versioned row travels as 1 (new) or -v (now stored at v). An update matches only
  `t.version = -excluded.version` and stores v + 1; a new row that exists matches nothing, an update
  whose row is gone is inserted with a negative version.
- **guard last**: 22P02 when a fence is lost, 22012 when in any table fewer rows came back (with a
  version above 0) than were sent: memory and database differ.

The forms differ by the tables they carry: executor start-up costs 25-40 µs for each CTE, whether it
has rows or not. A table's text stands, written out, in its own module, with the numbers that its
placeholders have in the longest form. A form that leaves out tables before it moves them down
(`_moved`). Most steps of an idle system touch neither the inbox nor the timers: without the two it
saves the database 8 % of W3.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final, LiteralString

from perdure_engine.ports.store import Batch
from perdure_engine.store.sql import (
    audit,
    current_runs,
    executions,
    history,
    inbox,
    job_batches,
    job_keys,
    job_runs,
    schedule_slots,
    schedules,
    shard_fence,
    snapshots,
    tasks,
    timers,
    visibility,
)
from perdure_engine.store.sql.table import BatchTable

_STEP_TABLES: Final = (
    executions.BATCH,
    history.BATCH,
    inbox.BATCH,
    tasks.BATCH,
    timers.BATCH,
)
_PLAIN_STEP_TABLES: Final = (executions.BATCH, history.BATCH, tasks.BATCH)
_PLAIN_START_CLOSE_TABLES: Final = (*_PLAIN_STEP_TABLES, current_runs.BATCH, visibility.BATCH)
_START_CLOSE_TABLES: Final = (*_STEP_TABLES, current_runs.BATCH, visibility.BATCH)
_EVERYTHING_TABLES: Final = (*_START_CLOSE_TABLES, snapshots.BATCH)
_AUDITED_TABLES: Final = (*_EVERYTHING_TABLES, audit.BATCH)
_MIXED_TABLES: Final = (
    *_AUDITED_TABLES,
    job_runs.BATCH,
    job_keys.BATCH,
    job_batches.BATCH,
    schedules.BATCH,
    schedule_slots.BATCH,
)
_JOB_RUNS_TABLES: Final = (job_runs.BATCH,)
_JOBS_TABLES: Final = (timers.BATCH, job_runs.BATCH, job_keys.BATCH)


class Form:
    """One text of the closed set, and how a batch becomes its parameters."""

    def __init__(self, tables: tuple[BatchTable, ...]) -> None:
        self.text: Final = _text(tables)
        self._tables: Final = [
            (attrgetter(table.name), table.parameters, table.parameters([])) for table in tables
        ]

    def parameters(self, batch: Batch) -> list[object]:
        parameters = shard_fence.advance_parameters(batch.fences, batch.batch_id)
        for rows_of, parameters_of, no_rows in self._tables:
            rows = rows_of(batch)
            parameters += parameters_of(rows) if rows else no_rows
        return parameters


def _text(tables: tuple[BatchTable, ...]) -> LiteralString:
    texts, number = [], shard_fence.ADVANCE_PARAMETERS + 1
    for table in tables:
        texts.append([_moved(text, table, number) for text in (table.write, table.complete)])
        number += table.width
    return shard_fence.guarded([write for write, _ in texts], [complete for _, complete in texts])


def _moved(text: LiteralString, table: BatchTable, to: int) -> LiteralString:
    """A table's text with its placeholders from number `to` on. Only ever down: in this order none that was moved
    is moved again.
    """
    first = table.first
    assert to <= first
    for number in range(table.width):
        text = text.replace(_placeholder(first + number), _placeholder(to + number))
    return text


def _placeholder(number: int) -> LiteralString:
    """With the beginning of its cast, which follows each of them: $1 is not the beginning of $10."""
    return "$" + "".join([_DIGITS[int(digit)] for digit in str(number)]) + "::"


# Literals, so that a text made of them is one to the type checker too.
_DIGITS: Final[tuple[LiteralString, ...]] = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")

PLAIN_STEP: Final = Form(_PLAIN_STEP_TABLES)
PLAIN_START_CLOSE: Final = Form(_PLAIN_START_CLOSE_TABLES)
STEP: Final = Form(_STEP_TABLES)
START_CLOSE: Final = Form(_START_CLOSE_TABLES)
EVERYTHING: Final = Form(_EVERYTHING_TABLES)
AUDITED: Final = Form(_AUDITED_TABLES)
JOB_RUNS: Final = Form(_JOB_RUNS_TABLES)
JOBS: Final = Form(_JOBS_TABLES)
MIXED: Final = Form(_MIXED_TABLES)

STATEMENTS: Final[dict[str, LiteralString]] = {
    "batch.plain_step": PLAIN_STEP.text,
    "batch.plain_start_close": PLAIN_START_CLOSE.text,
    "batch.step": STEP.text,
    "batch.start_close": START_CLOSE.text,
    "batch.everything": EVERYTHING.text,
    "batch.audited": AUDITED.text,
    "batch.job_runs": JOB_RUNS.text,
    "batch.jobs": JOBS.text,
    "batch.mixed": MIXED.text,
}


def form_of(batch: Batch) -> Form:
    """The shortest form that carries the batch."""
    if batch.job_batches or batch.schedules or batch.schedule_slots:
        return MIXED
    if batch.job_runs or batch.job_keys:
        if _has_runs(batch):
            return MIXED
        return JOBS if batch.timers or batch.job_keys else JOB_RUNS
    if batch.audit:
        return AUDITED
    if batch.snapshots:
        return EVERYTHING
    if batch.inbox or batch.timers:
        return START_CLOSE if batch.current_runs or batch.visibility else STEP
    return PLAIN_START_CLOSE if batch.current_runs or batch.visibility else PLAIN_STEP


def _has_runs(batch: Batch) -> bool:
    """Rows that the forms for jobs do not carry."""
    return bool(
        batch.executions
        or batch.history
        or batch.inbox
        or batch.tasks
        or batch.current_runs
        or batch.visibility
        or batch.snapshots
        or batch.audit
    )
