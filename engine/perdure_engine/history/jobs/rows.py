"""Jobs, keys and batches as rows, and back."""

from __future__ import annotations

from perdure_engine.core.jobs.decide.describe import state_of
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.memory import BatchState, JobBatch, KeyId, UniqueKey
from perdure_engine.core.jobs.model import JobRun, JobSpec, JobState, JobStatus
from perdure_engine.core.tasks import TimerKind, TimerRecord
from perdure_engine.history.rows import BUCKETS, add_gone_timer, add_timer, version_to_send
from perdure_engine.ports.codec import Codec, CorruptRow
from perdure_engine.ports.rows import JobBatchRow, JobKeyRow, JobRunRow
from perdure_engine.ports.store import Batch

NO_NAMESPACE = bytes(16)


def add_jobs(batch: Batch, shard_id: int, draft: JobDraft, codec: Codec) -> None:
    """Append all rows of the draft, but those of the audit log."""
    make, encode_spec, encode_state = JobRunRow._make, codec.encode_job_spec, codec.encode_job_state
    bucket = shard_id % BUCKETS
    runs = draft.jobs.values()
    # By `_make`, which takes half the time of a call with 23 arguments. One line is one group of columns.
    # fmt: off
    batch.job_runs += [
        make((
            shard_id, run.job_id, run.namespace_id, bucket,
            run.task_name, run.queue, run.queue_no, run.user_id, run.schedule_id,
            "" if run.spec.concurrency is None else run.spec.concurrency.key, run.batch_id,
            run.status, run.attempt, run.priority,
            run.created_us, run.scheduled_us, run.closed_us or None,
            run.task_id, run.start_no,
            encode_spec(run.spec), encode_state(state_of(run)), run.result, 1,
        ))
        for run in runs if not run.version
    ]
    batch.job_runs += [  # nothing is sent of what stays as it is
        make((
            shard_id, run.job_id, NO_NAMESPACE, 0,
            "", "", run.queue_no, "", "",
            "", "",
            run.status, run.attempt, run.priority,
            0, run.scheduled_us, run.closed_us or None,
            run.task_id, run.start_no,
            b"", encode_state(state_of(run)), run.result, -run.version,
        ))
        for run in runs if run.version
    ]
    # fmt: on
    for job_id, timer in draft.timers:
        add_timer(batch, shard_id, job_id, timer)
    for job_id, timer in draft.gone_timers:
        add_gone_timer(batch, shard_id, job_id, timer)
    for key_id, held in draft.keys.items():
        batch.job_keys.append(_key_row(shard_id, key_id, held))
    for one in draft.batches.values():
        batch.job_batches.append(_batch_row(shard_id, one, codec))


def saved(draft: JobDraft) -> None:
    """The statement is committed: the records learn their stored versions."""
    for run in draft.jobs.values():
        run.version += 1
        run.busy = False
    for _, timer in draft.timers:
        timer.version = 1
    for held in draft.keys.values():
        held.version += 1
    for batch in draft.batches.values():
        batch.version += 1


def job_of_row(row: JobRunRow, codec: Codec) -> JobRun:
    """Raises CorruptRow."""
    spec, state = codec.decode_job_spec(row.spec), codec.decode_job_state(row.state)
    try:
        status = JobStatus(row.status)
    except ValueError as error:
        raise CorruptRow(f"job status {row.status}") from error
    timer, expiry = state.timer, state.expiry
    return JobRun(
        row.job_id,
        row.namespace_id,
        row.task_name,
        row.queue,
        row.queue_no,
        spec,
        row.user_id,
        row.schedule_id,
        row.batch_id,
        status,
        row.attempt,
        row.priority,
        row.created_us,
        row.scheduled_us,
        row.closed_us or 0,
        state.due_us,
        state.ready_us,
        row.task_id,
        row.start_no,
        state.started_us,
        state.worker_id,
        state.worker_identity,
        state.failures,
        state.progress,
        state.progress_version,
        state.cancel_us,
        state.reason,
        state.request_id,
        state.request_body,
        state.key_place,
        row.result,
        None if timer is None else _timer(TimerKind.JOB_DUE, *timer, state.due_us),
        None if expiry is None else _timer(TimerKind.JOB_EXPIRY, *expiry, _end_us(spec, state)),
        row.version,
        crashes=state.crashes,
    )


def _end_us(spec: JobSpec, state: JobState) -> int:
    """What the JOB_EXPIRY timer stands for: of a poisoned job, when it is suspended."""
    crashes = state.crashes
    return crashes.suspended_us if crashes is not None and crashes.is_poisoned else spec.expire_us


def _timer(kind: TimerKind, wake_us: int, timer_id: int, due_us: int) -> TimerRecord:
    return TimerRecord(kind, 0, wake_us, timer_id, due_us, version=1)


def _key_row(shard_id: int, key_id: KeyId, held: UniqueKey) -> JobKeyRow:
    return JobKeyRow(
        shard_id, *key_id, held.job_id, held.until_us or None, version_to_send(held.version)
    )


def key_of_row(row: JobKeyRow) -> UniqueKey:
    return UniqueKey(row.job_id, row.until_us or 0, row.version)


def _batch_row(shard_id: int, batch: JobBatch, codec: Codec) -> JobBatchRow:
    state = BatchState(
        batch.completed,
        batch.failed,
        batch.cancelled,
        batch.skipped,
        batch.callback,
        batch.over,
        batch.callback_job_id,
        batch.ended_us,
    )
    return JobBatchRow(
        shard_id,
        batch.namespace_id,
        batch.batch_id,
        batch.total,
        batch.open,
        batch.sealed,
        codec.encode_job_batch(state),
        version_to_send(batch.version),
    )


def batch_of_row(row: JobBatchRow, codec: Codec) -> JobBatch:
    """Raises CorruptRow."""
    state = codec.decode_job_batch(row.state)
    return JobBatch(
        row.namespace_id,
        row.batch_id,
        row.total,
        row.open,
        row.sealed,
        state.completed,
        state.failed,
        state.cancelled,
        state.skipped,
        state.callback,
        state.over,
        state.callback_job_id,
        state.ended_us,
        row.version,
    )
