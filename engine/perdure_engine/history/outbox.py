"""The pump beside the actor: carries saved messages of this shard's runs to other runs (design §10).

A message is a row of `tasks`, saved in the batch that initiates it and gone in the batch that writes down its answer.
In between it is delivered as often as it takes: at once after the commit, again with a growing wait while there is no
definite answer, and again by the next owner, which finds the rows when it takes the shard. The receiver knows a repeat
by its ids, so the effect is once (reliability 48, 49). Nothing here is true: it may be lost at any time.

Messages of one run to one workflow id go one after the other, in the order in which they were saved: the next one is
sent when the answer to the one before is saved. A *lane* is such a sequence. So that the order holds over a
take-over, nothing is sent before the rows of before have been found. At most WINDOW messages are under way to one
shard, and at most CREDIT are in memory; the rest is read from its rows when there is room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure_engine.core.draft import Draft
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import shard_of
from perdure_engine.core.intents import AnswerMessage, MessageOutcome, ReadMessage
from perdure_engine.core.messages import Message, message_of
from perdure_engine.core.tasks import MESSAGE_QUEUE_NO, TaskKind, TaskState
from perdure_engine.history.refusals import TOO_MANY, is_expected, is_final
from perdure_engine.history.run import Run
from perdure_engine.ports.codec import CorruptRow
from perdure_engine.ports.rows import TaskRow
from perdure_engine.ports.store import StoreError

if TYPE_CHECKING:
    from perdure_engine.history.shard import Shard

WINDOW = 64  # under way to one shard: half of what one statement there takes
CREDIT = 4_000  # in memory; a lane that waits costs about 2 KB
PAGE = 500
WAIT_S = 0.1  # before the first repeat; doubles
WAIT_S_MAX = 10.0
READ_RETRY_S = 1.0


class Entry(NamedTuple):
    run_id: bytes
    namespace_id: bytes
    workflow_id: str  # whom it goes to
    key: int
    task_id: int


Lane = deque[Entry]


class Window(msgspec.Struct, eq=False):
    places: asyncio.Semaphore
    users: int = 0


class Outbox:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._lanes: dict[tuple[bytes, str], Lane] = {}
        self._known: set[int] = set()  # task ids in the lanes
        self._of_run: dict[bytes, int] = {}  # how many of them
        self._begun = False  # the rows of before the take-over have been found
        self._found: list[Entry] = []  # until then
        self._more = False  # rows past the cursor are not in memory
        self._cursor = 0
        self._missed = False  # one was left to paging while a page was being read
        self._loading = False
        self._windows: dict[int, Window] = {}  # by the receiver's shard, while somebody uses them
        self._tasks: set[asyncio.Task[None]] = set()
        self._when_empty: dict[bytes, list[Callable[[], None]]] = {}

    @property
    def busy(self) -> bool:
        """Something is to be said."""
        return bool(self._known) or self._more

    def holds(self, run_id: bytes) -> bool:
        """Whether the run may have something to say still: then its rows must stay."""
        return self._more or not self._begun or run_id in self._of_run

    def when_empty(self, run_id: bytes, then: Callable[[], None]) -> None:
        """Call `then` once the run has nothing to say any more; at once if it has not. Forgotten with the shard."""
        if self.holds(run_id):
            self._when_empty.setdefault(run_id, []).append(then)
        else:
            then()

    # ---- after a commit

    def publish(self, run: Run, draft: Draft) -> None:
        """The draft has made messages, and is saved."""
        started = run.state.folded.started
        for record in dict.fromkeys(draft.tasks):
            if record.kind is TaskKind.MESSAGE and record.state is TaskState.TO_SEND:
                key = record.scheduled_event_id
                self._admit(
                    Entry(started.run_id, started.namespace_id, record.queue, key, record.task_id)
                )

    def _admit(self, entry: Entry) -> None:
        if self._more or len(self._known) >= CREDIT:
            self._leave_to_paging(entry.task_id)
        elif entry.task_id not in self._known:
            self._know(entry)

    def _leave_to_paging(self, task_id: int) -> None:
        """No room for it now: the pages start before it, wherever the cursor had come to."""
        self._cursor = min(self._cursor, task_id - 1) if self._more else task_id - 1
        self._more = self._missed = True

    def _know(self, entry: Entry) -> None:
        self._known.add(entry.task_id)
        self._of_run[entry.run_id] = self._of_run.get(entry.run_id, 0) + 1
        if not self._begun:
            self._found.append(entry)
            return
        self._put(entry)

    def _put(self, entry: Entry) -> None:
        lane_key = (entry.run_id, entry.workflow_id)
        lane = self._lanes.get(lane_key)
        if lane is not None:
            lane.append(entry)
            return
        lane = self._lanes[lane_key] = deque((entry,))
        self._beside(self._serve(lane_key, lane))

    def _forget(self, entry: Entry) -> None:
        self._known.discard(entry.task_id)
        left = self._of_run[entry.run_id] - 1
        if left:
            self._of_run[entry.run_id] = left
        else:
            del self._of_run[entry.run_id]
        if self._more and len(self._known) < CREDIT // 2:
            self._next_page()
        elif not self.holds(entry.run_id):
            for then in self._when_empty.pop(entry.run_id, ()):
                then()

    # ---- take-over

    def found(self, row: TaskRow) -> None:
        """A row of before the take-over, in key order."""
        entry = self._entry_of(row)
        if entry is not None:
            self._admit(entry)

    def begin(self) -> None:
        """All rows of before have been found."""
        if self._begun:
            return
        self._begun = True
        found, self._found = self._found, []
        for entry in sorted(found, key=lambda entry: entry.task_id):
            self._put(entry)
        if self._more:
            self._next_page()
        self._tell_empty()

    def _tell_empty(self) -> None:
        for run_id in [run_id for run_id in self._when_empty if not self.holds(run_id)]:
            for then in self._when_empty.pop(run_id):
                then()

    def _entry_of(self, row: TaskRow) -> Entry | None:
        """One that does not read back is its run's trouble, not its neighbours'."""
        codec = self._shard.rooms.codec
        try:
            record = codec.decode_task(row)
            namespace_id = codec.namespace_of_task(row)
        except CorruptRow as error:
            self._shard.rooms.alarm("corrupt_task_row", run_id=row.run_id.hex(), error=error)
            return None
        return Entry(row.run_id, namespace_id, record.queue, record.scheduled_event_id, row.task_id)

    # ---- paging

    def _next_page(self) -> None:
        if not self._loading and self._begun and not self._shard.closed:
            self._loading = True
            self._beside(self._load_page())

    async def _load_page(self) -> None:
        """The next page of saved rows. New messages come after it: the key is their age."""
        shard = self._shard
        try:
            rows = await self._read_page()
        finally:
            self._loading = False
        if shard.closed:
            return
        for row in rows:
            self._cursor = max(self._cursor, row.task_id)
            if row.state == TaskState.TO_SEND and row.task_id not in self._known:
                entry = self._entry_of(row)
                if entry is not None:
                    self._know(entry)
        if len(rows) < PAGE and not self._missed:
            self._more = False
            self._tell_empty()
        elif len(self._known) < CREDIT // 2:
            self._next_page()

    async def _read_page(self) -> list[TaskRow]:
        shard = self._shard
        while True:
            self._missed = False
            asked = self._cursor
            try:
                rows = await shard.rooms.store.load_queue_tasks(
                    shard.shard_id, MESSAGE_QUEUE_NO, asked, PAGE
                )
            except StoreError:
                await shard.rooms.clock.sleep(READ_RETRY_S)
                continue
            if self._cursor >= asked:
                return rows

    # ---- sending

    async def _serve(self, lane_key: tuple[bytes, str], lane: Lane) -> None:
        while lane:
            entry = lane[0]
            await self._send(entry)
            lane.popleft()
            if not lane:
                del self._lanes[lane_key]
            self._forget(entry)

    async def _send(self, entry: Entry) -> None:
        """Returns when the message has its answer, and that is written down."""
        shard = self._shard
        wait_s = WAIT_S
        while True:
            try:
                await self._try(entry)
            except Rejected as refusal:
                if not is_expected(refusal):
                    shard.rooms.alarm(
                        "message_refused", run_id=entry.run_id.hex(), key=entry.key, why=refusal
                    )
            except Exception as error:  # a bug: whatever it is, the message must not be lost
                shard.rooms.alarm(
                    "message_failed", run_id=entry.run_id.hex(), key=entry.key, error=error
                )
            else:
                return
            await shard.rooms.clock.sleep(wait_s * (0.5 + shard.rooms.ids.jitter()))
            wait_s = min(wait_s * 2, WAIT_S_MAX)

    async def _try(self, entry: Entry) -> None:
        shard = self._shard
        target = shard_of(
            entry.namespace_id, entry.workflow_id, shard.rooms.delivery.number_of_shards
        )
        async with self._window(target):
            message = await self._read(entry)
            if message is None:
                return
            outcome = await self._deliver(target, message)
        answer = AnswerMessage(entry.run_id, entry.key, entry.task_id, outcome)
        try:
            await shard.submit(answer)
        except Rejected as refusal:
            if refusal.code is not Code.NOT_FOUND:  # the run is gone, and the message with it
                raise

    @asynccontextmanager
    async def _window(self, target: int) -> AsyncIterator[None]:
        """A place among those that may be under way to the shard."""
        window = self._windows.get(target)
        if window is None:
            window = self._windows[target] = Window(asyncio.Semaphore(WINDOW))
        window.users += 1
        try:
            async with window.places:
                yield
        finally:
            window.users -= 1
            if not window.users:
                del self._windows[target]

    async def _read(self, entry: Entry) -> Message | None:
        """What it says: from memory, when that is saved and surely ours; else in the shard's turn."""
        shard = self._shard
        run = shard.runs.get(entry.run_id)
        if run is not None and not run.busy and not shard.unproven and shard.rooms.lease_valid():
            return message_of(run.state, entry.key, entry.task_id)
        try:
            reply = await shard.submit(ReadMessage(entry.run_id, entry.key, entry.task_id))
        except Rejected as refusal:
            if refusal.code is Code.NOT_FOUND:
                return None
            raise
        assert reply is None or isinstance(reply, Message)
        return reply

    async def _deliver(self, shard_id: int, message: Message) -> MessageOutcome:
        """Raises Rejected while the answer is not definite."""
        try:
            await self._shard.rooms.delivery.deliver(shard_id, message.intent)
        except Rejected as refusal:
            outcome = _outcome_of(refusal)
            if outcome is None:
                raise
            return outcome
        return MessageOutcome.DONE

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._when_empty.clear()

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _outcome_of(refusal: Rejected) -> MessageOutcome | None:
    """None: it says nothing definite."""
    match refusal.code:
        case Code.NOT_FOUND:
            return MessageOutcome.NOT_FOUND
        case Code.ALREADY_EXISTS:
            return MessageOutcome.ALREADY_EXISTS
        case Code.RESOURCE_EXHAUSTED if refusal.reason in TOO_MANY:
            return MessageOutcome.LIMIT
        case _:
            return MessageOutcome.REFUSED if is_final(refusal) else None
