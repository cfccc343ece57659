"""An update is admitted: saved before it is acknowledged and before a worker sees it, once per update id.

What becomes of it is decided when its workflow task comes back (`settle_updates`), and told to everybody who asks
with the same id (`update_status`).
"""

from __future__ import annotations

from perdure_engine.core.decide.requests import require_chain, require_open
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import WorkflowExecutionUpdateAdmitted
from perdure_engine.core.intents import UpdateWorkflow
from perdure_engine.core.state import RunState


def decide(draft: Draft, intent: UpdateWorkflow) -> None:
    """Whoever asks again, also after a restart, joins the first; its body must be the same."""
    require_chain(draft.state, intent.first_run_id)
    if known(draft.state, intent.update_id, intent.body_hash):
        return
    require_open(draft.state)
    require_room(draft)
    draft.admit(
        WorkflowExecutionUpdateAdmitted(
            0,
            draft.env.now_us,
            intent.update_id,
            intent.update_name,
            intent.input,
            intent.header,
            intent.identity,
            intent.body_hash,
        )
    )


def known(state: RunState, update_id: str, body_hash: bytes) -> bool:
    """Whether the run has this update. The same id with another body is an error."""
    known_hash: bytes | None = None
    if state.admitted is not None and update_id in state.admitted:
        known_hash = state.admitted[update_id].event.body_hash
    elif state.folded.updates is not None and update_id in state.folded.updates:
        known_hash = state.folded.updates[update_id].body_hash
    if known_hash is None:
        return False
    if known_hash != body_hash:
        raise Rejected(
            Code.INVALID_ARGUMENT,
            "UPDATE_ID_REUSED",
            "update_id: was used before with another name or other arguments",
            field="update_id",
        )
    return True


def require_room(draft: Draft) -> None:
    state, limits = draft.state, draft.env.limits
    waiting = len(state.admitted) if state.admitted is not None else 0
    accepted = len(state.folded.updates) if state.folded.updates is not None else 0
    if waiting + state.folded.updates_running >= limits.updates_in_flight_max:
        raise Rejected(
            Code.RESOURCE_EXHAUSTED,
            "TOO_MANY_UPDATES_IN_FLIGHT",
            f"a run has at most {limits.updates_in_flight_max} updates in flight; wait for one to end",
        )
    if waiting + accepted >= limits.updates_max:
        raise Rejected(
            Code.RESOURCE_EXHAUSTED,
            "TOO_MANY_UPDATES",
            f"a run takes at most {limits.updates_max} updates; let it continue as new",
        )
