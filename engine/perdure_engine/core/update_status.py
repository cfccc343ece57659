"""How far an update has come, for whoever asks: read only."""

from __future__ import annotations

from perdure_engine.core.errors import Code, Rejected, not_found
from perdure_engine.core.events import WorkflowExecutionUpdateCompleted
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import UpdateStage
from perdure_engine.core.replies import UpdateStatus
from perdure_engine.core.state import RunState

ACCEPTED_UPDATE_COMPLETED_WORKFLOW = "AcceptedUpdateCompletedWorkflow"  # Temporal's name for it


def stage_of(state: RunState, update_id: str) -> UpdateStage | None:
    """None: the run has no such update; it never had, or it was rejected, or dropped when the run closed."""
    if state.admitted is not None and update_id in state.admitted:
        return UpdateStage.ADMITTED
    update = state.folded.updates.get(update_id) if state.folded.updates is not None else None
    if update is None:
        return None
    # invariant 44: of a closed run every accepted update has an outcome
    if update.completed_event_id or not state.open:
        return UpdateStage.COMPLETED
    return UpdateStage.ACCEPTED


def status(state: RunState, update_id: str, stage: UpdateStage) -> UpdateStatus:
    """Of an update without an outcome of its own: it waits, it runs, or its run has closed."""
    failure = None
    if stage is UpdateStage.COMPLETED:
        failure = Failure(
            FailureKind.APPLICATION,
            f"the workflow closed ({state.folded.status.name}) before the update completed",
            type=ACCEPTED_UPDATE_COMPLETED_WORKFLOW,
            non_retryable=True,
        )
    return UpdateStatus(state.run_id, update_id, stage, failure=failure)


def completed(state: RunState, event: WorkflowExecutionUpdateCompleted) -> UpdateStatus:
    return UpdateStatus(
        state.run_id, event.update_id, UpdateStage.COMPLETED, event.result, event.failure
    )


def rejected(state: RunState, update_id: str, failure: Failure) -> UpdateStatus:
    return UpdateStatus(state.run_id, update_id, UpdateStage.COMPLETED, failure=failure)


def unknown(state: RunState, update_id: str) -> Rejected:
    return not_found(
        "UPDATE",
        f"workflow {state.folded.started.workflow_id!r} has no update {update_id!r}: "
        "it never was admitted, or it was rejected",
    )


def closed_before(state: RunState, update_id: str) -> Rejected:
    """To who waited for an update that was admitted when its run closed."""
    return Rejected(
        Code.NOT_FOUND,
        "WORKFLOW_CLOSED",
        f"workflow {state.folded.started.workflow_id!r} closed ({state.folded.status.name}) "
        f"before it accepted update {update_id!r}",
    )
