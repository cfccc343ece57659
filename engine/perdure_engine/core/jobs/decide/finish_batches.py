"""Batches that are over: sealed, and none of their jobs open. The step in which that comes true makes the callback, so
that there is exactly one, whatever is lost or repeated."""

from __future__ import annotations

import msgspec

from perdure_engine.core.jobs.decide.create import add, live_holder
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.memory import JobBatch
from perdure_engine.core.jobs.model import NewJob


def finish_batches(draft: JobDraft) -> None:
    while draft.over:
        batch = draft.over.pop()
        if batch.over:
            continue
        batch.over = True
        batch.ended_us = draft.env.now_us
        callback, batch.callback = batch.callback, None
        if callback is not None:
            batch.callback_job_id = _call(draft, batch, callback)


def _call(draft: JobDraft, batch: JobBatch, callback: NewJob) -> bytes:
    """Make the callback, unless its unique key has a live job. Returns whose id answers for it."""
    namespace_id = batch.namespace_id
    if callback.spec.unique is not None:
        holder = live_holder(draft, namespace_id, callback.spec)
        if holder is not None:
            return holder.job_id
    spec = msgspec.structs.replace(callback.spec, input=draft.env.json_payload(_summary(batch)))
    return add(draft, namespace_id, msgspec.structs.replace(callback, spec=spec)).job_id


def _summary(batch: JobBatch) -> bytes:
    return msgspec.json.encode(
        {
            "batch_id": batch.batch_id,
            "total": batch.total,
            "completed": batch.completed,
            "failed": batch.failed,
            "cancelled": batch.cancelled,
            "skipped": batch.skipped,
        }
    )
