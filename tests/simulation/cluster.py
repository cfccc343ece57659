"""A whole cluster in one seeded loop: engine nodes, workers, clients, and the memory store as the database.

Everything of the engine is real but the database, the wire and the clock. A call from outside runs on behalf of the
node that serves it and is answered through the world, so that a node that is killed or frozen simply does not answer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from tests.simulation.ahead import Remembered, expected, work_ahead
from tests.simulation.loop import SimulatedLoop
from tests.simulation.world import DatabaseClock, SeededIds, VirtualClock

from perdure_engine.core import commands as cmd
from perdure_engine.core import events as ev
from perdure_engine.core import intents
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import shard_of
from perdure_engine.core.jobs.intents import CompleteJobs, JobCompleted
from perdure_engine.core.replies import Closed, WentAhead
from perdure_engine.core.schedules.intents import ScheduleIntent
from perdure_engine.core.tokens import TaskToken
from perdure_engine.history.controller import ShardController
from perdure_engine.history.rooms import HistoryConfig, Rooms
from perdure_engine.history.service import HistoryService
from perdure_engine.history.writer import Writer
from perdure_engine.matching.matcher import Matcher
from perdure_engine.membership.lease import NodeIdentity, NodeLease
from perdure_engine.membership.nodes import NodeDirectory
from perdure_engine.ports.history import (
    Handed,
    HandedActivityTask,
    HandedJobTask,
    HandedWorkflowTask,
    HeldTask,
    WorkerRef,
)
from perdure_engine.ports.matching import PollAnswer, PollRequest
from perdure_engine.ports.store import StoreError
from perdure_engine.scheduler.cron import CronSpecs
from perdure_engine.scheduler.times import Times
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.memory.store import MemoryStore

T = TypeVar("T")
Decider = Callable[[list[ev.Event], ev.WorkflowExecutionStarted], list[cmd.Command]]
NAMESPACE = b"simulated-ns-id-"
QUEUE = "orders"
CALL_LIMIT_S = 3.0
SHARDS = 4


class Gone(Exception):
    """The node did not answer in time."""


class Node:
    """One engine process."""

    def __init__(self, cluster: Cluster, name: str, config: HistoryConfig) -> None:
        self.cluster = cluster
        self.name = name
        self.node_id = cluster.ids.new_id()
        self.clock = VirtualClock(cluster.loop)
        store = cluster.store_of(self)
        identity = NodeIdentity(self.node_id, name, "", "frontend,history,matching", 1)
        self.lease = NodeLease(identity, store, self.clock, cluster.ids)
        self.directory = NodeDirectory(self.lease, store, self.clock)
        self.rooms = Rooms(
            node_id=self.node_id,
            store=store,
            codec=MsgpackCodec(),
            clock=self.clock,
            ids=cluster.ids,
            lease_valid=self.lease.lease_valid,
            alarm=self._alarm,
            config=config,
            cron=CronSpecs(),
            times=Times(),
        )
        self.rooms.writer = self.writer = Writer(self.rooms)
        self.rooms.matching = self.matcher = Matcher()
        self.history = HistoryService(self.rooms, store, number_of_shards=SHARDS, address=name)
        self.history.peers = Wire(cluster)
        self.matcher.connect(self.history)
        self.lease.on_lapse(self.history.lapsed)
        self.controller = ShardController(self.history, self.directory, store, SHARDS)

    async def start(self) -> None:
        await self.lease.start()
        self.rooms.database_clock.sample(
            self.cluster.database_clock.now_us()
        )  # as each renewal does in a real node
        await self.directory.start()
        self.writer.start()
        await self.controller.start()

    async def stop(self) -> None:
        self.matcher.stop()
        await self.controller.stop()
        await self.history.stop()
        await self.writer.stop()
        await self.directory.stop()
        await self.lease.stop()

    def _alarm(self, what: str, **facts: object) -> None:
        self.cluster.alarms.append((self.name, what, facts))


class Wire:
    """Implements ports.delivery.Peers: messages and answers take their time, and some are lost."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def deliver(self, shard_id: int, intent: intents.DeliveredIntent) -> Any:
        cluster = self._cluster
        lost = Rejected(Code.UNAVAILABLE, "LOST", "on its way or on its way back")
        await asyncio.sleep(cluster.ids.jitter() * 0.02)
        owner = next((n for n in cluster.nodes.values() if shard_id in n.history.owned()), None)
        if owner is None or cluster.ids.jitter() < 0.1:
            raise lost
        try:
            answer = await cluster.call(owner, _receive(owner, shard_id, intent))
        except Gone:
            raise lost from None
        await asyncio.sleep(cluster.ids.jitter() * 0.02)
        if cluster.ids.jitter() < 0.1:
            raise lost
        return answer


def _receive(
    node: Node, shard_id: int, intent: intents.DeliveredIntent
) -> Callable[[], Awaitable[Any]]:
    async def work() -> Any:
        return await node.history.receive(shard_id, intent)

    return work


@dataclass
class Effects:
    """What activities did to the world: (run, activity) -> start numbers of the attempts that ran to their end; and
    jobs, by their id."""

    done: dict[tuple[bytes, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    jobs: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))


class Cluster:
    def __init__(self, loop: SimulatedLoop, seed: int, config: HistoryConfig | None = None) -> None:
        self.loop = loop
        self.ids = SeededIds(seed)
        self.database_clock = DatabaseClock(loop)
        self.store = MemoryStore(self.database_clock.now_us, SHARDS)
        self.config = config or HistoryConfig()
        self.nodes: dict[str, Node] = {}
        self.alarms: list[tuple[str, str, dict[str, object]]] = []
        self.effects = Effects()
        # What workers that went ahead expected of histories, by run: where that counted, and where not.
        self.went_ahead: dict[bytes, list[list[ev.Event]]] = defaultdict(list)
        self.left_behind: dict[bytes, list[list[ev.Event]]] = defaultdict(list)
        self.deciders: dict[str, Decider] = {"Chain": _decide_chain}  # by workflow type
        self._names = 0

    def store_of(self, node: Node) -> Any:
        """The database as one node reaches it; tests put faults and partitions in between."""
        return self.store

    async def start_node(self, name: str | None = None) -> Node:
        self._names += 1
        # the matcher is made on behalf of the node, so that its callbacks are the node's
        made: asyncio.Future[Node] = self.loop.create_future()

        async def run() -> None:
            while not made.done():
                node = Node(self, label, self.config)
                try:
                    await node.start()
                except StoreError:  # the process ends, and its supervisor starts it again
                    await node.stop()
                else:
                    made.set_result(node)

        label = name or f"n{self._names}"
        self.loop.spawn(label, run())
        node = await made
        self.nodes[label] = node
        return node

    def new_worker(self, name: str) -> Worker:
        """One like the others of this cluster."""
        return Worker(self, name)

    def kill(self, node: Node) -> None:
        self.loop.kill(node.name)
        self.nodes.pop(node.name, None)

    async def call(
        self, node: Node, work: Callable[[], Awaitable[T]], limit_s: float = CALL_LIMIT_S
    ) -> T:
        """Run `work` on the node. Raises what it raises, or Gone."""
        answer: asyncio.Future[T] = self.loop.create_future()

        async def run() -> None:
            try:
                result = await work()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)

        task = self.loop.spawn(node.name, run())
        try:
            async with asyncio.timeout(limit_s):
                return await answer
        except TimeoutError:
            answer.cancel()
            self.loop.spawn(node.name, _cancel(task))
            raise Gone(node.name) from None

    async def ask(
        self, workflow_id: str, intent: intents.ClientIntent, limit_s: float = CALL_LIMIT_S
    ) -> Any:
        """A client's call: repeated with the same request id, at any node, until the answer is definite."""
        shard_id = shard_of(NAMESPACE, workflow_id, SHARDS)
        return await self._ask(
            shard_id, lambda node: node.history.submit(shard_id, intent), limit_s
        )

    async def ask_schedule(self, intent: ScheduleIntent) -> Any:
        shard_id = shard_of(NAMESPACE, f"schedule:{intent.schedule_id}", SHARDS)
        return await self._ask(
            shard_id, lambda node: node.history.submit_schedule(shard_id, intent), CALL_LIMIT_S
        )

    async def _ask(
        self, shard_id: int, work: Callable[[Node], Awaitable[Any]], limit_s: float
    ) -> Any:
        while True:
            for node in sorted(
                self.nodes.values(), key=lambda node: shard_id not in node.history.owned()
            ):
                try:
                    return await self.call(node, _at(node, work), limit_s)
                except Gone:
                    pass
                except Rejected as refusal:
                    if refusal.code not in (Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED):
                        raise
            await asyncio.sleep(0.2)

    def start_intent(self, workflow_id: str, **options: Any) -> intents.StartWorkflow:
        return intents.StartWorkflow(
            namespace_id=NAMESPACE,
            workflow_id=workflow_id,
            run_id=self.ids.new_id(),
            request_id=self.ids.new_id(),
            body_hash=b"12345678",
            **({"workflow_type": "Order", "task_queue": QUEUE} | options),
        )

    async def result(self, workflow_id: str, run_id: bytes) -> Closed:
        wait = intents.WaitResult(namespace_id=NAMESPACE, workflow_id=workflow_id, run_id=run_id)
        while True:
            try:
                closed = await self.ask(workflow_id, wait, limit_s=30.0)
            except Gone:
                continue
            assert isinstance(closed, Closed)
            return closed


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


class Worker:
    """A worker process: `activities` activities one after the other, a timer, then the end.

    The result counts the signals it has seen. It polls every node, heartbeats to every node, and repeats completions
    with the same token until the answer is definite.
    """

    def __init__(
        self, cluster: Cluster, name: str, *, activities: int = 2, activity_s: float = 0.05
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.ref = WorkerRef(cluster.ids.new_id(), name, "")
        self.activities = activities
        self.activity_s = activity_s
        self.held: dict[tuple[int, int], Any] = {}
        self.cache: dict[bytes, Remembered] = {}

    def start(self) -> None:
        loop = self.cluster.loop
        loop.spawn(self.name, self._poll_all())
        loop.spawn(self.name, self._heartbeat())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.cluster.loop.spawn(self.name, work)

    async def _poll_all(self) -> None:
        polled: dict[bytes, asyncio.Task[None]] = {}
        while True:
            for node in list(self.cluster.nodes.values()):
                if node.node_id not in polled:
                    polled[node.node_id] = asyncio.ensure_future(self._poll(node))
            await asyncio.sleep(0.5)

    async def _poll(self, node: Node) -> None:
        request = PollRequest(NAMESPACE, QUEUE, self.ref, 10, 10, 10.0)
        while node.name in self.cluster.nodes:
            try:
                answer: PollAnswer = await self.cluster.call(
                    node, lambda: node.matcher.poll(request), limit_s=15.0
                )
            except Gone:
                continue
            for task in answer.workflow_tasks:
                self._hold(task)
                self._spawn(self._workflow_task(node, task))
            for activity in answer.activity_tasks:
                self._hold(activity)
                self._spawn(self._activity(node, activity))
            for job in answer.job_tasks:
                self._hold(job)
                self._spawn(self._job(job))
            if not (answer.workflow_tasks or answer.activity_tasks or answer.job_tasks):
                await asyncio.sleep(0.01)

    def _hold(self, task: Handed) -> None:
        if task.token is not None:
            self.held[task.token.shard_id, task.token.start_no] = task.token

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(2.0)
            held = [HeldTask(token, None) for token in self.held.values()]
            for node in list(self.cluster.nodes.values()):
                self._spawn(self._beat(node, held))

    async def _beat(self, node: Node, held: list[HeldTask]) -> None:
        async def work() -> None:
            node.history.heartbeat(self.ref, held)

        try:
            await self.cluster.call(node, work)
        except Gone:
            return

    async def _workflow_task(self, node: Node, task: HandedWorkflowTask) -> None:
        assert task.token is not None
        events = task.events
        if events[0].event_id != 1:
            known = self.cache.get(task.run_id)
            events = events if known is None else known.events + events
        numbers = [event.event_id for event in events]
        if numbers != list(range(1, len(events) + 1)):
            completion: intents.WorkerIntent = intents.FailWorkflowTask(
                task.token, ev.WorkflowTaskFailedCause.WORKER_FAILURE, None, self.name
            )
        else:
            cached = self.cluster.ids.jitter() < 0.7
            asked = self._decide(events)
            # the next task, if it is sticky, goes on right behind its Started
            self.cache[task.run_id] = Remembered(events, asked)
            completion = intents.CompleteWorkflowTask(
                task.token, asked, cached, self.ref.worker_id, self.name, ""
            )
        await self._report(node, completion)

    def _decide(self, events: list[ev.Event]) -> list[cmd.Command]:
        started = events[0]
        assert isinstance(started, ev.WorkflowExecutionStarted)
        decider = self.cluster.deciders.get(started.workflow_type)
        if decider is not None:
            return decider(events, started)
        scheduled = sum(isinstance(event, ev.ActivityTaskScheduled) for event in events)
        completed = sum(isinstance(event, ev.ActivityTaskCompleted) for event in events)
        if completed < self.activities:
            if scheduled > completed:
                return []
            return [
                cmd.ScheduleActivity(
                    f"a{scheduled}", "charge", "", b"", b"", 0, 0, 60_000, 0, None, 3
                )
            ]
        if not any(isinstance(event, ev.TimerStarted) for event in events):
            return [cmd.StartTimer("t", 1_000)]
        if not any(isinstance(event, ev.TimerFired) for event in events):
            return []
        signals = sorted(
            event.signal_name for event in events if isinstance(event, ev.WorkflowExecutionSignaled)
        )
        return [cmd.CompleteWorkflow(",".join(signals).encode())]

    async def _activity(self, node: Node, task: HandedActivityTask) -> None:
        await asyncio.sleep(self.activity_s)
        self.cluster.effects.done[task.run_id, task.scheduled.activity_id].append(
            task.token.start_no
        )
        result = intents.CompleteActivity(task.token, b"ok", self.name)
        known = self.cache.get(task.run_id)
        if known is None or not task.may_go_ahead or self.cluster.ids.jitter() < 0.2:
            await self._report(node, result)
        else:
            await self._report_ahead(task, result, known)

    async def _report_ahead(
        self, task: HandedActivityTask, result: intents.CompleteActivity, known: Remembered
    ) -> None:
        """With what follows from it; it remembers that when it is told that it counts."""
        # Of clocks that run ahead, within what is allowed: so that what is overtaken is not refused for its time alone.
        clock_s = self.cluster.ids.jitter() * 0.9
        at_us = task.started_us + int((self.activity_s + clock_s) * 1_000_000)
        expects = expected(known, task, at_us)
        if expects is not None:
            asked = self._decide(expects)
            ahead = work_ahead(task, known, expects, asked, self.ref.worker_id, self.name)
            result = msgspec.structs.replace(result, ahead=ahead)
            await asyncio.sleep(self.cluster.ids.jitter() * 0.5)  # signals overtake it
        reply = await self._tell(task.token, lambda node: node.history.complete(result))
        if expects is not None and isinstance(reply, WentAhead):
            self.cluster.went_ahead[task.run_id].append(expects)
            self.cache[task.run_id] = Remembered(expects, asked)
        elif expects is not None:
            self.cluster.left_behind[task.run_id].append(expects)

    async def _job(self, task: HandedJobTask) -> None:
        await asyncio.sleep(self.activity_s)
        token = task.token
        self.cluster.effects.jobs[token.run_id].append(token.start_no)
        done = CompleteJobs(token.shard_id, [JobCompleted(token, b"ok")], self.name)
        await self._tell(token, lambda node: node.history.submit_job(token.shard_id, done))

    async def _report(self, node: Node, completion: intents.WorkerIntent) -> None:
        await self._tell(completion.token, lambda node: node.history.complete(completion))

    async def _tell(self, token: TaskToken, work: Callable[[Node], Awaitable[Any]]) -> Any:
        """At the owner, wherever it is, until the answer is definite. None when it is no."""
        try:
            while True:
                for owner in sorted(
                    self.cluster.nodes.values(),
                    key=lambda n: token.shard_id not in n.history.owned(),
                ):
                    try:
                        return await self.cluster.call(owner, _at(owner, work))
                    except Gone:
                        pass
                    except Rejected as refusal:
                        if refusal.code is not Code.UNAVAILABLE:
                            return None
                await asyncio.sleep(0.2)
        finally:
            self.held.pop((token.shard_id, token.start_no), None)


def _decide_chain(
    events: list[ev.Event], started: ev.WorkflowExecutionStarted
) -> list[cmd.Command]:
    """Half a second a run: the first continues as new, the second fails, and its second attempt completes."""
    if not any(isinstance(event, ev.TimerStarted) for event in events):
        return [cmd.StartTimer("t", 500)]
    if not any(isinstance(event, ev.TimerFired) for event in events):
        return []
    if started.initiator is ev.Initiator.NONE:
        return [cmd.ContinueAsNew("", "", b"second", b"", b"", 0, 0, None)]
    if started.attempt == 1:
        return [cmd.FailWorkflow(Failure(FailureKind.APPLICATION, "again", type="Flaky"))]
    return [cmd.CompleteWorkflow(started.input)]


def _at(node: Node, work: Callable[[Node], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def at_node() -> Any:
        return await work(node)

    return at_node
