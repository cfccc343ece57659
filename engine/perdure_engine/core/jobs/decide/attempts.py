"""Which job is meant, and who may report on an attempt of it: only the holder of the highest accepted start number."""

from __future__ import annotations

from perdure_engine.core.errors import Rejected, not_found
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import (
    CancelJob,
    DescribeJob,
    RedriveJob,
    RescheduleJob,
    ResumeJob,
)
from perdure_engine.core.jobs.model import JobRun, JobStatus
from perdure_engine.core.tokens import TaskToken


def stale() -> Rejected:
    return not_found("TASK", "the job is over, or its attempt has another owner")


Operation = CancelJob | RescheduleJob | RedriveJob | ResumeJob
"""What an operator asks of one job."""


def job_of(draft: JobDraft, intent: Operation | DescribeJob) -> JobRun:
    """The job that a caller names. Raises NOT_FOUND, for another namespace's too."""
    run = draft.memory.jobs.get(intent.job_id)
    if run is None or run.namespace_id != intent.namespace_id:
        raise not_found("JOB", "the job does not exist")
    return run


def holder(draft: JobDraft, token: TaskToken) -> JobRun:
    """The job that the token's hand-out is valid for. Raises NOT_FOUND: nothing changes.

    After a take-over the hand-out is not in memory: a token that is not older than the last accepted start adopts it.
    So does the token of a worker that was thought dead, as long as nobody has the job since.
    """
    run = draft.memory.jobs.get(token.run_id)
    if run is None or run.attempt != token.attempt:
        raise stale()
    handout = run.handout
    if handout is not None:
        if handout.start_no != token.start_no:
            raise stale()
    elif token.start_no < run.start_no or not (may_run(run) or run.status is JobStatus.POISONED):
        raise stale()
    return run


def may_run(run: JobRun) -> bool:
    """Whether the attempt may be in some worker's hand, though this memory knows of none: it was handed out by the
    owner before us, or taken back from a worker that was thought dead."""
    return run.task_id > 0 or run.status is JobStatus.IN_PROGRESS


def runs_as(run: JobRun, start_no: int) -> bool:
    """Whether a start is still out: handed out by this owner, or saved by the one before."""
    if run.handout is not None:
        return run.handout.start_no == start_no
    return run.status is JobStatus.IN_PROGRESS and run.start_no == start_no


def started(run: JobRun) -> bool:
    """Whether its attempt is known to run."""
    return run.handout is not None or run.status is JobStatus.IN_PROGRESS


def shown_status(run: JobRun) -> JobStatus:
    """What is said of it to who asks. A start that is not saved is a start."""
    return JobStatus.IN_PROGRESS if run.handout is not None else run.status


def note_start(run: JobRun, token: TaskToken, identity: str) -> None:
    """The attempt that the token is of has run, whoever handed it out."""
    run.start_no = token.start_no
    run.started_us = token.started_us
    run.worker_identity = identity
