"""Create jobs. What is there already, by its idempotency key, its unique key or because the call is a repeat, is
answered and not made again."""

from __future__ import annotations

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import queue_number
from perdure_engine.core.jobs.decide import batches
from perdure_engine.core.jobs.decide.attempts import shown_status, started
from perdure_engine.core.jobs.decide.due import become_due
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import CreatedJob, CreateJobs
from perdure_engine.core.jobs.memory import unique_key_id
from perdure_engine.core.jobs.model import JobRun, JobSpec, JobStatus, NewJob, UniqueScope
from perdure_engine.core.jobs.replies import JobsCreated
from perdure_engine.core.tasks import TaskKind


def decide(draft: JobDraft, intent: CreateJobs) -> JobsCreated:
    namespace_id = intent.namespace_id
    known = draft.memory.jobs
    batch = batches.joined(draft, intent)
    made: list[CreatedJob | Rejected] = []
    for new in intent.jobs:
        existing = known.get(new.job_id)
        if existing is not None:
            made.append(_again(existing, new.spec))
            continue
        if new.spec.unique is not None:
            holder = live_holder(draft, namespace_id, new.spec)
            if holder is not None:
                made.append(CreatedJob(holder.job_id, False, shown_status(holder)))
                continue
        if batch is not None and batch.sealed:
            made.append(batches.sealed_refusal(batch))
            continue
        run = add(draft, namespace_id, new)
        made.append(CreatedJob(run.job_id, True, run.status))
    if intent.batch is not None and batch is not None:
        batches.told(draft, batch, intent.batch)
    return JobsCreated(made)


def add(draft: JobDraft, namespace_id: bytes, new: NewJob, *, held: bool = False) -> JobRun:
    """Make a job of this shard. What its keys and its batch need is in memory, and its unique key is free.

    `held`: its schedule makes it due, whatever its time says.
    """
    env = draft.env
    now_us, due_us, spec, queue = env.now_us, new.due_us, new.spec, new.queue
    later = due_us > now_us
    if not (later or held):
        due_us = now_us
    run = JobRun(
        new.job_id,
        namespace_id,
        new.task_name,
        queue,
        queue_number(namespace_id, TaskKind.JOB, queue),
        spec,
        new.user_id,
        new.schedule_id,
        new.batch_id,
        JobStatus.PENDING,
        1,
        new.priority,
        now_us,
        due_us,
        0,
        due_us,
    )
    draft.memory.jobs[new.job_id] = run
    draft.jobs[new.job_id] = run
    if spec.unique is not None:
        hold_key(draft, run)
    if new.batch_id:
        batches.count_in(draft, run)
    if spec.expire_us:
        draft.expire_at(run, spec.expire_us)
    if held:
        return run
    if later:
        draft.wake_at(run, due_us)
    elif spec.concurrency is None and not spec.expire_us:
        draft.make_ready(run)
    else:
        become_due(draft, run)
    return run


def _again(existing: JobRun, spec: JobSpec) -> CreatedJob | Rejected:
    if existing.spec.body_hash != spec.body_hash:
        field = "idempotency_key" if spec.idempotency_key else "request_id"
        message = f"{field}: was used before with another job"
        return Rejected(Code.INVALID_ARGUMENT, "REQUEST_ID_REUSED", message, field=field)
    return CreatedJob(existing.job_id, False, shown_status(existing))


# ---- unique keys


def live_holder(draft: JobDraft, namespace_id: bytes, spec: JobSpec) -> JobRun | None:
    """The job because of which no other of this unique key may be made now."""
    unique = spec.unique
    assert unique is not None
    held = draft.memory.keys[unique_key_id(namespace_id, spec)]
    holder = draft.memory.jobs.get(held.job_id)
    if holder is None:
        return None
    match unique.scope:
        case UniqueScope.PENDING:
            live = holder.status is JobStatus.PENDING and not started(holder)
        case UniqueScope.ACTIVE:
            live = holder.open
        case UniqueScope.PERIOD:
            end_us = held.until_us or holder.created_us + unique.period_ms * 1000
            live = draft.env.now_us < end_us
    return holder if live else None


def hold_key(draft: JobDraft, run: JobRun) -> None:
    """The unique key is this job's from now on."""
    unique = run.spec.unique
    assert unique is not None
    key_id = unique_key_id(run.namespace_id, run.spec)
    held = draft.memory.keys[key_id]
    held.job_id = run.job_id
    period = unique.scope is UniqueScope.PERIOD
    held.until_us = run.created_us + unique.period_ms * 1000 if period else 0
    draft.keys[key_id] = held
