"""A signal is saved before it is acknowledged, once per request id."""

from __future__ import annotations

from perdure_engine.core import limits
from perdure_engine.core.audit import Action
from perdure_engine.core.decide.auditing import asked_for_by_somebody, note
from perdure_engine.core.decide.requests import recent_ids, require_child, require_open, seen
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import WorkflowExecutionSignaled
from perdure_engine.core.intents import SignalWorkflow

SAGA_SIGNAL = "__perdure_saga"  # perdure.common has the same: an operator's word to a saga


def decide(draft: Draft, intent: SignalWorkflow) -> None:
    require_child(draft.state, intent.child_of)
    if seen(draft, intent.request_id, intent.body_hash):
        return
    require_open(draft.state)
    require_room(draft)
    if intent.signal_name == SAGA_SIGNAL and asked_for_by_somebody(
        intent
    ):  # the word itself is the caller's bytes
        note(draft, Action.SAGA_WORD, intent)
    draft.record(
        WorkflowExecutionSignaled(
            0,
            draft.env.now_us,
            intent.signal_name,
            intent.input,
            intent.identity,
            intent.header,
            intent.request_id,
            intent.body_hash,
        )
    )


def require_room(draft: Draft) -> None:
    state = draft.state
    waiting = sum(isinstance(event, WorkflowExecutionSignaled) for event in state.buffered)
    if state.folded.signals + waiting >= draft.env.limits.signals_max:
        raise Rejected(
            Code.RESOURCE_EXHAUSTED,
            "TOO_MANY_SIGNALS",
            f"a run takes at most {draft.env.limits.signals_max} signals",
        )
    known = len(state.folded.request_ids) + waiting
    if known >= limits.REQUEST_IDS_HANDED_MAX:
        recent = recent_ids(state.folded, draft.env.now_us) + waiting
        if recent >= limits.REQUEST_IDS_HANDED_MAX:
            raise Rejected(
                Code.RESOURCE_EXHAUSTED,
                "TOO_MANY_REQUEST_IDS",
                f"a chain of runs remembers {limits.REQUEST_IDS_HANDED_MAX} request ids of a day",
            )
