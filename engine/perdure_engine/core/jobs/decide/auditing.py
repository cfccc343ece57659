"""What an operator's call leaves in the audit log: an entry in the draft, saved in the same statement.

Called by a decision where it changes something, and not for a repeat that does not.
"""

from __future__ import annotations

from perdure_engine.core.audit import Action, Entry
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.decide.attempts import Operation, shown_status
from perdure_engine.core.jobs.draft import JobDraft
from perdure_engine.core.jobs.intents import RescheduleJob
from perdure_engine.core.jobs.model import JobRun, JobStatus


def note(
    draft: JobDraft,
    action: Action,
    intent: Operation,
    run: JobRun,
    before: JobStatus,
) -> None:
    draft.audit.append(
        Entry(
            time_us=draft.env.now_us,
            action=action,
            namespace_id=run.namespace_id,
            identity=intent.identity,
            reason="" if isinstance(intent, RescheduleJob) else intent.reason,
            request_id=intent.request_id,
            subject=uuid_text(run.job_id),
            before=before.name,
            after=shown_status(run).name,
        )
    )
