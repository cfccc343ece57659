"""What an operator's intent leaves in the audit log: an entry in the draft, saved in the same statement.

Called by a decision where it changes something, and not for a repeat that does not.
"""

from __future__ import annotations

from typing import Protocol

from perdure_engine.core.audit import Action, Entry
from perdure_engine.core.draft import Draft


class Operation(Protocol):
    """An intent that says who asks."""

    @property
    def identity(self) -> str: ...


class Message(Protocol):
    @property
    def request_id(self) -> bytes: ...

    @property
    def body_hash(self) -> bytes: ...


def asked_for_by_somebody(intent: Message) -> bool:
    """And not by another run: what runs ask of each other is their program's doing, no operator's action.

    Their messages have the request id for a body hash (core.messages), which no caller's request can have: its hash
    is made here, and shorter.
    """
    return intent.body_hash != intent.request_id


def note(
    draft: Draft,
    action: Action,
    intent: Operation,
    *,
    of: Draft | None = None,
    subject: str = "",
    before: str = "",
    after: str = "",
    reason: str | None = None,
) -> None:
    """`of`: the run that it was done to, if that is not the draft's. `reason` None: the intent's own, if it has one."""
    if reason is None:
        reason = getattr(intent, "reason", "")
    request_id: bytes = getattr(intent, "request_id", b"")
    started = (of or draft).state.folded.started
    draft.note(
        Entry(
            time_us=draft.env.now_us,
            action=action,
            namespace_id=started.namespace_id,
            workflow_id=started.workflow_id,
            run_id=started.run_id,
            identity=intent.identity,
            reason=reason,
            request_id=request_id,
            subject=subject,
            before=before,
            after=after,
        )
    )


def status_of(draft: Draft) -> str:
    return draft.state.folded.status.name
