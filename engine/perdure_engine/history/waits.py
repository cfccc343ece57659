"""Calls that wait for a run: for its result, for its next events."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_engine.core.describe import closed_reply
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Rejected
from perdure_engine.core.intents import WaitResult
from perdure_engine.core.replies import EventsReady
from perdure_engine.history.addressing import require_same_workflow
from perdure_engine.history.run import Run
from perdure_engine.history.work import Item


def wait_without_turn(runs: Mapping[bytes, Run], item: Item) -> bool:
    """A wait for the result of a run that is open takes no turn: nothing is decided, and nothing said.

    Should the run be in a statement that comes to nothing, its waits are put again. False: it takes its turn.
    """
    intent = item.intent
    if type(intent) is not WaitResult:
        return False
    run = runs.get(intent.run_id)
    if run is None or not run.state.open:
        return False
    try:
        require_same_workflow(run, intent)
    except Rejected:
        return False  # a refusal is an answer, and waits for its turn
    run.wait(run.result_waiters, item)
    return True


def wait_result(run: Run, item: Item) -> None:
    if run.state.open:
        run.wait(run.result_waiters, item)
    else:
        item.answer(closed_reply(run.state))


def wait_events(run: Run, item: Item, after_event_id: int) -> None:
    last = run.state.folded.next_event_id - 1
    if last > after_event_id or not run.state.open:
        item.answer(EventsReady(run.state.run_id, last, not run.state.open))
    else:
        run.wait(run.event_waiters, item)


def wake(run: Run, draft: Draft) -> None:
    """The run's changes are saved: answer those who waited for them."""
    state = run.state
    if not state.open and run.result_waiters:
        waiting, run.result_waiters = run.result_waiters, []
        for item in waiting:
            item.answer(closed_reply(state))
    if draft.events and run.event_waiters:
        last = state.folded.next_event_id - 1
        waiting, run.event_waiters = run.event_waiters, []
        for item in waiting:
            item.answer(EventsReady(state.run_id, last, not state.open))
