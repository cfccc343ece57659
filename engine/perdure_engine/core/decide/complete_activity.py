"""An activity is done, and its worker may have done what follows from it as well: the workflow task that the result
leads to, ahead of being asked.

The worker took the run's next events for known: the attempt's Started and Completed and the task's Scheduled. If that
is what happens, both are one decision, and one commit. If anything else has happened to the run, or waits for its
code, the result is taken alone and the task comes as usual: what was done ahead had no effects. So the id of the
task's Started event is a compare and set on the history.
"""

from __future__ import annotations

import msgspec

from perdure_engine.core.decide import activity_outcome, check_commands, complete_workflow_task
from perdure_engine.core.draft import Draft
from perdure_engine.core.intents import CompleteActivity, WorkAhead
from perdure_engine.core.replies import WentAhead
from perdure_engine.core.state import WORKFLOW_TASK_KEY, RunState

EVENTS_BEFORE = 3  # Started and Completed of the activity, Scheduled of the workflow task

# The worker counts time on from what the engine last told it, on a clock of its own; both are lower bounds of the
# database's, which differ by what clocks drift in an attempt's time.
AHEAD_OF_CLOCK_US_MAX = 1_000_000

# What the code has made of its time (a delay until some instant) would be late by the age of it: after an outage the
# task comes anew.
AGE_US_MAX = 2_000_000


def decide(draft: Draft, intent: CompleteActivity) -> WentAhead | None:
    """None: nothing was done ahead, or it does not count."""
    ahead = intent.ahead
    if ahead is None:
        activity_outcome.complete(draft, intent)
        return None
    counts = _complete_with(draft, intent, ahead)
    draft.note_ahead(counts=counts)
    return WentAhead() if counts else None


def _complete_with(draft: Draft, intent: CompleteActivity, ahead: WorkAhead) -> bool:
    """Whether what was done ahead counts; the result does in any case."""
    if not _follows(draft, ahead):
        activity_outcome.complete(draft, intent)
        return False
    completion = ahead.completion
    _complete_as_of(draft, intent, completion.token.started_us)
    task = draft.state.tasks.get(WORKFLOW_TASK_KEY)
    assert task is not None  # nothing was there to keep the outcome from leading to one
    # What follows depends on what the outcome has come to. If it does not fit, the outcome keeps the worker's time: one
    # that the engine might have counted itself.
    suggests = complete_workflow_task.suggest_continue_as_new(draft.state, draft.env.limits)
    if suggests is not ahead.suggests_continue_as_new:
        return False
    refusal = check_commands.check(
        draft.state, draft.env.limits, completion.commands, 0, completion.wake_rules
    )
    if refusal is not None:
        return False  # a task of its own says so in the history
    complete_workflow_task.carry_out(draft, task, completion)
    return True


def may_go_ahead(state: RunState, worker_id: bytes) -> bool:
    """Whether the worker has the run in memory, and an outcome of its only activity would lead to a workflow task at
    once."""
    folded = state.folded
    return (
        state.sticky_worker_id == worker_id
        and len(folded.activities) == 1
        and folded.fan_out is None
        and folded.paused is None
    )


def _follows(draft: Draft, ahead: WorkAhead) -> bool:
    """Whether the run is where the worker thinks it is, and nothing waits for its code but the result: for all else a
    workflow task is there."""
    state, token = draft.state, ahead.completion.token
    return (
        state.folded.next_event_id + EVENTS_BEFORE == token.started_event_id
        and state.folded.previous_started_id == ahead.previous_started_id
        and WORKFLOW_TASK_KEY not in state.tasks
        and may_go_ahead(state, ahead.completion.worker_id)
        and state.folded.last_time_us <= token.started_us
        and -AGE_US_MAX <= token.started_us - draft.env.now_us <= AHEAD_OF_CLOCK_US_MAX
    )


def _complete_as_of(draft: Draft, intent: CompleteActivity, at_us: int) -> None:
    """The code has seen this time, and what led to the task cannot be later."""
    env = draft.env
    draft.env = msgspec.structs.replace(env, now_us=at_us)
    try:
        activity_outcome.complete(draft, intent)
    finally:
        draft.env = env
