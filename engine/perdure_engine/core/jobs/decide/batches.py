"""Batches: which jobs are in, and whether further ones come."""

from __future__ import annotations

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import Callback, CreateJobs
from perdure_engine.core.jobs.memory import JobBatch
from perdure_engine.core.jobs.model import JobRun


def joined(draft: JobDraft, intent: CreateJobs) -> JobBatch | None:
    """The batch that the jobs of the call belong to."""
    if intent.batch is None:
        return None
    return draft.memory.batches[intent.namespace_id, intent.batch.batch_id]


def sealed_refusal(batch: JobBatch) -> Rejected:
    return Rejected(
        Code.FAILED_PRECONDITION,
        "BATCH_SEALED",
        f"batch {batch.batch_id!r} is sealed: no further jobs can join it",
    )


def count_in(draft: JobDraft, run: JobRun) -> None:
    batch = draft.memory.batches[run.namespace_id, run.batch_id]
    batch.total += 1
    batch.open += 1
    draft.batches[batch.namespace_id, batch.batch_id] = batch


def told(draft: JobDraft, batch: JobBatch, said: Callback) -> None:
    """What the call says of the batch itself, once its jobs are in."""
    if batch.sealed:
        return
    if said.callback is not None:
        batch.callback = said.callback
    batch.sealed = said.sealed
    draft.batches[batch.namespace_id, batch.batch_id] = batch
    if batch.sealed and not batch.open:
        draft.over.append(batch)
