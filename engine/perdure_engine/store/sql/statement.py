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
has rows or not. Each form is a prefix of the longest, so that a table's placeholders have the same
numbers in all of them and its text stands, written out, in its own module.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, LiteralString

from perdure_engine.ports.store import Batch
from perdure_engine.store.sql import (
    audit,
    current_runs,
    executions,
    history,
    inbox,
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
_START_CLOSE_TABLES: Final = (*_STEP_TABLES, current_runs.BATCH, visibility.BATCH)
_EVERYTHING_TABLES: Final = (*_START_CLOSE_TABLES, snapshots.BATCH)
_AUDITED_TABLES: Final = (*_EVERYTHING_TABLES, audit.BATCH)


class Form:
    """One text of the closed set, and how a batch becomes its parameters."""

    def __init__(self, tables: tuple[BatchTable, ...]) -> None:
        self.text: Final = _text(tables)
        self._tables: Final = [
            (attrgetter(table.name), table.columns, [column() for column in table.columns])
            for table in tables
        ]

    def parameters(self, batch: Batch) -> list[object]:
        parameters = shard_fence.advance_parameters(batch.fences, batch.batch_id)
        rows: list[tuple[Any, ...]]
        for rows_of, columns, no_rows in self._tables:
            if rows := rows_of(batch):
                parameters += [
                    column(values)
                    for column, values in zip(columns, zip(*rows, strict=True), strict=True)
                ]
            else:
                parameters += no_rows
        return parameters


def _text(tables: tuple[BatchTable, ...]) -> LiteralString:
    writes = ",\n".join([table.write for table in tables])
    complete = "\n        and ".join([table.complete for table in tables])
    # clock_timestamp() is a lower bound of database time when the answer arrives.
    return (
        "with " + shard_fence.ADVANCE + ",\n" + writes + "\n"
        "select clock_timestamp() as db_now,\n"
        "  case when (select g.held from g)\n"
        "    then div(1::numeric, (case when " + complete + "\n"
        "      then 1 else 0 end)::numeric)::int8\n"
        "    else " + shard_fence.LOST + "\n"
        "  end as guard"
    )


class _AuditedForm(Form):
    """Its last table's rows get a column that is made of them here."""

    def parameters(self, batch: Batch) -> list[object]:
        return EVERYTHING.parameters(batch) + audit.rows_parameters(batch.audit)


STEP: Final = Form(_STEP_TABLES)
START_CLOSE: Final = Form(_START_CLOSE_TABLES)
EVERYTHING: Final = Form(_EVERYTHING_TABLES)
AUDITED: Final = _AuditedForm(_AUDITED_TABLES)

STATEMENTS: Final[dict[str, LiteralString]] = {
    "batch.step": STEP.text,
    "batch.start_close": START_CLOSE.text,
    "batch.everything": EVERYTHING.text,
    "batch.audited": AUDITED.text,
}


def form_of(batch: Batch) -> Form:
    """The shortest form that carries the batch."""
    if batch.audit:
        return AUDITED
    if batch.snapshots:
        return EVERYTHING
    if batch.current_runs or batch.visibility:
        return START_CLOSE
    return STEP
