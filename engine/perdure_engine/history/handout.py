"""Handing tasks to workers: the shard decides the start (design §6).

A start may be handed out before it is saved, unless its retry policy allows one attempt only. Nothing of a run
that is busy is handed out, and nothing at all while the node's lease may be over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from perdure_engine.core import events as ev
from perdure_engine.core import limits
from perdure_engine.core.decide.attempts import key_of
from perdure_engine.core.decide.complete_activity import may_go_ahead
from perdure_engine.core.decide.complete_workflow_task import suggest_continue_as_new
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import Event
from perdure_engine.core.intents import DescribeWorkflow, PutBackTask, SaveStart
from perdure_engine.core.lineage import writer_of
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import Handout, TaskKind, TaskRecord, TaskState
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.reading import read_task_events
from perdure_engine.history.run import Run
from perdure_engine.history.work import AnyReply, Item
from perdure_engine.ports.history import (
    Handed,
    HandedActivityTask,
    HandedQuery,
    HandedWorkflowTask,
    StartOutcome,
    WorkerRef,
)
from perdure_engine.ports.matching import TaskOffer

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard


def start_task(shard: Shard, offer: TaskOffer, worker: WorkerRef) -> StartOutcome:
    """See ports.history."""
    run = shard.runs.get(offer.run_id)
    if run is not None and run.busy:
        return _start_when_free(shard, run, offer, worker)
    if run is None or shard.unproven or not shard.rooms.lease_valid():
        return asyncio.ensure_future(_start_later(shard, offer, worker))
    if offer.query_no:
        return shard.queries.hand_out(run, offer, worker)
    record = run.state.tasks.get(key_of(offer.kind, offer.scheduled_event_id))
    if not _startable(record, offer):
        shard.queues.forget(offer)
        return None
    assert record is not None
    if (record.pinned or worker.version or shard.rooms.routing.active) and (
        shard.queues.version_of(run, record) != worker.version
    ):
        shard.queues.offer(run, record)  # its version has changed since it was offered
        return None
    if worker.pool != ("" if record.aside is None else record.pool):
        shard.queues.offer(run, record)  # it is poisoned, or is not any more
        return None
    if offer.kind is TaskKind.WORKFLOW:
        return _start_workflow_task(shard, run, record, worker)
    return _start_activity(shard, run, record, worker)


def _startable(record: TaskRecord | None, offer: TaskOffer) -> bool:
    return (
        record is not None
        and record.task_id == offer.task_id
        and record.state is TaskState.READY
        and record.handout is None
    )


def _start_when_free(
    shard: Shard, run: Run, offer: TaskOffer, worker: WorkerRef
) -> asyncio.Future[Handed | None]:
    """Start right after the commit that the run is in, before the next one makes it busy again."""
    started: asyncio.Future[Handed | None] = asyncio.get_running_loop().create_future()

    run.then.append(lambda: _go_on(shard, offer, worker, started))
    return started


def _go_on(
    shard: Shard, offer: TaskOffer, worker: WorkerRef, started: asyncio.Future[Handed | None]
) -> None:
    if started.done():
        return  # the poll has gone
    ready = not (shard.closed or shard.leaving or shard.unproven) and shard.rooms.lease_valid()
    if not ready or offer.run_id not in shard.runs:
        started.set_result(None)
        shard.queues.offer_soon()  # or the next owner does
        return
    try:
        outcome = start_task(shard, offer, worker)
    except Exception as error:  # a bug: matching reports it, the shard's other work goes on
        started.set_exception(error)
        return
    if isinstance(outcome, asyncio.Future):
        outcome.add_done_callback(lambda done: _pass_on(shard, done, started))
    else:
        started.set_result(outcome)


def _pass_on(
    shard: Shard, done: asyncio.Future[Handed | None], started: asyncio.Future[Handed | None]
) -> None:
    handed = None if done.cancelled() or done.exception() is not None else done.result()
    if not started.done():
        started.set_result(handed)
    elif handed is not None:
        undo(shard, handed)


class _Touch(Item):
    """Has a run loaded, or the lease proved by a fence step; then goes on at once, before the run can leave memory."""

    __slots__ = ("_go_on",)

    def __init__(
        self, offer: TaskOffer, started: asyncio.Future[Handed | None], go_on: Callable[[], None]
    ) -> None:
        intent = DescribeWorkflow(
            namespace_id=offer.namespace_id, workflow_id="", run_id=offer.run_id
        )
        super().__init__(intent, started)
        self._go_on = go_on

    def answer(self, reply: AnyReply) -> None:
        self._go_on()

    def refuse(self, error: Rejected) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(None)  # the offer comes again, from whoever owns the shard


def _start_later(
    shard: Shard, offer: TaskOffer, worker: WorkerRef
) -> asyncio.Future[Handed | None]:
    started: asyncio.Future[Handed | None] = asyncio.get_running_loop().create_future()
    shard.put(_Touch(offer, started, lambda: _go_on(shard, offer, worker, started)))
    return started


def _hand_out(
    shard: Shard,
    run: Run,
    record: TaskRecord,
    worker: WorkerRef,
    timeout_ms: int,
    started_event_id: int,
    updates_to: int = 0,
) -> TaskToken:
    """Mark the record as started by this worker, in memory, and make the token that says so."""
    start_no = shard.new_number()
    metrics = shard.rooms.metrics
    started_us = max(shard.rooms.database_clock.low_us(), run.state.folded.last_time_us)
    lease_until = shard.rooms.clock.monotonic() + shard.rooms.config.lease_s
    record.start_no = start_no
    record.worker_id, record.identity, record.started_us = (
        worker.worker_id,
        worker.identity,
        started_us,
    )
    record.handout = Handout(
        start_no,
        worker.worker_id,
        worker.identity,
        started_us,
        lease_until,
        started_event_id,
        beat_us=started_us,
    )
    waited = (
        metrics.workflow_task_schedule_to_start_seconds
        if record.kind is TaskKind.WORKFLOW
        else metrics.activity_schedule_to_start_seconds
    )
    waited.observe((started_us - record.ready_us) / 1_000_000)
    token = TaskToken(
        shard.shard_id,
        run.state.folded.started.namespace_id,
        run.state.run_id,
        record.kind,
        record.scheduled_event_id,
        record.attempt,
        start_no,
        started_us,
        started_us + timeout_ms * 1000 if timeout_ms else 0,
        started_event_id,
        updates_to,
    )
    shard.queues.handed_out(run, record)
    shard.leases.hand_out(run, key_of(record.kind, record.scheduled_event_id), record, token)
    return token


def _start_activity(
    shard: Shard, run: Run, record: TaskRecord, worker: WorkerRef
) -> Handed | asyncio.Future[Handed | None]:
    activity = run.state.folded.activities[record.scheduled_event_id]
    scheduled = activity.scheduled
    if record.aside is not None and record.aside.options is not None:
        scheduled = msgspec.structs.replace(
            scheduled, **msgspec.structs.asdict(record.aside.options)
        )
    token = _hand_out(shard, run, record, worker, scheduled.start_to_close_timeout_ms, 0)
    started = run.state.folded.started
    handed = HandedActivityTask(
        token,
        started.namespace_id,
        started.workflow_id,
        started.run_id,
        started.workflow_type,
        scheduled,
        record.attempt,
        token.started_us,
        record.progress,
        record.progress_version,
        # after a reset it keeps its key: it may have done its work in the run that scheduled it
        writer_of(started, scheduled.event_id) if started.lineage else b"",
        record.crash_count if record.aside is not None else 0,
        _may_go_ahead(run, record, scheduled.retry_policy, worker),
    )
    if scheduled.retry_policy.maximum_attempts == 1:
        return asyncio.ensure_future(_saved_first(shard, record.scheduled_event_id, handed))
    return handed


def _may_go_ahead(run: Run, record: TaskRecord, policy: RetryPolicy, worker: WorkerRef) -> bool:
    """Not where the workflow's code could cost the activity its outcome: that code may crash the process or keep it
    busy until a timeout, and then this attempt counts as lost. Whether the run's next task is of the worker's version
    is asked when the outcome comes."""
    is_last = 0 < policy.maximum_attempts <= record.attempt
    return (
        not is_last
        and not (record.aside is not None and record.crash_count)
        and may_go_ahead(run.state, worker.worker_id)
    )


async def _saved_first(shard: Shard, key: int, handed: HandedActivityTask) -> Handed | None:
    """An activity that may run once only: the start is saved before a worker hears of it."""
    try:
        await shard.submit(SaveStart(handed.run_id, key, handed.token.start_no))
    except Rejected:
        undo(shard, handed)  # no worker has heard of it
        return None
    return handed


def _start_workflow_task(
    shard: Shard, run: Run, record: TaskRecord, worker: WorkerRef
) -> Handed | asyncio.Future[Handed | None] | None:
    state = run.state
    if state.buffered:
        # events wait since before a take-over for a task nobody claimed: number them first
        shard.tell(
            PutBackTask(
                state.run_id, TaskKind.WORKFLOW, record.scheduled_event_id, record.start_no, False
            )
        )
        return None
    folded = state.folded
    sticky = (
        worker.worker_id == state.sticky_worker_id
        and record.scheduled_event_id != 0
        and (record.aside is None or not record.isolated)
    )
    events = run.events_past(folded.previous_started_id if sticky else 0)
    if events is None and sticky:
        events = run.events_past(0)
    transient = record.scheduled_event_id == 0
    started_event_id = folded.next_event_id + (1 if transient else 0)
    suggest = suggest_continue_as_new(state, shard.rooms.run_limits)
    updates, updates_to = _updates_of(run) if state.admitted is not None else ((), 0)
    timeout_ms = folded.started.task_timeout_ms
    token = _hand_out(shard, run, record, worker, timeout_ms, started_event_id, updates_to)
    tail = _tail(run, record, token, suggest)
    queries = shard.queries.attach(run, worker)
    handed = _workflow_task(run, record, token, events, tail, queries, suggest, updates)
    if handed.next_event_id:
        return asyncio.ensure_future(_with_first_page(shard, handed))
    return handed


def _updates_of(run: Run) -> tuple[list[ev.WorkflowExecutionUpdateAdmitted], int]:
    """The admitted updates that travel with the task, as many as fit; and the inbox number of the last of them."""
    assert run.state.admitted is not None
    updates: list[ev.WorkflowExecutionUpdateAdmitted] = []
    updates_to = size = 0
    for one in run.state.admitted.values():
        size += len(one.event.input) + len(one.event.header)
        if updates and size > limits.TASK_UPDATES_BYTES_MAX:
            break
        updates.append(one.event)
        updates_to = one.seq
    return updates, updates_to


def _tail(run: Run, record: TaskRecord, token: TaskToken, suggest: bool) -> list[Event]:
    """The events the worker sees and history does not have yet: they are written when the task completes."""
    started = run.state.folded.started
    scheduled_id = record.scheduled_event_id or token.started_event_id - 1
    tail: list[Event] = []
    if not record.scheduled_event_id:
        tail.append(
            ev.WorkflowTaskScheduled(
                scheduled_id,
                token.started_us,
                started.task_queue,
                started.task_timeout_ms,
                record.attempt,
            )
        )
    tail.append(
        ev.WorkflowTaskStarted(
            token.started_event_id,
            token.started_us,
            scheduled_id,
            record.identity,
            run.state.history_bytes,
            suggest,
        )
    )
    return tail


def _workflow_task(
    run: Run,
    record: TaskRecord,
    token: TaskToken,
    events: list[Event] | None,
    tail: list[Event],
    queries: list[HandedQuery],
    suggest: bool,
    updates: Sequence[ev.WorkflowExecutionUpdateAdmitted],
) -> HandedWorkflowTask:
    folded = run.state.folded
    started = folded.started
    return HandedWorkflowTask(
        token=token,
        shard_id=token.shard_id,
        namespace_id=started.namespace_id,
        workflow_id=started.workflow_id,
        run_id=started.run_id,
        workflow_type=started.workflow_type,
        attempt=record.attempt,
        previous_started_event_id=folded.previous_started_id,
        started_event_id=token.started_event_id,
        events=[] if events is None else [*events, *tail],
        next_event_id=1 if events is None else 0,
        tail=tail,
        queries=queries,
        task_timeout_ms=started.task_timeout_ms,
        history_bytes=run.state.history_bytes,
        suggest_continue_as_new=suggest,
        updates=updates,
        crashes=record.crash_count if record.aside is not None else 0,
    )


async def _with_first_page(shard: Shard, handed: HandedWorkflowTask) -> Handed | None:
    """Events that are not in memory come from the database, a page with the task and the rest on request."""
    last_saved = handed.tail[0].event_id - 1 if handed.tail else handed.started_event_id
    try:
        events, next_event_id = await read_task_events(
            shard, handed.run_id, 1, last_saved, limits.TASK_HISTORY_PAGE_BYTES_MAX
        )
    except Rejected as refusal:
        _cannot_be_read(shard, handed, refusal)
        return None
    if not next_event_id:
        events += handed.tail
    return msgspec.structs.replace(handed, events=events, next_event_id=next_event_id)


def _cannot_be_read(shard: Shard, handed: HandedWorkflowTask, refusal: Rejected) -> None:
    """Offered again at once, it would go round and read as fast as the loop turns. What is missing or damaged sets its
    run aside: who asks is told, and its neighbours go on."""
    undo(shard, handed, at_once=False)
    run = shard.runs.get(handed.run_id)
    if shard.removing.takes(handed.run_id):
        return  # it is being deleted
    if refusal.code is Code.DATA_LOSS and run is not None and not run.busy:
        shard.quarantined.add(handed.run_id, refusal.message)
        shard.evict(run)
        shard.work_waits()


def query_only_task(
    shard: Shard, run: Run, worker: WorkerRef, queries: list[HandedQuery]
) -> HandedWorkflowTask | asyncio.Future[Handed | None]:
    """A task that brings nothing but queries: the worker's cache, or the whole history, answers them."""
    folded = run.state.folded
    sticky = worker.worker_id == run.state.sticky_worker_id
    events = run.events_past(folded.next_event_id - 1 if sticky else 0)
    started = folded.started
    handed = HandedWorkflowTask(
        token=None,
        shard_id=shard.shard_id,
        namespace_id=started.namespace_id,
        workflow_id=started.workflow_id,
        run_id=started.run_id,
        workflow_type=started.workflow_type,
        attempt=1,
        previous_started_event_id=folded.previous_started_id,
        started_event_id=folded.next_event_id - 1,
        events=events if events is not None else [],
        next_event_id=1 if events is None else 0,
        tail=[],
        queries=queries,
        task_timeout_ms=started.task_timeout_ms,
        history_bytes=run.state.history_bytes,
        suggest_continue_as_new=False,
    )
    if handed.next_event_id:
        return asyncio.ensure_future(_with_first_page(shard, handed))
    return handed


def undo(shard: Shard, handed: Handed, *, at_once: bool = True) -> None:
    """The worker never got it. It is offered again, at once or soon."""
    if isinstance(handed, HandedWorkflowTask):
        shard.queries.put_back(handed, at_once=at_once)
    token = handed.token
    if token is None:
        return
    run = shard.runs.get(token.run_id)
    key = key_of(token.kind, token.scheduled_event_id)
    record = run.state.tasks.get(key) if run is not None else None
    if run is not None and not run.busy:
        if record is None or record.handout is None or record.handout.start_no != token.start_no:
            return
        if not record.handout.saved and not run.state.buffered:
            _take_back(shard, run, record, token.start_no, at_once=at_once)
            return
    # the database may know of the start, or events wait for it: only a commit takes it back
    shard.tell(
        PutBackTask(
            token.run_id, token.kind, token.scheduled_event_id, token.start_no, worker_dead=False
        )
    )


def _take_back(shard: Shard, run: Run, record: TaskRecord, start_no: int, *, at_once: bool) -> None:
    record.handout = None
    shard.leases.drop(start_no)
    shard.queues.offer(run, record, at_once=at_once)
