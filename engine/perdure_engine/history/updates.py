"""Calls that wait for an update: until it is accepted, rejected, completed, or its run has closed.

One outcome for all: it is read from the state, and from history when the handler has ended. What waits lives in memory;
a caller whose shard moves asks again, with the same update id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from perdure_engine.core import update_status
from perdure_engine.core.describe import following, reset_run
from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import Event, WorkflowExecutionUpdateCompleted
from perdure_engine.core.intents import PollUpdate, StartWorkflow, UpdateStage, UpdateWorkflow
from perdure_engine.core.replies import UpdateStatus
from perdure_engine.history.reading import read_events
from perdure_engine.history.refusals import moved
from perdure_engine.history.run import Run
from perdure_engine.history.work import Item

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

REPEATED_FOR_US = 10 * 60 * 1_000_000  # clients repeat a call for a minute
RUNS_BACK_MAX = 10


class Updates:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._reading: dict[asyncio.Task[None], Item] = {}

    def run_that_knows(self, run: Run, item: Item) -> Run | None:
        """The run of the chain that an update asked of the current one belongs to. None: parked.

        A caller whose answer was lost repeats the call, and meanwhile the run may have continued as new: what it
        asks for has been done then, and must not be done again (invariant 43). What has failed may be tried anew
        with the same id, as it may in the run after (and what an entity's run could not come to is). Runs that
        began long ago are not looked behind: nobody repeats for so long, and a key has thousands before it.
        """
        intent = item.intent
        if not isinstance(intent, UpdateWorkflow | PollUpdate) or item.looked_up:
            return run
        since_us = self._shard.rooms.database_clock.low_us() - REPEATED_FOR_US
        found = run
        for _ in range(RUNS_BACK_MAX):
            if update_status.stage_of(found.state, intent.update_id) is not None:
                item.of_before = found is not run
                return found
            started = found.state.folded.started
            before = started.continued_from_run_id
            if not before or started.time_us < since_us or before in self._shard.quarantined:
                return run
            earlier = self._shard.runs.get(before)
            if earlier is None:
                self._shard.loading.park_for_run(before, item)
                return None
            found = earlier
        return run

    def wait(self, run: Run, item: Item, draft: Draft | None, *, started: bool = False) -> None:
        """After the commit of everything decided before: answer now, or when the stage is reached.

        `draft`: what that commit changed of the run. `started`: of an update-with-start, whether the run began with
        it.
        """
        update_id, wanted = _asked(item)
        if not run.state.open:
            run = self._heir(run, item, update_id) or run
        stage = update_status.stage_of(run.state, update_id)
        if stage is None:
            self._tell_gone(run, item, update_id, draft)
        elif stage < wanted:
            if run.update_waiters is None:
                run.update_waiters = {}
            run.wait(run.update_waiters.setdefault(update_id, []), item)
        else:
            self._answer(run, item, update_id, stage, started)

    def run_changed(self, run: Run, draft: Draft) -> None:
        """The run's changes are saved: answer those whose stage is reached."""
        assert run.update_waiters is not None
        waiting, run.update_waiters = run.update_waiters, None
        for update_id, items in waiting.items():
            failure = draft.rejected.get(update_id) if draft.rejected is not None else None
            for item in items:
                if failure is not None:
                    item.answer(update_status.rejected(run.state, update_id, failure))
                else:
                    self.wait(run, item, draft, started=_began(run, item))

    def stop(self) -> None:
        for task, item in self._reading.items():
            task.cancel()
            item.refuse(moved(self._shard.shard_id))
        self._reading.clear()

    def _heir(self, run: Run, item: Item, update_id: str) -> Run | None:
        """The run in memory that has an update which went along from a run that has closed."""
        updates = run.state.folded.updates
        update = updates.get(update_id) if updates is not None else None
        if not _asks_the_chain(item) or (update is not None and update.completed_event_id):
            return None
        heir: Run | None = run
        while heir is not None and not heir.state.open:
            closed = heir.state.folded.closed
            heir = self._shard.runs.get(following(closed) or reset_run(closed))
            if heir is not None and update_status.stage_of(heir.state, update_id) is not None:
                return heir
        return None

    def _tell_gone(self, run: Run, item: Item, update_id: str, draft: Draft | None) -> None:
        """The run does not have it: rejected just now, or dropped with the run's end, or never there."""
        failure = None
        if draft is not None and draft.rejected is not None:
            failure = draft.rejected.get(update_id)
        if failure is not None:
            item.answer(update_status.rejected(run.state, update_id, failure))
        elif following(run.state.folded.closed) and _asks_the_chain(item):
            self._shard.put_again([_of_the_current_run(item)])  # it went along
            self._shard.work_waits()
        elif run.state.open or isinstance(item.intent, PollUpdate):
            item.refuse(update_status.unknown(run.state, update_id))
        else:
            item.refuse(update_status.closed_before(run.state, update_id))

    def _answer(
        self, run: Run, item: Item, update_id: str, stage: UpdateStage, started: bool
    ) -> None:
        state = run.state
        update = state.folded.updates.get(update_id) if state.folded.updates is not None else None
        if update is None or not update.completed_event_id:
            found = update_status.status(state, update_id, stage)
            self._tell(item, msgspec.structs.replace(found, started=started))
            return
        events = run.events_past(update.completed_event_id - 1)
        if events:
            self._tell(item, _outcome(run, events[0], started))
        else:
            self._beside(item, self._read(run, item, update.completed_event_id, started))

    async def _read(self, run: Run, item: Item, event_id: int, started: bool) -> None:
        """The outcome of long ago is in the database only; history is append-only, so what is read is true."""
        try:
            events = await read_events(self._shard, run.state.run_id, event_id, 1)
            if not events:
                raise Rejected(Code.DATA_LOSS, "HISTORY_INCOMPLETE", f"event {event_id} is missing")
            self._tell(item, _outcome(run, events[0], started))
        except Rejected as refusal:
            item.refuse(refusal)

    def _tell(self, item: Item, found: UpdateStatus) -> None:
        """The answer; but what failed in an earlier run is asked of the current one."""
        if item.of_before and found.failure is not None and isinstance(item.intent, UpdateWorkflow):
            item.looked_up, item.of_before = True, False
            self._shard.put_again([item])
            self._shard.work_waits()
        else:
            item.answer(found)

    def _beside(self, item: Item, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._reading[task] = item
        task.add_done_callback(lambda done: self._reading.pop(done, None))


def _outcome(run: Run, event: Event, started: bool) -> UpdateStatus:
    assert isinstance(event, WorkflowExecutionUpdateCompleted)
    return msgspec.structs.replace(update_status.completed(run.state, event), started=started)


def _asked(item: Item) -> tuple[str, UpdateStage]:
    match item.intent:
        case UpdateWorkflow() | PollUpdate() as asked:
            return asked.update_id, asked.wait_stage
        case StartWorkflow(update=update) if update is not None:
            return update.update_id, update.wait_stage
        case other:
            raise AssertionError(other)


def _of_the_current_run(item: Item) -> Item:
    """What is asked of whichever run is current. A start names its own, and would come back here for ever."""
    intent = item.intent
    if not isinstance(intent, StartWorkflow):
        return item
    update_id, wanted = _asked(item)
    poll = PollUpdate(
        namespace_id=intent.namespace_id,
        workflow_id=intent.workflow_id,
        run_id=b"",
        update_id=update_id,
        wait_stage=wanted,
    )
    return Item(poll, item.future)


def _asks_the_chain(item: Item) -> bool:
    """Whether any run of the workflow id may answer."""
    intent = item.intent
    return isinstance(intent, StartWorkflow) or (
        isinstance(intent, UpdateWorkflow | PollUpdate) and not intent.run_id
    )


def _began(run: Run, item: Item) -> bool:
    """Whether this call's start began the run."""
    intent = item.intent
    return (
        isinstance(intent, StartWorkflow)
        and run.state.folded.started.request_id == intent.request_id
    )
