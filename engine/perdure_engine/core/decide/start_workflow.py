"""Start, and signal-with-start: at most one open run per workflow id, decided with the start in one batch."""

from __future__ import annotations

from perdure_engine.core import limits
from perdure_engine.core.apply import begin
from perdure_engine.core.decide import requests, signal_workflow
from perdure_engine.core.decide.terminate_workflow import terminate
from perdure_engine.core.draft import Draft, Env
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import WorkflowExecutionSignaled, WorkflowExecutionStarted
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.intents import (
    IdConflictPolicy,
    IdReusePolicy,
    SignalWorkflow,
    StartWorkflow,
)
from perdure_engine.core.replies import Started
from perdure_engine.core.state import RunState
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TimerKind

UNSUCCESSFUL = (Status.FAILED, Status.CANCELED, Status.TERMINATED, Status.TIMED_OUT)


def decide(intent: StartWorkflow, env: Env, current: Draft | None) -> tuple[Started, Draft | None]:
    """`current` is the draft of the workflow id's current run, open or closed; None: there never was one.

    Returns the answer and the draft of the new run, or None when no run begins. Raises Rejected before any change.
    """
    if current is not None:
        answer = _existing(intent, current)
        if answer is not None:
            return answer, None
    return Started(intent.run_id, True), _begin(intent, env)


def _existing(intent: StartWorkflow, current: Draft) -> Started | None:
    """The answer that the existing run gives, or None when a new one may begin."""
    state = current.state
    started = state.folded.started
    if started.request_id == intent.request_id:
        requests.same_body(started.body_hash, intent.body_hash)
        return Started(started.run_id, True)
    if requests.seen(current, intent.request_id, intent.body_hash):
        return Started(started.run_id, False)  # a signal-with-start that signaled this run
    if not state.open:
        _require_reuse(intent, state)
        return None
    match intent.id_conflict_policy:
        case IdConflictPolicy.FAIL:
            raise _already_started(state, "is running")
        case IdConflictPolicy.USE_EXISTING:
            if intent.signal is not None:
                signal_workflow.decide(current, _signal_of(intent, started.run_id))
            return Started(started.run_id, False)
        case IdConflictPolicy.TERMINATE_EXISTING:
            reason = f"terminated by the start of run {uuid_text(intent.run_id)}"
            terminate(current, reason, b"", intent.identity, intent.request_id, intent.body_hash)
            return None


def _require_reuse(intent: StartWorkflow, state: RunState) -> None:
    match intent.id_reuse_policy:
        case IdReusePolicy.ALLOW_DUPLICATE:
            return
        case IdReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY:
            if state.folded.status not in UNSUCCESSFUL:
                raise _already_started(
                    state, "completed, and the reuse policy allows failed ones only"
                )
        case IdReusePolicy.REJECT_DUPLICATE:
            raise _already_started(state, "existed, and the reuse policy rejects duplicates")


def _already_started(state: RunState, why: str) -> Rejected:
    started = state.folded.started
    run_id = uuid_text(started.run_id)
    return Rejected(
        Code.ALREADY_EXISTS,
        "WORKFLOW_ALREADY_STARTED",
        f"workflow {started.workflow_id!r}: run {run_id} {why}",
        metadata={"workflow_id": started.workflow_id, "run_id": run_id},
    )


def _begin(intent: StartWorkflow, env: Env) -> Draft:
    event = WorkflowExecutionStarted(
        1,
        env.now_us,
        intent.namespace_id,
        intent.workflow_id,
        intent.run_id,
        intent.run_id,
        intent.workflow_type,
        intent.task_queue,
        intent.input,
        intent.header,
        intent.memo,
        intent.execution_timeout_ms,
        intent.run_timeout_ms,
        intent.task_timeout_ms or limits.TASK_TIMEOUT_MS_DEFAULT,
        intent.retry_policy,
        1,
        intent.identity,
        intent.request_id,
        intent.body_hash,
        intent.start_delay_ms,
        intent.priority,
        intent.static_summary,
        intent.static_details,
        search_attributes=intent.search_attributes,
    )
    draft = Draft(RunState(begin(event)), env, is_new=True)
    draft.events.append(event)
    begins_us = env.now_us + intent.start_delay_ms * 1000
    if intent.run_timeout_ms:
        draft.put_timer(TimerKind.RUN_TIMEOUT, 0, begins_us + intent.run_timeout_ms * 1000)
    if intent.execution_timeout_ms:
        draft.put_timer(
            TimerKind.EXECUTION_TIMEOUT, 0, begins_us + intent.execution_timeout_ms * 1000
        )
    if intent.signal is not None:
        _first_signal(draft, intent)
    if intent.start_delay_ms:
        draft.put_timer(TimerKind.START_DELAY, 0, begins_us)
    else:
        draft.schedule_workflow_task()
    return draft


def _first_signal(draft: Draft, intent: StartWorkflow) -> None:
    assert intent.signal is not None
    event_id, time_us = draft.stamp()
    draft.emit(
        WorkflowExecutionSignaled(
            event_id,
            time_us,
            intent.signal.signal_name,
            intent.signal.input,
            intent.identity,
            intent.header,
            intent.request_id,
            intent.body_hash,
        )
    )


def _signal_of(intent: StartWorkflow, run_id: bytes) -> SignalWorkflow:
    assert intent.signal is not None
    return SignalWorkflow(
        namespace_id=intent.namespace_id,
        workflow_id=intent.workflow_id,
        run_id=run_id,
        signal_name=intent.signal.signal_name,
        request_id=intent.request_id,
        body_hash=intent.body_hash,
        input=intent.signal.input,
        identity=intent.identity,
        header=intent.header,
    )
