"""A job that has failed, is poisoned or suspended begins anew, with all its attempts and no crash; what failed stays on
it."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.decide import ladder
from perdure_engine.core.jobs.decide.attempts import job_of, shown_status, started
from perdure_engine.core.jobs.decide.auditing import note
from perdure_engine.core.jobs.decide.create import hold_key, live_holder
from perdure_engine.core.jobs.decide.due import become_due
from perdure_engine.core.jobs.decide.ending import count
from perdure_engine.core.jobs.decide.repeats import applied, is_repeat
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import RedriveJob
from perdure_engine.core.jobs.model import DEAD_LETTERS, JobRun, JobStatus, UniqueScope
from perdure_engine.core.jobs.replies import JobAnswered
from perdure_engine.core.jobs.transitions import move


def decide(draft: JobDraft, intent: RedriveJob) -> JobAnswered:
    run = job_of(draft, intent)
    if not is_repeat(run, intent):
        if run.status not in DEAD_LETTERS or started(run):
            raise Rejected(
                Code.FAILED_PRECONDITION,
                "JOB_NOT_FAILED",
                "only a failed, poisoned or suspended job begins anew: "
                f"this one is {shown_status(run).name}",
            )
        _require_key(draft, run)
        before = run.status
        applied(run, intent)
        _begin_anew(draft, run)
        note(draft, Action.REDRIVE_JOB, intent, run, before)
    return JobAnswered(shown_status(run))


def _require_key(draft: JobDraft, run: JobRun) -> None:
    unique = run.spec.unique
    if unique is None or unique.scope is UniqueScope.PERIOD:
        return
    holder = live_holder(draft, run.namespace_id, run.spec)
    if holder is not None and holder is not run:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "UNIQUE_KEY_IN_USE",
            f"another job has the unique key {unique.key!r} by now",
        )
    hold_key(draft, run)


def _begin_anew(draft: JobDraft, run: JobRun) -> None:
    if run.batch_id and not run.open:
        batch = draft.memory.batches[run.namespace_id, run.batch_id]
        if not batch.closed:
            batch.open += 1
            count(batch, run.status, -1)
            draft.batches[batch.namespace_id, batch.batch_id] = batch
    if run.crashes is not None:
        ladder.forget(draft, run)
    move(run, JobStatus.PENDING)
    run.attempt = 1
    run.start_no = draft.env.new_number()  # a token of an earlier first attempt is older
    run.closed_us = run.cancel_us = 0
    run.reason = ""
    run.due_us = draft.env.now_us
    draft.touch(run)
    become_due(draft, run)
