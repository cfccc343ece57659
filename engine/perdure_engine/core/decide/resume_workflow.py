"""What of a run is poisoned is ready at once, for the surgical pool; and a suspended run goes on."""

from __future__ import annotations

from perdure_engine.core.audit import Action
from perdure_engine.core.decide.attempts import close_by_us
from perdure_engine.core.decide.auditing import note, status_of
from perdure_engine.core.decide.crashes import let_go, poisoned_keys, watch
from perdure_engine.core.decide.pending_activities import wait_anew
from perdure_engine.core.decide.requests import require_open, seen
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import WorkflowExecutionPaused, WorkflowExecutionUnpaused
from perdure_engine.core.intents import ResumeWorkflow, UnpauseWorkflow
from perdure_engine.core.poison import resumed
from perdure_engine.core.state import WORKFLOW_TASK_KEY
from perdure_engine.core.tasks import TaskState, TimerKind


def decide(draft: Draft, intent: ResumeWorkflow) -> None:
    if seen(draft, intent.request_id, intent.body_hash) or _let_go_by(draft, intent.request_id):
        return
    state = draft.state
    require_open(state)
    pause = state.folded.paused
    if pause is not None and pause.suspended:
        go_on(draft, pause, intent)
        note(draft, Action.RESUME, intent, before="PAUSED", after="RUNNING")
        return
    keys = poisoned_keys(draft)
    if not keys:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "WORKFLOW_NOT_POISONED",
            f"nothing of workflow {state.folded.started.workflow_id!r} is poisoned",
        )
    _let_go(draft, keys, intent.request_id)
    status = status_of(draft)
    note(draft, Action.RESUME, intent, before=f"{status}, {len(keys)} poisoned", after=status)


def go_on(
    draft: Draft, pause: WorkflowExecutionPaused, intent: ResumeWorkflow | UnpauseWorkflow
) -> None:
    """A run that was held back has all its tasks again, but for activities that are paused themselves."""
    state = draft.state
    event_id, time_us = draft.stamp()
    draft.emit(
        WorkflowExecutionUnpaused(
            event_id, time_us, intent.reason, intent.identity, intent.request_id, intent.body_hash
        )
    )
    if pause.suspended:
        _let_go(draft, poisoned_keys(draft), intent.request_id)
        _time_goes_on(draft, pause)
    for key, record in list(state.tasks.items()):
        if record.state is TaskState.PAUSED and not record.paused:
            if key != WORKFLOW_TASK_KEY:
                wait_anew(draft, record)
            draft.ready_again(key)
            watch(draft, key)
    draft.listed = True


def _let_go_by(draft: Draft, request_id: bytes) -> bool:
    """Whether the request was applied to the run while it was not suspended."""
    return any(
        record.crashes is not None and record.crashes.request_id == request_id
        for record in draft.state.tasks.values()
    )


def _let_go(draft: Draft, keys: list[int], request_id: bytes) -> None:
    for key in keys:
        crashes = draft.state.tasks[key].crashes
        assert crashes is not None
        let_go(draft, key, resumed(crashes, draft.env.now_us, request_id))


def _time_goes_on(draft: Draft, pause: WorkflowExecutionPaused) -> None:
    """The timeouts that stood still have what was left of them; those of activities by their schedule, which has been
    put off by as much (`core.apply`)."""
    now_us = draft.state.folded.last_time_us
    for kind, left_us in (
        (TimerKind.RUN_TIMEOUT, pause.run_timeout_left_us),
        (TimerKind.EXECUTION_TIMEOUT, pause.execution_timeout_left_us),
    ):
        if left_us:
            draft.put_timer(kind, 0, now_us + left_us)
    for key, activity in draft.state.folded.activities.items():
        record = draft.state.tasks.get(key)
        close_us = close_by_us(draft, activity, record) if record is not None else 0
        if close_us:
            draft.put_timer(TimerKind.SCHEDULE_TO_CLOSE, key, close_us)
