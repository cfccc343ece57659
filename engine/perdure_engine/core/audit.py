"""The audit log: what operators did, append-only and chained by hashes, so that a change shows.

Theory of operation (adr/0015). Each shard has a chain, written in the statement that saves the action
itself; chain 0 is the installation's own (namespaces, batch operations). A row's `content` is the bytes
of a `Link`, and its hash covers the hash of the row before it and these bytes: whoever changes,
removes, adds or moves a row must make all later hashes anew, and then the head differs from the one
that somebody wrote down.
"""

from __future__ import annotations

import enum
import hashlib
from typing import NamedTuple

import msgspec

INSTALLATION = 0
"""The chain of what belongs to no shard. Shards begin at 1."""

ENGINE = "perdure"
"""Who is said to have done what nobody asked for."""

BEFORE_FIRST = bytes(32)
"""Stands where the first row of a chain has the hash of the row before it."""


class Action(enum.StrEnum):
    """What was done. A word, once used, keeps its meaning: it is in the hashes."""

    TERMINATE = "workflow.terminate"
    CANCEL = "workflow.cancel"
    DELETE = "workflow.delete"
    RESET = "workflow.reset"
    PAUSE = "workflow.pause"
    UNPAUSE = "workflow.unpause"
    SUSPEND = "workflow.suspend"  # by the engine
    RESUME = "workflow.resume"
    PAUSE_ACTIVITY = "activity.pause"
    UNPAUSE_ACTIVITY = "activity.unpause"
    RESET_ACTIVITY = "activity.reset"
    UPDATE_ACTIVITY_OPTIONS = "activity.update_options"
    UPDATE_OPTIONS = "workflow.update_options"  # its versioning override
    SAGA_WORD = "saga.word"  # an operator told a saga to retry or skip
    COMPENSATION = "saga.compensation"  # how a compensation went
    CREATE_NAMESPACE = "namespace.create"
    UPDATE_NAMESPACE = "namespace.update"
    SET_CURRENT_VERSION = "deployment.set_current"
    SET_RAMPING_VERSION = "deployment.set_ramping"
    RETIRE_VERSION = "deployment.retire"
    START_BATCH = "batch.start"
    STOP_BATCH = "batch.stop"
    CANCEL_JOB = "job.cancel"
    RESCHEDULE_JOB = "job.reschedule"
    REDRIVE_JOB = "job.redrive"
    SUSPEND_JOB = "job.suspend"  # by the engine
    RESUME_JOB = "job.resume"
    SET_QUEUE_LIMIT = "queue.set_limit"
    UPDATE_SCHEDULE = "schedule.update"
    DELETE_SCHEDULE = "schedule.delete"
    PAUSE_SCHEDULE = "schedule.pause"
    UNPAUSE_SCHEDULE = "schedule.unpause"
    TRIGGER_SCHEDULE = "schedule.trigger"
    BACKFILL_SCHEDULE = "schedule.backfill"
    EXPIRE_AUDIT = "audit.expire"  # the oldest rows of a chain are over their time


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """One action. Fields are only ever appended, with defaults.

    `subject`: which part of the run, or what else it was done to (an activity id, a job id, a name).
    `before` and `after` are short texts: a status, or settings.
    """

    time_us: int  # a lower bound of the database's time when it was decided
    action: str
    namespace_id: bytes = b""
    workflow_id: str = ""
    run_id: bytes = b""
    identity: str = ""
    reason: str = ""
    request_id: bytes = b""
    subject: str = ""
    before: str = ""
    after: str = ""


class Link(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry at its place: what is hashed."""

    chain: int
    seq: int
    entry: Entry


class Head(msgspec.Struct, frozen=True, gc=False):
    """How far a chain goes: its last row. `seq` 0: it has none."""

    chain: int
    seq: int = 0
    hash: bytes = BEFORE_FIRST
    time_us: int = 0


class AuditRow(NamedTuple):
    """A row of `audit`. What stands in columns of its own, for lists, stands in the content too."""

    shard_id: int  # the chain
    seq: int
    time_us: int
    namespace_id: bytes
    workflow_id: str
    action: str
    content: bytes
    hash: bytes


class Broken(Exception):
    """The chain does not hold at row `seq`."""

    def __init__(self, chain: int, seq: int, why: str) -> None:
        super().__init__(f"chain {chain}, row {seq}: {why}")
        self.chain = chain
        self.seq = seq
        self.why = why


NO_NAMESPACE = bytes(16)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Link).decode


def append(head: Head, entry: Entry) -> tuple[AuditRow, Head]:
    """The entry as the next row of the chain, and the head with it. Time never goes back in a chain."""
    time_us = max(entry.time_us, head.time_us)
    if time_us != entry.time_us:
        entry = msgspec.structs.replace(entry, time_us=time_us)
    seq = head.seq + 1
    content = _encode(Link(head.chain, seq, entry))
    digest = _hash(head.hash, content)
    row = AuditRow(
        head.chain,
        seq,
        time_us,
        entry.namespace_id or NO_NAMESPACE,
        entry.workflow_id,
        entry.action,
        content,
        digest,
    )
    return row, Head(head.chain, seq, digest, time_us)


def entry_of(row: AuditRow) -> Entry:
    """Raises Broken for bytes that are no entry."""
    return _link(row).entry


def check(before: Head, row: AuditRow) -> Head:
    """The head with the row, which follows `before`. Raises Broken."""
    if row.seq != before.seq + 1:
        raise Broken(before.chain, before.seq + 1, f"the row is missing (the next is {row.seq})")
    if _hash(before.hash, row.content) != row.hash:
        raise Broken(
            before.chain, row.seq, "its hash is not that of its content and the row before"
        )
    link = _link(row)
    entry = link.entry
    shown = (row.shard_id, row.seq, row.time_us, row.namespace_id, row.workflow_id, row.action)
    meant = (
        link.chain,
        link.seq,
        entry.time_us,
        entry.namespace_id or NO_NAMESPACE,
        entry.workflow_id,
        entry.action,
    )
    if shown != meant or row.shard_id != before.chain:
        raise Broken(before.chain, row.seq, "its columns are not what its content says")
    return Head(before.chain, row.seq, row.hash, row.time_us)


def begins_at(head: Head) -> str:
    """How an EXPIRE_AUDIT entry names the last row that goes: `after` of the entry."""
    return f"{head.seq} {head.hash.hex()}"


def _hash(before: bytes, content: bytes) -> bytes:
    return hashlib.sha256(before + content).digest()


def _link(row: AuditRow) -> Link:
    try:
        return _decode(row.content)
    except msgspec.MsgspecError as error:
        raise Broken(row.shard_id, row.seq, f"its content cannot be read: {error}") from None
