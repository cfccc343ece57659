"""Start, signal-with-start, update-with-start: at most one open run per workflow id, decided in one batch."""

from __future__ import annotations

from perdure_engine.core import limits
from perdure_engine.core.closing import tell_parent
from perdure_engine.core.decide import next_run, requests, signal_workflow, update_workflow
from perdure_engine.core.decide.terminate_workflow import terminate
from perdure_engine.core.draft import Draft, Env
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.events import WorkflowExecutionSignaled, WorkflowExecutionStarted
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.intents import (
    IdConflictPolicy,
    IdReusePolicy,
    SignalWorkflow,
    StartWorkflow,
    UpdateWorkflow,
)
from perdure_engine.core.lineage import is_undone
from perdure_engine.core.replies import Started
from perdure_engine.core.state import RunState
from perdure_engine.core.status import Status

UNSUCCESSFUL = (Status.FAILED, Status.CANCELED, Status.TERMINATED, Status.TIMED_OUT)


def decide(intent: StartWorkflow, env: Env, current: Draft | None) -> tuple[Started, Draft | None]:
    """`current` is the draft of the workflow id's current run, open or closed; None: there never was one.

    Returns the answer and the draft of the new run, or None when no run begins. Raises Rejected before any change.
    """
    backoff_ms = _cron_backoff_ms(intent, env) if intent.cron_schedule else 0
    if current is not None:
        answer = _existing(intent, current)
        if answer is not None:
            return answer, None
    return Started(intent.run_id, True), _begin(intent, env, backoff_ms)


def _existing(intent: StartWorkflow, current: Draft) -> Started | None:
    """The answer that the existing run gives, or None when a new one may begin."""
    state = current.state
    started = state.folded.started
    if started.request_id == intent.request_id:
        requests.same_body(started.body_hash, intent.body_hash)
        _answer_parent(intent, current)
        if intent.update is not None:  # known; or it was rejected meanwhile, and is looked at again
            update_workflow.decide(current, _update_of(intent, started.run_id))
        return Started(started.run_id, True)
    if intent.update is not None and update_workflow.known(
        state, intent.update.update_id, intent.update.body_hash
    ):
        return Started(
            started.run_id, False
        )  # of an open run or of a closed one: it has its outcome
    if requests.seen(current, intent.request_id, intent.body_hash):
        _answer_parent(intent, current)
        return Started(started.run_id, False)  # a signal-with-start that signaled this run
    undone = is_undone(intent.undone, started.parent)
    if not state.open:
        if not undone:
            _require_reuse(intent, state)
        return None
    match IdConflictPolicy.TERMINATE_EXISTING if undone else intent.id_conflict_policy:
        case IdConflictPolicy.FAIL:
            raise _already_started(state, "is running")
        case IdConflictPolicy.USE_EXISTING:
            _join(intent, current)
            return Started(started.run_id, False)
        case IdConflictPolicy.TERMINATE_EXISTING:
            reason = f"terminated by the start of run {uuid_text(intent.run_id)}"
            terminate(current, reason, b"", intent.identity, intent.request_id, intent.body_hash)
            return None


def _answer_parent(intent: StartWorkflow, child: Draft) -> None:
    """A parent that starts a child again may have missed its end: it was reset, and its other run was told."""
    if intent.parent is not None and not child.state.open:
        tell_parent(child)


def _join(intent: StartWorkflow, current: Draft) -> None:
    """The run that is there is used: what came with the start goes to it."""
    run_id = current.state.run_id
    if intent.signal is not None:
        signal_workflow.decide(current, _signal_of(intent, run_id))
    if intent.update is not None:
        update_workflow.decide(current, _update_of(intent, run_id))


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


def _cron_backoff_ms(intent: StartWorkflow, env: Env) -> int:
    """The first run of a cron chain begins at the schedule's next time too."""
    next_us = env.next_fire_us(intent.cron_schedule, env.now_us)
    if not next_us:
        raise invalid("cron_schedule", "never fires")
    return next_run.backoff_ms(next_us, env.now_us)


def _begin(intent: StartWorkflow, env: Env, backoff_ms: int) -> Draft:
    deadline_us = 0
    if intent.execution_timeout_ms:
        waits_ms = intent.start_delay_ms + backoff_ms
        deadline_us = env.now_us + (waits_ms + intent.execution_timeout_ms) * 1000
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
        cron_schedule=intent.cron_schedule,
        execution_deadline_us=deadline_us,
        first_task_backoff_ms=backoff_ms,
        search_attributes=intent.search_attributes,
        parent=intent.parent,
        versioning_override=intent.versioning_override,
    )
    draft = next_run.begin_run(event, env, () if intent.signal is None else (_signaled(intent),))
    if intent.update is not None:
        update_workflow.decide(draft, _update_of(intent, intent.run_id))
    return draft


def _signaled(intent: StartWorkflow) -> WorkflowExecutionSignaled:
    assert intent.signal is not None
    return WorkflowExecutionSignaled(
        0,
        0,
        intent.signal.signal_name,
        intent.signal.input,
        intent.identity,
        intent.header,
        intent.request_id,
        intent.body_hash,
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


def _update_of(intent: StartWorkflow, run_id: bytes) -> UpdateWorkflow:
    assert intent.update is not None
    return UpdateWorkflow(
        namespace_id=intent.namespace_id,
        workflow_id=intent.workflow_id,
        run_id=run_id,
        update_id=intent.update.update_id,
        update_name=intent.update.update_name,
        body_hash=intent.update.body_hash,
        input=intent.update.input,
        header=intent.update.header,
        identity=intent.identity,
    )
