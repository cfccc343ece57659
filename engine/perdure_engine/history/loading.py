"""Runs that are not in memory, loaded beside the actor's loop: single flight, their intents parked in order.

Reads begin after this shard's acquisition committed (design §3), and nobody but the owner writes: what a read
returns cannot change unless this shard changes it, and it does not change what it has not loaded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perdure_engine.core.apply import fold
from perdure_engine.core.errors import Code, Rejected, not_found, unavailable
from perdure_engine.core.events import BufferedEvent, Event, WorkflowExecutionUpdateAdmitted
from perdure_engine.core.intents import PollUpdate, ResetWorkflow, StartWorkflow, UpdateWorkflow
from perdure_engine.core.state import Admitted, Folded, Head, RunState
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import Handout, TaskRecord, TaskState, TimerRecord
from perdure_engine.history.run import CurrentRun, Run
from perdure_engine.history.work import Item
from perdure_engine.ports.codec import Codec, CorruptRow
from perdure_engine.ports.rows import CurrentRunRow, HistoryRow
from perdure_engine.ports.store import RunRecord, StoreError

if TYPE_CHECKING:
    from perdure_engine.history.rooms import Rooms
    from perdure_engine.history.shard import Shard

Key = tuple[bytes, str]
RETRY_S = 1.0  # after a read that failed


class Loading:
    """One shard's loads."""

    __slots__ = ("_parked_currents", "_parked_runs", "_shard", "_tasks", "_waiting")

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._parked_runs: dict[bytes, list[Item]] = {}
        self._parked_currents: dict[Key, list[Item]] = {}
        self._waiting: list[bytes] = []  # loads that wait for a place
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Something waits for a read."""
        return bool(self._parked_runs or self._parked_currents)

    def park_for_run(self, run_id: bytes, item: Item) -> None:
        parked = self._parked_runs.get(run_id)
        if parked is not None:
            parked.append(item)
            return
        self._parked_runs[run_id] = [item]
        self._start(run_id)

    def park_for_current(self, key: Key, item: Item) -> None:
        parked = self._parked_currents.get(key)
        if parked is not None:
            parked.append(item)
            return
        self._parked_currents[key] = [item]
        self._shard.rooms.current_loader.request(self._shard, key)

    def look_up_first(self, item: Item) -> bool:
        """Park a start whose id is not in memory. False: it is, or nothing else can be said before its turn."""
        intent = item.intent
        assert isinstance(intent, StartWorkflow)
        key = (intent.namespace_id, intent.workflow_id)
        if key in self._shard.currents:
            return False
        self.park_for_current(key, item)
        return True

    def drain(self) -> list[Item]:
        """Whatever waits, given up (the shard closes)."""
        for task in self._tasks:
            task.cancel()
        parked = [*self._parked_runs.values(), *self._parked_currents.values()]
        self._parked_runs, self._parked_currents = {}, {}
        return [item for items in parked for item in items]

    def current_loaded(self, key: Key, current: CurrentRun | None) -> None:
        """None: the read failed; the callers hear UNAVAILABLE."""
        items = self._parked_currents.pop(key, [])
        shard = self._shard
        if current is None:
            for item in items:
                item.refuse(
                    unavailable("DATABASE_UNAVAILABLE", "the database did not answer a read")
                )
            return
        run = shard.runs.get(current.run_id)
        shard.currents.setdefault(key, run.current if run is not None else current)
        shard.put_again(items)
        shard.work_waits()

    def _start(self, run_id: bytes) -> None:
        if len(self._tasks) >= self._shard.rooms.config.loads_in_flight_max:
            self._waiting.append(run_id)
            return
        task = asyncio.get_running_loop().create_task(self._load(run_id))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._waiting and not self._shard.closed:
            self._start(self._waiting.pop(0))

    async def _load(self, run_id: bytes) -> None:
        shard = self._shard
        refusal: Rejected | None = None
        run: Run | None = None
        try:
            run = await self._read(run_id)
            if run is None:
                refusal = not_found("WORKFLOW", "the run does not exist, or is over its retention")
        except StoreError as error:
            refusal = unavailable(
                "DATABASE_UNAVAILABLE", f"the database did not answer a read: {error}"
            )
        except Exception as error:  # whatever it is, this run cannot be read, and the others can
            shard.quarantined.add(run_id, f"its rows do not read back: {error}")
            refusal = shard.quarantined.refusal(run_id)
        if shard.closed:
            return
        items = self._parked_runs.pop(run_id, [])
        if run is None:
            assert refusal is not None
            self._give_up(run_id, items, refusal)
            return
        shard.runs.setdefault(run_id, run)  # its start may have overtaken the read
        shard.put_again(items)
        shard.work_waits()

    def _give_up(self, run_id: bytes, items: list[Item], refusal: Rejected) -> None:
        """Callers are told. The shard's own work (timers above all) waits for the database to come back."""
        own: list[Item] = []
        for item in items:
            if refusal.code is not Code.UNAVAILABLE and _goes_on_without(item, run_id, refusal):
                item.looked_up = True
                self._shard.put_again([item])
            elif item.future is None and refusal.code is Code.UNAVAILABLE:
                own.append(item)
            else:
                item.refuse(refusal)
        self._shard.work_waits()
        if own:
            asyncio.get_running_loop().call_later(RETRY_S, self._put_back, own)

    def _put_back(self, items: list[Item]) -> None:
        for item in items:
            self._shard.put(item)

    async def _read(self, run_id: bytes) -> Run | None:
        shard = self._shard
        codec = shard.rooms.codec
        record = await shard.rooms.store.load_run(shard.shard_id, run_id, codec.task_keys_of_head)
        if record is None:
            return None
        state, events, events_from = restore(record, codec)
        kept = shard.kept_handouts.pop(run_id, None)
        if kept:
            _reattach(state, kept)
        run = Run(state, self._current_of(record, state), events, events_from)
        if kept:
            shard.leases.reloaded(run)
        return run

    def _current_of(self, record: RunRecord, state: RunState) -> CurrentRun:
        key = (record.execution.namespace_id, record.execution.workflow_id)
        known = self._shard.currents.get(key)
        if known is not None:
            return known
        row = record.current
        holder = self._shard.runs.get(row.run_id) if row is not None else None
        if (
            holder is not None
        ):  # the row was forgotten, its run was not: there must not be two of it
            current = holder.current
        elif row is not None:
            current = CurrentRun(row.run_id, Status(row.status), row.version)
        else:
            current = CurrentRun(b"", state.folded.status, 0)
        self._shard.currents[key] = current
        return current


def _goes_on_without(item: Item, run_id: bytes, refusal: Rejected) -> bool:
    """Whether the item has learned what it wanted to: that there is no such run yet, which it is to begin, or none
    before its own that knows of its update."""
    intent = item.intent
    match intent:
        case StartWorkflow():
            return refusal.code is Code.NOT_FOUND
        case ResetWorkflow():
            return refusal.code is Code.NOT_FOUND and intent.new_run_id == run_id
        case UpdateWorkflow() | PollUpdate():
            return not intent.run_id and not item.looked_up
        case _:
            return False


class CurrentLoader:
    """Reads current_runs rows for all shards of the process, as many in one statement as have come together."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._asked: dict[tuple[int, Key], Shard] = {}
        self._task: asyncio.Task[None] | None = None

    def request(self, shard: Shard, key: Key) -> None:
        self._asked[shard.shard_id, key] = shard
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._asked:
                # what comes during a statement would have its turn after it: one read for all of it
                await self._rooms.writer.statement_over()
                asked, self._asked = self._asked, {}
                await self._load(asked)
        finally:
            self._task = None

    async def _load(self, asked: dict[tuple[int, Key], Shard]) -> None:
        keys = [
            (shard_id, namespace_id, workflow_id) for shard_id, (namespace_id, workflow_id) in asked
        ]
        try:
            rows = await self._rooms.store.load_current_runs(keys)
        except StoreError:
            for (_, key), shard in asked.items():
                shard.loading.current_loaded(key, None)
            return
        found = {(row.shard_id, (row.namespace_id, row.workflow_id)): row for row in rows}
        for address, shard in asked.items():
            if not shard.closed:
                shard.loading.current_loaded(address[1], _current_of_row(found.get(address)))


def _current_of_row(row: CurrentRunRow | None) -> CurrentRun | None:
    """No row: the id was never used. None: the row does not read back."""
    if row is None:
        return CurrentRun(b"", Status.RUNNING, 0)
    try:
        return CurrentRun(row.run_id, Status(row.status), row.version)
    except ValueError:
        return None


def restore(record: RunRecord, codec: Codec) -> tuple[RunState, list[Event], int]:
    """State = fold(history) + inbox + rows. Also the events that were read, and the id of the first of them.

    Raises CorruptRow, IllegalMove.
    """
    head = codec.decode_head(record.execution.head)
    events = decode_history(record.history, codec)
    folded = _folded(record, head, events, codec)
    if folded.next_event_id != record.execution.next_event_id:
        raise CorruptRow(f"history ends before event {record.execution.next_event_id - 1}")
    buffered, admitted = _inbox(record, head, codec)
    state = RunState(
        folded,
        buffered=buffered,
        inbox_seq=head.inbox_seq,
        inbox_done=record.execution.inbox_done,
        tasks=_tasks(record, head, codec),
        timer_rows={
            (kind, reference): TimerRecord(kind, reference, wake_us, timer_id, due_us, version=1)
            for kind, reference, wake_us, timer_id, due_us in head.timer_keys
        },
        history_bytes=head.history_bytes,
        snapshot_event_id=head.snapshot_event_id,
        version=record.execution.version,
        sticky_worker_id=head.sticky_worker_id,
        admitted=admitted,
        inbox_numbered=head.inbox_numbered,
    )
    return state, events, events[0].event_id if events else folded.next_event_id


def decode_history(rows: list[HistoryRow], codec: Codec) -> list[Event]:
    """Join the parts of each batch and decode them in order."""
    events: list[Event] = []
    parts: list[bytes] = []
    for index, row in enumerate(rows):
        parts.append(row.payload)
        last = index + 1 == len(rows) or rows[index + 1].first_event_id != row.first_event_id
        if last:
            events += codec.decode_events(b"".join(parts) if len(parts) > 1 else parts[0])
            parts = []
    return events


def _folded(record: RunRecord, head: Head, events: list[Event], codec: Codec) -> Folded:
    base: Folded | None = None
    if record.snapshot:
        if record.snapshot[0].event_id != head.snapshot_event_id:
            raise CorruptRow(f"no snapshot of event {head.snapshot_event_id}")
        base = codec.decode_snapshot(b"".join(row.payload for row in record.snapshot))
    return fold(events, base)


def _inbox(
    record: RunRecord, head: Head, codec: Codec
) -> tuple[list[BufferedEvent], dict[str, Admitted] | None]:
    """What waits: buffered events, and admitted updates. Rows of either may be dead among live ones of the other."""
    buffered: list[BufferedEvent] = []
    admitted: dict[str, Admitted] = {}
    for row in record.inbox:
        event = codec.decode_buffered(row.payload)
        if isinstance(event, WorkflowExecutionUpdateAdmitted):
            if row.seq in head.admitted:
                admitted[event.update_id] = Admitted(row.seq, event)
        elif row.seq > head.inbox_numbered:
            buffered.append(event)
    if len(admitted) != len(head.admitted):
        raise CorruptRow("the row of an admitted update is missing")
    return buffered, admitted or None


def _tasks(record: RunRecord, head: Head, codec: Codec) -> dict[int, TaskRecord]:
    rows = {(row.queue_no, row.task_id): row for row in record.tasks}
    tasks: dict[int, TaskRecord] = {}
    for key, queue_no, task_id in head.task_keys:
        row = rows.get((queue_no, task_id))
        if row is None:
            raise CorruptRow(f"task row {queue_no}/{task_id} is missing")
        tasks[key] = codec.decode_task(row)
    return tasks


def _reattach(state: RunState, kept: dict[int, tuple[int, Handout]]) -> None:
    """Hand-outs that the memory before an eviction knew of are still out."""
    for key, (attempt, handout) in kept.items():
        record = state.tasks.get(key)
        if record is None or record.state in (TaskState.BACKOFF, TaskState.ASYNC):
            continue
        if record.attempt == attempt and handout.start_no >= record.start_no:
            handout.saved = (
                record.state is TaskState.STARTED
            )  # what was decided may not have been saved
            record.handout = handout
            record.start_no = handout.start_no
            record.worker_id, record.identity, record.started_us = (
                handout.worker_id,
                handout.identity,
                handout.started_us,
            )
