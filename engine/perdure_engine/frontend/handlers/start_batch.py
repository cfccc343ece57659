"""StartBatchOperation: an operation on every run that a filter finds, as a job of the engine's own."""

from __future__ import annotations

import hashlib

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.audit import Action, AuditRow, Entry
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.intents import Reapply, ResetType
from perdure_engine.frontend import checks, filters
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.batches import BatchJob, BatchOperation, BatchRow, targets_of

OPERATIONS = frozenset(BatchOperation)


# Of defaults nothing is hashed: a job of an engine that did not know them is the same one.
class StartBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    namespace_id: bytes
    job_id: str
    query: str
    operation: int
    reason: str
    identity: str
    signal_name: str
    signal_input: bytes
    rps: int
    dry_run: bool
    reset_type: ResetType | None = None
    build_id: str = ""
    reapply_exclude: tuple[Reapply, ...] = ()


async def start_batch(frontend: Frontend, asked: StartBatch) -> int:
    """How many runs the filter finds now. With `dry_run` that is all. A job that is there already, asked for
    with the same words, is left as it is."""
    _check(asked)
    now_us = frontend.db_now_us()
    filters.condition("query", asked.query, now_us)
    job = BatchJob(
        operation=BatchOperation(asked.operation),
        query=asked.query,
        reason=asked.reason,
        identity=asked.identity,
        rps=asked.rps or limits.BATCH_RPS_DEFAULT,
        total=0,
        body_hash=_body_hash(asked),
        signal_name=asked.signal_name,
        signal_input=asked.signal_input,
        reset_type=asked.reset_type,
        build_id=asked.build_id,
        reapply_exclude=asked.reapply_exclude,
    )
    if not asked.dry_run:
        there = await _there(frontend, asked, job)
        if there is not None:
            return there.job.total
    where = targets_of(asked.namespace_id, job, now_us, filters.read_condition)
    total = await frontend.visibility.count_runs(where)
    if asked.dry_run:
        return total
    row = BatchRow(
        asked.namespace_id, asked.job_id, now_us, None, msgspec.structs.replace(job, total=total)
    )
    return await _save(frontend, asked, row)


async def _save(frontend: Frontend, asked: StartBatch, row: BatchRow) -> int:
    async def save(audited: AuditRow) -> bool:
        return await frontend.batches.start_batch(row, audited)

    if await frontend.ledger.write(_entry(row), save):
        frontend.batch_begun()
        return row.job.total
    there = await _there(frontend, asked, row.job)  # somebody else, or we ourselves, just before
    return row.job.total if there is None else there.job.total


async def _there(frontend: Frontend, asked: StartBatch, job: BatchJob) -> BatchRow | None:
    """Raises ALREADY_EXISTS for a job of that id that does something else."""
    there = await frontend.batches.load_batch(asked.namespace_id, asked.job_id)
    if there is not None and there.job.body_hash != job.body_hash:
        raise Rejected(
            Code.ALREADY_EXISTS,
            "BATCH_ALREADY_EXISTS",
            "job_id: there is a batch operation of that id, which was asked for otherwise",
            field="job_id",
        )
    return there


def _check(asked: StartBatch) -> None:
    if asked.job_id or not asked.dry_run:
        checks.name("job_id", asked.job_id)
    if not asked.query.strip():
        raise invalid("query", "is required: name the runs")
    if asked.operation not in OPERATIONS:
        raise invalid("operation", "is not an operation")
    checks.prose("reason", asked.reason)
    checks.label("identity", asked.identity)
    if asked.operation == BatchOperation.SIGNAL:
        checks.signal_name("signal_name", asked.signal_name)
        checks.size("signal_input", asked.signal_input)
    elif asked.signal_name or asked.signal_input:
        raise invalid("signal_name", "is for the operation SIGNAL only")
    _check_reset(asked)
    if not 0 <= asked.rps <= limits.BATCH_RPS_MAX:
        raise invalid("rps", f"must lie between 0 and {limits.BATCH_RPS_MAX}")


def _check_reset(asked: StartBatch) -> None:
    if asked.operation != BatchOperation.RESET:
        if asked.reset_type is not None or asked.build_id or asked.reapply_exclude:
            raise invalid("reset_type", "is for the operation RESET only")
        return
    if asked.reset_type is None:
        raise invalid("reset_type", "is required with the operation RESET")
    checks.build_of_reset(asked.reset_type, asked.build_id)


def _body_hash(asked: StartBatch) -> bytes:
    same = msgspec.structs.replace(asked, dry_run=False)
    return hashlib.blake2b(msgspec.msgpack.encode(same), digest_size=8).digest()


def _entry(row: BatchRow) -> Entry:
    job = row.job
    return Entry(
        time_us=row.started_us,
        action=Action.START_BATCH,
        namespace_id=row.namespace_id,
        identity=job.identity,
        reason=job.reason,
        subject=row.job_id,
        after=f"{_operation(job)} {job.total} runs: {job.query}",
    )


def _operation(job: BatchJob) -> str:
    if job.reset_type is None:
        return job.operation.name
    to = f"{job.operation.name} to {job.reset_type.name}"
    return f"{to} {job.build_id!r}" if job.build_id else to
