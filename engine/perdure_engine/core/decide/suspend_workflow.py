"""The engine holds a run back, because something of it has crashed its workers for 24 hours (design §7).

As if an operator had paused it, but that its own timeouts stand still: what becomes of it is for a human to say. How
much was left of them is written down; the row of each comes back with that when the run goes on (`resume_workflow`).
"""

from __future__ import annotations

from typing import NamedTuple

from perdure_engine.core.audit import ENGINE, Action
from perdure_engine.core.decide.auditing import note
from perdure_engine.core.decide.pause_workflow import hold_back
from perdure_engine.core.draft import Draft
from perdure_engine.core.poison import Rung
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TimerKind


class _Suspension(NamedTuple):
    identity: str
    reason: str


def suspend(draft: Draft, key: int) -> None:
    """Because of the task of that key, which is poisoned and ready. The run is not paused."""
    by = _Suspension(ENGINE, _reason(draft, key))
    hold_back(
        draft,
        reason=by.reason,
        identity=by.identity,
        request_id=b"",
        body_hash=b"",
        suspended=True,
        run_timeout_left_us=_left_us(draft, TimerKind.RUN_TIMEOUT),
        execution_timeout_left_us=_left_us(draft, TimerKind.EXECUTION_TIMEOUT),
    )
    for kind, reference in list(draft.state.timer_rows):
        if kind in (
            TimerKind.RUN_TIMEOUT,
            TimerKind.EXECUTION_TIMEOUT,
            TimerKind.SCHEDULE_TO_CLOSE,
        ):
            draft.drop_timer(kind, reference)
    draft.climb(Rung.SUSPENDED, draft.state.tasks[key].kind)
    note(draft, Action.SUSPEND, by, subject=_subject(draft, key), before="RUNNING", after="PAUSED")


def _left_us(draft: Draft, kind: TimerKind) -> int:
    """0: there is no such timeout. One that is over and has not fired is over as soon as the run goes on."""
    row = draft.state.timer_rows.get((kind, 0))
    return 0 if row is None else max(1, row.due_us - draft.env.now_us)


def _subject(draft: Draft, key: int) -> str:
    if key == WORKFLOW_TASK_KEY:
        return ""
    return draft.state.folded.activities[key].scheduled.activity_id


def _reason(draft: Draft, key: int) -> str:
    crashes = draft.state.tasks[key].crashes
    assert crashes is not None
    if key == WORKFLOW_TASK_KEY:
        return f"the workflow's code {crashes.told}"
    return f"activity {_subject(draft, key)!r} {crashes.told}"
