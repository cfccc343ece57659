"""What an operator's call leaves in the audit log: an entry in the draft, saved in the same statement.

Called by a decision where it changes something, and not for a repeat that does not.
"""

from __future__ import annotations

from typing import Protocol

from perdure_engine.core.audit import Action, Entry
from perdure_engine.core.schedules.draft import ScheduleDraft


class Operation(Protocol):
    """An intent that says who asks."""

    @property
    def identity(self) -> str: ...

    @property
    def request_id(self) -> bytes: ...


def note(
    draft: ScheduleDraft,
    action: Action,
    intent: Operation,
    *,
    before: str = "",
    after: str,
    reason: str = "",
) -> None:
    record = draft.record
    draft.audit.append(
        Entry(
            time_us=draft.env.now_us,
            action=action,
            namespace_id=record.namespace_id,
            identity=intent.identity,
            reason=reason,
            request_id=intent.request_id,
            subject=record.schedule_id,
            before=before,
            after=after,
        )
    )


def standing(draft: ScheduleDraft) -> str:
    return "PAUSED" if draft.schedule.paused else "ACTIVE"
