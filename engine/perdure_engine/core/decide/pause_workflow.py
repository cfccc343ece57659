"""An operator holds a run back: from the acknowledgement on no task of it is handed out.

What happens to it is recorded all the same: signals, timers, outcomes of activities that run already. A workflow task
that is out is taken back, so that nothing its code decides counts any more; its worker's answer is refused, because
the history it was given is not the history any longer. Cancel, terminate and the run's own timeouts go on.
"""

from __future__ import annotations

from typing import Any

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.auditing import note
from perdure_engine.core.decide.requests import require_open, seen
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import WorkflowExecutionPaused
from perdure_engine.core.intents import PauseWorkflow
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskRecord, TaskState, TimerKind


def decide(draft: Draft, intent: PauseWorkflow) -> None:
    if seen(draft, intent.request_id, intent.body_hash):
        return
    state = draft.state
    require_open(state)
    if state.folded.paused is not None:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "WORKFLOW_PAUSED",
            f"workflow {state.folded.started.workflow_id!r} is paused already",
        )
    hold_back(
        draft,
        reason=intent.reason,
        identity=intent.identity,
        request_id=intent.request_id,
        body_hash=intent.body_hash,
    )
    note(draft, Action.PAUSE, intent, before="RUNNING", after="PAUSED")


def hold_back(draft: Draft, **paused: Any) -> None:
    """`paused`: what WorkflowExecutionPaused says."""
    state = draft.state
    if state.workflow_task_out:
        state.sticky_worker_id = b""
        draft.ready_again(WORKFLOW_TASK_KEY)
        draft.number_buffered()
    event_id, time_us = draft.stamp()
    draft.emit(WorkflowExecutionPaused(event_id=event_id, time_us=time_us, **paused))
    for key, record in state.tasks.items():
        _hold(draft, record)
        draft.drop_timer(TimerKind.SUSPENSION, key)  # it stands for what somebody may have
    draft.listed = True


def _hold(draft: Draft, record: TaskRecord) -> None:
    if record.state is not TaskState.READY:
        return
    if record.handout is None:
        record.state = TaskState.PAUSED
    else:  # it goes on: saved as started, or the next owner would hand it out again
        record.state = TaskState.STARTED
        record.handout.saved = True
    draft.touch(record)
