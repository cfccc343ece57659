"""A run begins: it is in memory and its workflow id's current one, as soon as the step is saved."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import IdConflictPolicy, StartWorkflow
from perdure_engine.history.run import CurrentRun, Run

if TYPE_CHECKING:
    from perdure_engine.history.work import ShardStep


def replaces(found: Run | CurrentRun, intent: StartWorkflow) -> bool:
    """Will the start terminate an open run? Not when it is a repeat of that run's own."""
    return (
        intent.id_conflict_policy is IdConflictPolicy.TERMINATE_EXISTING
        and isinstance(found, Run)
        and found.state.open
        and found.state.folded.started.request_id != intent.request_id
    )


def begin(
    runs: MutableMapping[bytes, Run], step: ShardStep, current: CurrentRun, draft: Draft
) -> None:
    started = draft.state.folded.started
    run = Run(draft.state, current, [], 1)
    runs[started.run_id] = run
    step.drafts[started.run_id] = (run, draft)
    current.run_id = started.run_id
    current.status = draft.state.folded.status
    step.currents[started.namespace_id, started.workflow_id] = current


def follow(runs: MutableMapping[bytes, Run], step: ShardStep, closed: Run, draft: Draft) -> None:
    """`closed` has closed in this step, and the draft's run follows it: one statement saves both."""
    assert closed.current.run_id == closed.state.run_id, "only the current run of an id is open"
    begin(runs, step, closed.current, draft)
