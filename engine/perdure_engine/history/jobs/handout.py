"""Handing jobs to workers (design §6): as activities, a start may be handed out before it is saved, unless the job may
be tried once only."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure_engine.core.errors import Rejected
from perdure_engine.core.jobs.intents import PutBackJobs, SaveJobStarts
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.tasks import Handout, TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.ports.history import Handed, HandedJobTask, StartOutcome, WorkerRef
from perdure_engine.ports.matching import TaskOffer

if TYPE_CHECKING:
    from perdure_engine.history.jobs.jobs import Jobs

ENDS_WAITING = (JobStatus.PENDING, JobStatus.POISONED)
"""What waits so is skipped, or suspended, when its JOB_EXPIRY timer fires."""


def start_job(jobs: Jobs, offer: TaskOffer, worker: WorkerRef) -> StartOutcome:
    """See ports.history. A job that is not to be had at this moment is offered again as soon as it is."""
    shard = jobs.shard
    run = jobs.memory.jobs.get(offer.run_id)
    if run is None:
        jobs.load_to_offer(offer)
        return None
    if run.busy:
        jobs.offer_when_free(offer)
        return None
    if run.task_id != offer.task_id or run.handout is not None:
        jobs.queues.forget(offer)
        return None
    rooms = shard.rooms
    if shard.unproven or not rooms.lease_valid():
        shard.work_waits()  # the writer proves that it is ours
        jobs.queues.offer_soon()
        return None
    if (worker.pool or run.crashes is not None) and worker.pool != run.pool:
        jobs.queues.offer(run)  # it has gone to another pool since it was offered
        return None
    if (worker.version or rooms.routing.active) and (
        jobs.queues.version_of(run.namespace_id, run.queue, run.job_id) != worker.version
    ):
        jobs.queues.offer(run)  # its version has changed since it was offered
        return None
    now_us = rooms.database_clock.low_us()
    if run.expiry is not None and now_us >= run.expiry.due_us and run.status in ENDS_WAITING:
        return None  # its timer is about to say so; one that has started in time has none any more
    handed = _hand_out(jobs, run, worker, max(now_us, run.ready_us))
    if run.spec.retry.maximum_attempts == 1:
        return asyncio.ensure_future(_saved_first(jobs, handed))
    return handed


def _hand_out(jobs: Jobs, run: JobRun, worker: WorkerRef, started_us: int) -> HandedJobTask:
    """Mark the job as started by this worker, in memory, and make the token that says so."""
    shard = jobs.shard
    rooms = shard.rooms
    start_no = shard.new_number()
    now = rooms.clock.monotonic()
    timeout_ms = run.spec.timeout_ms
    run.start_no = start_no
    run.started_us = started_us
    run.worker_id = worker.worker_id
    run.worker_identity = worker.identity
    handout = run.handout = Handout(
        start_no,
        worker.worker_id,
        worker.identity,
        started_us,
        now + rooms.config.lease_s,
        beat_us=started_us,
    )
    token = TaskToken(
        shard.shard_id,
        run.namespace_id,
        run.job_id,
        TaskKind.JOB,
        0,
        run.attempt,
        start_no,
        started_us,
        started_us + timeout_ms * 1000 if timeout_ms else 0,
    )
    rooms.metrics.job_start_delay_seconds.observe((started_us - run.due_us) / 1_000_000)
    jobs.queues.handed_out(run)
    jobs.in_use(run)
    jobs.leases.hand_out(run, handout, token, now)
    return HandedJobTask(token, run, started_us)


async def _saved_first(jobs: Jobs, handed: HandedJobTask) -> Handed | None:
    """A job that may be tried once only: the start is saved before a worker hears of it."""
    shard, token = jobs.shard, handed.token
    try:
        await shard.submit_job(SaveJobStarts(shard.shard_id, ((token.run_id, token.start_no),)))
    except Rejected:
        undo(jobs, token)  # no worker has heard of it
        return None
    return handed


def undo(jobs: Jobs, token: TaskToken) -> None:
    """The worker never got it: it is offered again."""
    run = jobs.memory.jobs.get(token.run_id)
    if run is not None and not run.busy:
        handout = run.handout
        if handout is None or handout.start_no != token.start_no:
            return
        if not handout.saved:
            run.handout = None
            jobs.leases.drop(token.start_no)
            jobs.unused(run)
            jobs.queues.offer(run)
            return
    # the database may know of the start: only a commit takes it back
    starts = ((token.run_id, token.start_no, False, False),)
    jobs.shard.tell(PutBackJobs(jobs.shard.shard_id, starts))
