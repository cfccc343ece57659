"""History's room on a bench: real shards, writer and matching over the memory store, in virtual time.

Everything is driven by hand. Each node reaches the one database through a store of its own, so that a test can hold
or fail one node's statements and let the other's pass. `lease` is a flag, and shards are taken when the test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.world import DatabaseClock, SeededIds, VirtualClock, pass_time, turns

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.commands import Command
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.events import Event
from perdure_engine.core.ids import reset_run_id
from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.replies import Description, Started
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.loading import decode_history
from perdure_engine.history.rooms import HistoryConfig, Rooms
from perdure_engine.history.service import HistoryService
from perdure_engine.history.shard import Shard
from perdure_engine.history.writer import Writer
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.history import HandedActivityTask, HandedWorkflowTask, HeldTask, WorkerRef
from perdure_engine.ports.matching import PollAnswer, PollRequest
from perdure_engine.ports.rows import ROW_GONE, TaskRow, TimerRow
from perdure_engine.scheduler.cron import CronSpecs
from perdure_engine.scheduler.times import Times
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.memory import Faults, MemoryStore, Moment

NAMESPACE = b"room-of-history-"
QUEUE = "orders"
BODY = b"12345678"
SHARDS = 4
TEST_S_MAX = 5_000  # of virtual time: an answer that never comes fails its test at once
SEEDS = (0, 1, 2)  # orders in which whatever is ready at one instant runs


class Hold:
    """Calls of one operation that wait until they are let go."""

    def __init__(self) -> None:
        self.waiting = 0
        self._arrived = asyncio.Event()
        self._open = asyncio.Event()

    async def reached(self) -> None:
        """Wait until a call is being held. Virtual time may pass, but not for ever."""
        async with asyncio.timeout(60):
            await self._arrived.wait()

    def release(self) -> None:
        self._open.set()

    async def stop_here(self) -> None:
        if not self._open.is_set():
            self.waiting += 1
            self._arrived.set()
            await self._open.wait()


class Holds:
    """What `Faults.pause` is for: hold calls of a store at a moment."""

    def __init__(self, store: MemoryStore) -> None:
        self._holds: dict[tuple[str, Moment], Hold] = {}
        self.calls: list[str] = []
        store.faults.pause = self._pause

    def hold(self, operation: str, moment: Moment = Moment.BEFORE) -> Hold:
        hold = self._holds[operation, moment] = Hold()
        return hold

    async def _pause(self, operation: str, moment: Moment) -> None:
        if moment is Moment.BEFORE:
            self.calls.append(operation)
        hold = self._holds.get((operation, moment))
        if hold is not None:
            await hold.stop_here()


class Gates:
    """Calls of these operations of a store that wait, each of them alone, until a test lets it go."""

    def __init__(self, faults: Faults, *operations: str) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self._faults = faults
        self._operations = operations
        faults.pause = self._pause

    async def _pause(self, operation: str, moment: Moment) -> None:
        if operation in self._operations:
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(gate)
            await gate

    def let_one_go(self, choice: int) -> None:
        self.waiting.pop(choice % len(self.waiting)).set_result(None)

    def let_all_go(self) -> None:
        """Those to come, too."""
        self._faults.pause = None
        for gate in self.waiting:
            gate.set_result(None)


class Node:
    """One engine process."""

    def __init__(self, room: Room, name: str) -> None:
        self.room = room
        self.name = name
        self.node_id = name.encode().ljust(16, b".")
        self.lease = True
        self.clock = VirtualClock(room.loop)
        self.store = MemoryStore(room.database_clock.now_us, SHARDS)
        self.store.tables = room.tables
        self.faults = self.store.faults
        self.holds = Holds(self.store)
        self.alarms: list[str] = []
        self.rooms = Rooms(
            node_id=self.node_id,
            store=self.store,
            codec=room.codec,
            clock=self.clock,
            ids=room.ids,
            lease_valid=lambda: self.lease,
            alarm=lambda what, **_: self.alarms.append(what),
            config=room.config,
            cron=CronSpecs(),
            times=Times(),
        )
        self.rooms.writer = self.writer = Writer(self.rooms)
        self.rooms.matching = self.matcher = Matcher()
        self.history = HistoryService(self.rooms, self.store, number_of_shards=SHARDS, address=name)
        self.matcher.connect(self.history)
        self.rooms.database_clock.sample(room.database_clock.now_us())  # as its lease does
        self.writer.start()

    async def take(self, *shard_ids: int) -> frozenset[int]:
        """Take shards, whoever has them: the caller knows that it may."""
        return await self.history.acquire_many(await self.store.read_fences(list(shard_ids)))

    def shard(self, shard_id: int = 1) -> Shard:
        return self.history._shards[shard_id]

    async def stop(self) -> None:
        self.matcher.stop()
        await self.history.stop()
        await self.writer.stop()

    # ---- clients. All return at once: the future is the answer.

    def start(self, workflow_id: str, shard_id: int = 1, **options: Any) -> asyncio.Future[Any]:
        intent = self.room.start_intent(workflow_id, **options)
        return self.history.submit(shard_id, intent)

    def signal(
        self, workflow_id: str, name: str = "s", shard_id: int = 1, **options: Any
    ) -> asyncio.Future[Any]:
        fields = {"run_id": b"", "request_id": self.room.ids.new_id(), "body_hash": BODY} | options
        intent = intents.SignalWorkflow(
            namespace_id=NAMESPACE, workflow_id=workflow_id, signal_name=name, **fields
        )
        return self.history.submit(shard_id, intent)

    def describe(
        self, workflow_id: str, shard_id: int = 1, run_id: bytes = b""
    ) -> asyncio.Future[Any]:
        intent = intents.DescribeWorkflow(
            namespace_id=NAMESPACE, workflow_id=workflow_id, run_id=run_id
        )
        return self.history.submit(shard_id, intent)

    def query(
        self,
        workflow_id: str,
        shard_id: int = 1,
        reject_condition: intents.QueryRejectCondition = intents.QueryRejectCondition.NEVER,
    ) -> asyncio.Future[Any]:
        intent = intents.QueryWorkflow(
            namespace_id=NAMESPACE,
            workflow_id=workflow_id,
            run_id=b"",
            query_type="state",
            reject_condition=reject_condition,
        )
        return self.history.submit(shard_id, intent)

    def result(
        self, workflow_id: str, shard_id: int = 1, run_id: bytes = b""
    ) -> asyncio.Future[Any]:
        intent = intents.WaitResult(namespace_id=NAMESPACE, workflow_id=workflow_id, run_id=run_id)
        return self.history.submit(shard_id, intent)

    def terminate(self, workflow_id: str, shard_id: int = 1) -> asyncio.Future[Any]:
        intent = intents.TerminateWorkflow(
            namespace_id=NAMESPACE,
            workflow_id=workflow_id,
            run_id=b"",
            request_id=self.room.ids.new_id(),
            body_hash=BODY,
        )
        return self.history.submit(shard_id, intent)

    def reset(
        self, workflow_id: str, event_id: int = 0, shard_id: int = 1, **options: Any
    ) -> asyncio.Future[Any]:
        """To the end of the last workflow task, unless it says otherwise."""
        request_id = options.pop("request_id", None) or self.room.ids.new_id()
        fields = {"run_id": b"", "body_hash": BODY, "reason": "a bug"} | options
        intent = intents.ResetWorkflow(
            namespace_id=NAMESPACE,
            workflow_id=workflow_id,
            request_id=request_id,
            new_run_id=reset_run_id(NAMESPACE, workflow_id, request_id),
            event_id=event_id,
            **fields,
        )
        return self.history.submit(shard_id, intent)

    def pause(self, workflow_id: str, shard_id: int = 1, **options: Any) -> asyncio.Future[Any]:
        return self._hold(intents.PauseWorkflow, workflow_id, shard_id, options)

    def unpause(self, workflow_id: str, shard_id: int = 1, **options: Any) -> asyncio.Future[Any]:
        return self._hold(intents.UnpauseWorkflow, workflow_id, shard_id, options)

    def _hold(
        self, kind: Any, workflow_id: str, shard_id: int, options: dict[str, Any]
    ) -> asyncio.Future[Any]:
        fields = {"run_id": b"", "request_id": self.room.ids.new_id(), "body_hash": BODY} | options
        intent = kind(namespace_id=NAMESPACE, workflow_id=workflow_id, identity="me", **fields)
        return self.history.submit(shard_id, intent)

    # ---- workers

    def polling(
        self,
        worker: WorkerRef,
        *,
        workflow: int = 10,
        activity: int = 10,
        timeout_s: float = 0.5,
        queue: str = QUEUE,
    ) -> asyncio.Task[PollAnswer]:
        request = PollRequest(NAMESPACE, queue, worker, workflow, activity, timeout_s)
        return asyncio.ensure_future(self.matcher.poll(request))

    async def workflow_task(self, worker: WorkerRef, timeout_s: float = 0.5) -> HandedWorkflowTask:
        answer = await self.polling(worker, workflow=1, activity=0, timeout_s=timeout_s)
        assert len(answer.workflow_tasks) == 1, "a workflow task was expected"
        return answer.workflow_tasks[0]

    async def activity_task(self, worker: WorkerRef, timeout_s: float = 0.5) -> HandedActivityTask:
        answer = await self.polling(worker, workflow=0, activity=1, timeout_s=timeout_s)
        assert len(answer.activity_tasks) == 1, "an activity task was expected"
        return answer.activity_tasks[0]

    async def nothing(
        self, worker: WorkerRef, timeout_s: float = 0.5, *, workflow: int = 10
    ) -> None:
        """A poll finds nothing."""
        answer = await self.polling(worker, workflow=workflow, timeout_s=timeout_s)
        assert not answer.workflow_tasks, answer.workflow_tasks
        assert not answer.activity_tasks, answer.activity_tasks

    def complete(
        self,
        task: HandedWorkflowTask | TaskToken,
        commands: Sequence[Command] = (),
        worker: WorkerRef | None = None,
    ) -> asyncio.Future[Any]:
        token = task if isinstance(task, TaskToken) else task.token
        assert token is not None
        worker_id = b"" if worker is None else worker.worker_id
        return self.history.complete(
            intents.CompleteWorkflowTask(
                token, list(commands), worker is not None, worker_id, "w", ""
            )
        )

    def complete_activity(self, token: TaskToken, result: bytes = b"ok") -> asyncio.Future[Any]:
        return self.history.complete(intents.CompleteActivity(token, result, "w"))

    def beat(
        self, worker: WorkerRef, *tokens: TaskToken, details: bytes | None = None
    ) -> list[Any]:
        return self.history.heartbeat(worker, [HeldTask(token, details) for token in tokens])

    # ---- a run that is somewhere

    async def at_activity(
        self, workflow_id: str, worker: WorkerRef, shard_id: int = 1, **options: Any
    ) -> bytes:
        """Start a run and bring it to where it has scheduled an activity. Returns its run id."""
        return await self.at(workflow_id, worker, [schedule(**options)], shard_id)

    async def at(
        self,
        workflow_id: str,
        worker: WorkerRef,
        commands: Sequence[Command],
        shard_id: int = 1,
        *,
        cached: bool = False,
    ) -> bytes:
        started: Started = await self.start(workflow_id, shard_id)
        task = await self.workflow_task(worker)
        await self.complete(task, commands, worker if cached else None)
        return started.run_id


def surgeon(room: Room, name: str = "s1") -> WorkerRef:
    """A worker of the surgical pool."""
    return msgspec.structs.replace(room.worker(name), pool=SURGICAL)


class Room:
    """The database, its time, and the nodes on it."""

    def __init__(self, loop: SimulatedLoop, seed: int, config: HistoryConfig) -> None:
        self.loop = loop
        self.ids = SeededIds(seed)
        self.config = config
        self.codec = MsgpackCodec()
        self.database_clock = DatabaseClock(loop)
        self.store = MemoryStore(self.database_clock.now_us, SHARDS)  # the test's own way in
        self.tables = self.store.tables
        self._nodes: list[Node] = []

    async def node(self, *shard_ids: int) -> Node:
        """A new node that has taken these shards."""
        node = Node(self, f"n{len(self._nodes) + 1}")
        self._nodes.append(node)
        if shard_ids:
            assert await node.take(*shard_ids) == set(shard_ids)
        return node

    def worker(self, name: str = "w1") -> WorkerRef:
        return WorkerRef(name.encode().ljust(16, b"."), name, "")

    def start_intent(self, workflow_id: str, **options: Any) -> intents.StartWorkflow:
        fields = {
            "run_id": self.ids.new_id(),
            "request_id": self.ids.new_id(),
            "body_hash": BODY,
            "workflow_type": "Order",
            "task_queue": QUEUE,
        } | options
        return intents.StartWorkflow(namespace_id=NAMESPACE, workflow_id=workflow_id, **fields)

    # ---- what the database holds

    @property
    def now_us(self) -> int:
        return self.database_clock.now_us()

    def fence_of(self, shard_id: int = 1) -> Any:
        return self.tables.fences[shard_id]

    async def history(self, run_id: bytes, shard_id: int = 1) -> list[Event]:
        page = await self.store.load_history(shard_id, run_id, 1, 1_000_000)
        return decode_history(page.rows, self.codec)

    async def names(self, run_id: bytes, shard_id: int = 1) -> list[str]:
        return [type(event).__name__ for event in await self.history(run_id, shard_id)]

    def tasks(self, kind: TaskKind | None = None, shard_id: int = 1) -> list[TaskRow]:
        """Live task rows."""
        rows = [row for row in self.tables.tasks.in_order(shard_id) if row.state != ROW_GONE]
        if kind is None:
            return rows
        return [row for row in rows if self.codec.decode_task(row).kind is kind]

    def timers(self, shard_id: int = 1) -> list[TimerRow]:
        """Live timer rows."""
        return [row for row in self.tables.timers.in_order(shard_id) if row.state != ROW_GONE]

    def rows(self) -> int:
        """How many rows there are of everything: unchanged means nothing was written."""
        tables = self.tables
        counted = (tables.executions, tables.history, tables.inbox, tables.tasks, tables.timers)
        return sum(len(table.all()) for table in counted)

    async def stop(self) -> None:
        for node in self._nodes:
            await node.stop()


Test = Callable[[Room], Awaitable[None]]


def in_room(*, seeds: Sequence[int] = SEEDS, **config: Any) -> Callable[[Test], Callable[[], None]]:
    """Make a test of `async def test(room)`. It runs once for each order of what is ready at one instant."""

    def decorate(test: Test) -> Callable[[], None]:
        async def within(loop: SimulatedLoop) -> None:
            room = Room(loop, loop.seed, HistoryConfig(**config))
            async with asyncio.timeout(TEST_S_MAX):
                await test(room)
            await room.stop()

        def run() -> None:
            for seed in seeds:
                simulate(within, seed)

        run.__name__ = test.__name__
        run.__doc__ = test.__doc__
        run.__module__ = test.__module__
        return run

    return decorate


# ---- saying things shortly


def schedule(name: str = "a", **options: Any) -> cmd.ScheduleActivity:
    fields: dict[str, Any] = {
        "activity_type": "charge",
        "task_queue": "",
        "input": b"",
        "header": b"",
        "schedule_to_close_timeout_ms": 0,
        "schedule_to_start_timeout_ms": 0,
        "start_to_close_timeout_ms": 600_000,
        "heartbeat_timeout_ms": 0,
        "retry_policy": None,
        "priority": 3,
    } | options
    return cmd.ScheduleActivity(name, **fields)


ONCE = RetryPolicy(maximum_attempts=1)
FINISH = cmd.CompleteWorkflow(b"done")


def timer(seconds: float, name: str = "t") -> cmd.StartTimer:
    return cmd.StartTimer(name, round(seconds * 1000))


def nothing_said(*futures: asyncio.Future[Any]) -> None:
    assert not any(future.done() for future in futures), [f for f in futures if f.done()]


async def refused(future: Awaitable[Any]) -> Rejected:
    """The refusal that a call ends with."""
    try:
        answer = await future
    except Rejected as refusal:
        return refusal
    raise AssertionError(f"answered with {answer!r}")


async def codes(*futures: Awaitable[Any]) -> list[Code]:
    """How calls ended that all were refused."""
    return [(await refused(future)).code for future in futures]


async def within(future: Awaitable[Any], seconds: float) -> Any:
    """The answer, if it comes in so many virtual seconds."""
    async with asyncio.timeout(seconds):
        return await future


def outcomes(history: list[Event], kind: type[Event]) -> int:
    return sum(isinstance(event, kind) for event in history)


async def beats(node: Node, worker: WorkerRef, seconds: float, *tokens: Any) -> list[Any]:
    """Heartbeats every 2 s, as a worker sends them. Returns the last verdicts."""
    verdicts: list[Any] = []
    for _ in range(round(seconds / 2)):
        await pass_time(2)
        verdicts = node.beat(worker, *tokens)
    return verdicts


async def held_activity(
    room: Room, node: Node, worker: WorkerRef, workflow_id: str = "order", **options: Any
) -> tuple[bytes, HandedActivityTask]:
    run_id = await node.at_activity(workflow_id, worker, **options)
    return run_id, await node.activity_task(worker)


__all__ = [
    "BODY",
    "FINISH",
    "NAMESPACE",
    "ONCE",
    "QUEUE",
    "Description",
    "Gates",
    "Hold",
    "Node",
    "Room",
    "beats",
    "cmd",
    "codes",
    "ev",
    "held_activity",
    "in_room",
    "nothing_said",
    "outcomes",
    "pass_time",
    "refused",
    "schedule",
    "timer",
    "turns",
    "within",
]
