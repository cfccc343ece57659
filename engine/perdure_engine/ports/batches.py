"""Batch operations: one operation on every run that a filter finds, worked off by the engine itself.

A job has a part in each shard, which the shard's owner works off: it walks through the shard's list
rows by run id, so that a part is resumed where it was saved. Before a part acts on runs it saves which,
so that after a crash the same runs are acted on again, with the same request ids, and counted once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from perdure_engine.core.audit import AuditRow
from perdure_engine.core.intents import Reapply, ResetType
from perdure_engine.core.status import Status
from perdure_engine.ports.filters import And, Column, Compare, Expression, IsNull, Not, Operator
from perdure_engine.ports.store import VisibilityFilter


class BatchOperation(enum.IntEnum):
    TERMINATE = 1
    CANCEL = 2
    SIGNAL = 3
    DELETE = 4
    RESET = 5
    PAUSE = 6
    UNPAUSE = 7


class BatchJob(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What was asked, saved once. Fields are only ever appended, with defaults."""

    operation: BatchOperation
    query: str
    reason: str
    identity: str
    rps: int  # operations a second, of all shards together
    total: int  # runs that the filter found when the job began
    body_hash: bytes
    signal_name: str = ""
    signal_input: bytes = b""
    reset_type: ResetType | None = None
    build_id: str = ""
    reapply_exclude: tuple[Reapply, ...] = ()


class BatchRow(NamedTuple):
    namespace_id: bytes
    job_id: str
    started_us: int
    stopped_us: int | None
    job: BatchJob


class PartState(enum.IntEnum):
    OPEN = 1
    CLOSED = 2


class Target(NamedTuple):
    run_id: bytes
    workflow_id: str


class TargetPage(NamedTuple):
    """What the filter found among some rows that follow each other, and how far they go."""

    targets: list[Target]
    last_run_id: bytes | None  # the next page begins behind it; None: there are no further rows


def target_page(rows: list[tuple[Target, bool]], looked_at: int, limit: int) -> TargetPage:
    """Of `rows` with whether the filter finds them. There are further ones if there are as many as were looked at."""
    targets: list[Target] = []
    for target, found in rows:
        if found:
            targets.append(target)
            if len(targets) == limit:
                return TargetPage(targets, target.run_id)
    return TargetPage(targets, rows[-1][0].run_id if len(rows) == looked_at else None)


def rows_to_look_at(limit: int) -> int:
    """Enough to find `limit` where one in ten is found, and never so many that a page takes long."""
    return max(100, min(1_000, 10 * limit))


class PartRow(NamedTuple):
    """One shard's part. `version` as stored: it is saved where the stored one is still the same."""

    shard_id: int
    namespace_id: bytes
    job_id: str
    state: int
    position: bytes  # up to and with this run id the shard's runs have been taken
    pending: tuple[Target, ...]  # taken last: acted on, or about to be
    done: int  # of those before
    failed: int
    last_failure: str
    saved_us: int
    version: int


BatchKey = tuple[int, str]
"""The last job of a page: its start, its id."""


class BatchStore(Protocol):
    async def start_batch(self, row: BatchRow, audited: AuditRow) -> bool:
        """Save the job, a part for each shard, and the row of the audit log. False: the id is taken.

        Raises BatchRefused 23505 when the place in the chain is taken; so does `stop_batch`.
        """
        ...

    async def stop_batch(self, row: BatchRow, audited: AuditRow) -> bool:
        """Save `row.stopped_us` and the row of the audit log. False: it is stopped already, or not there."""
        ...

    async def load_batch(self, namespace_id: bytes, job_id: str) -> BatchRow | None: ...

    async def load_batch_parts(self, namespace_id: bytes, job_id: str) -> list[PartRow]:
        """Of all shards, in their order."""
        ...

    async def list_batches(
        self, namespace_id: bytes, before: BatchKey | None, limit: int
    ) -> list[BatchRow]:
        """Newest first, strictly past `before`."""
        ...

    async def load_open_batch_parts(self, shard_ids: list[int]) -> list[PartRow]: ...

    async def save_batch_part(self, row: PartRow) -> bool:
        """Replace the part, whose version grows by one. False: somebody else has saved it, or it is gone."""
        ...

    async def load_batch_targets(
        self, shard_id: int, where: VisibilityFilter, after_run_id: bytes, limit: int
    ) -> TargetPage:
        """Look at some runs of the shard past a run id, in the order of their ids: at most `limit` targets."""
        ...

    async def remove_batch(self, namespace_id: bytes, job_id: str) -> None:
        """With its parts."""
        ...


encode_job = msgspec.msgpack.Encoder().encode
decode_job = msgspec.msgpack.Decoder(BatchJob).decode
encode_pending = msgspec.msgpack.Encoder().encode
decode_pending = msgspec.msgpack.Decoder(tuple[Target, ...]).decode

# Clocks of two nodes: who began just before the call is among the runs.
STARTED_SLACK_US = 1_000_000

_PAUSED = Compare(Column.STATUS, Operator.EQ, Status.PAUSED)
_CONTINUED = Compare(Column.STATUS, Operator.EQ, Status.CONTINUED_AS_NEW)
_OPEN = IsNull(Column.CLOSE_TIME)

# What a run must be to be a target. One that continued as new is never its id's newest, which a reset wants.
_TAKES: dict[BatchOperation, Expression | None] = {
    BatchOperation.TERMINATE: _OPEN,
    BatchOperation.CANCEL: _OPEN,
    BatchOperation.SIGNAL: _OPEN,
    BatchOperation.DELETE: None,
    BatchOperation.RESET: Not(_CONTINUED),
    BatchOperation.PAUSE: And((_OPEN, Not(_PAUSED))),
    BatchOperation.UNPAUSE: _PAUSED,
}

ReadQuery = Callable[[str, int], Expression | None]
"""A filter's text, read as of an instant. The text is what is saved: it means the same with each reading."""


def targets_of(
    namespace_id: bytes, job: BatchJob, started_us: int, read: ReadQuery
) -> VisibilityFilter:
    """The runs that a job is about: those that were there when it began. Only delete and reset take closed ones."""
    expression = read(job.query, started_us)
    more = _TAKES[job.operation]
    if more is not None:
        expression = more if expression is None else And((expression, more))
    start_max_us = started_us + STARTED_SLACK_US
    return VisibilityFilter(namespace_id, start_max_us=start_max_us, expression=expression)
