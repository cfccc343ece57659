"""One module per intent about jobs: what it changes of a shard's jobs, and what it is answered with.

`decide(draft, intent)` is the single door. What the intent is about must be in memory (`core.jobs.needs`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure_engine.core.jobs import intents
from perdure_engine.core.jobs.decide import (
    cancel,
    complete,
    create,
    describe,
    fire,
    put_back,
    redrive,
    reschedule,
    resume,
    save_progress,
    save_starts,
    take_back,
    time_out,
)
from perdure_engine.core.jobs.decide.finish_batches import finish_batches
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.replies import JobReply

_DECIDE: dict[type, Callable[[JobDraft, Any], JobReply]] = {
    intents.CreateJobs: create.decide,
    intents.CompleteJobs: complete.decide,
    intents.CancelJob: cancel.decide,
    intents.RescheduleJob: reschedule.decide,
    intents.RedriveJob: redrive.decide,
    intents.ResumeJob: resume.decide,
    intents.DescribeJob: describe.decide,
    intents.PutBackJobs: put_back.decide,
    intents.TakeBackCrashes: take_back.decide,
    intents.SaveJobStarts: save_starts.decide,
    intents.TimeOutJob: time_out.decide,
    intents.SaveJobProgress: save_progress.decide,
    intents.FireJobTimers: fire.decide,
}


def decide(draft: JobDraft, intent: intents.JobIntent) -> JobReply:
    """Change the shard's jobs as the intent asks. Raises Rejected before any change; of a list, each job is refused for
    itself, in the reply."""
    reply = _DECIDE[type(intent)](draft, intent)
    if draft.over:
        finish_batches(draft)
    return reply
