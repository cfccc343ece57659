"""An engine on the memory store, in the caller's event loop, whose time skips.

The rooms are those of a real node (server/wiring), and so is the wire: a client and a worker cannot
tell the difference, but for the time that passes. Nothing is deleted when its retention is over: what
a test wants to look at must not be gone because time has skipped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack
from typing import Any, Self

from perdure_engine.core.intents import ClientIntent, WaitResult
from perdure_engine.core.jobs.intents import JobClientIntent, JobWorkerIntent, WaitJobs
from perdure_engine.core.jobs.replies import JobReply
from perdure_engine.core.replies import Reply
from perdure_engine.frontend import filters
from perdure_engine.frontend.deployments import Deployments
from perdure_engine.frontend.frontend import About, Frontend
from perdure_engine.frontend.ledger import InstallationLedger
from perdure_engine.frontend.namespaces import Namespaces
from perdure_engine.frontend.seal import load_sealer
from perdure_engine.history.batches import Batches
from perdure_engine.history.rooms import HistoryConfig, Rooms
from perdure_engine.history.service import HistoryService
from perdure_engine.history.writer import Writer
from perdure_engine.matching.limits import QueueLimits
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.store import Batch
from perdure_engine.scheduler.cron import CronSpecs
from perdure_engine.scheduler.times import Times
from perdure_engine.server.clock import SystemClock, SystemIds, new_incarnation
from perdure_engine.server.following import Following
from perdure_engine.server.in_process.only_node import OnlyNode
from perdure_engine.server.in_process.virtual_time import Skipper, VirtualTime
from perdure_engine.server.version import perdure_version
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.memory.store import MemoryStore
from perdure_engine.transport.grpc.convert.payloads import json_payload
from perdure_engine.transport.grpc.server import GrpcServer

log = logging.getLogger(__name__)

NUMBER_OF_SHARDS = 2  # more than one, so that what crosses shards is met in tests
LISTENER = "127.0.0.1:0"
NODE_ADDRESS = "in-process"
GRPC_GRACE_S = 0.5
CENTURIES_S = 1e10  # 300 years
# Timers of all times are in memory: what a jump reaches need not be read first.
CONFIG = HistoryConfig(window_s=CENTURIES_S)


class Store(MemoryStore):
    """Tells when something was saved."""

    changed: Callable[[], None]

    async def commit(self, batch: Batch) -> int:
        now_us = await super().commit(batch)
        self.changed()
        return now_us


class History(HistoryService):
    """Counts the calls that wait for a result."""

    skipper: Skipper

    def submit(self, shard_id: int, intent: ClientIntent) -> asyncio.Future[Reply]:
        future = super().submit(shard_id, intent)
        if isinstance(intent, WaitResult):
            self._count(future)
        return future

    def submit_job(
        self, shard_id: int, intent: JobClientIntent | JobWorkerIntent
    ) -> asyncio.Future[JobReply]:
        future = super().submit_job(shard_id, intent)
        if isinstance(intent, WaitJobs):
            self._count(future)
        return future

    def _count(self, waiting: asyncio.Future[Any]) -> None:
        if not waiting.done():
            self.skipper.wait_begins()
            waiting.add_done_callback(lambda _: self.skipper.wait_ends())


class SkippingEngine:
    """Implements server.in_process.Engine."""

    skips_time = True

    def __init__(self, address: str, time: VirtualTime, skipper: Skipper, undo: AsyncExitStack):
        self.address = address
        self._time = time
        self._skipper = skipper
        self._undo = undo

    @classmethod
    async def start(cls) -> Self:
        async with AsyncExitStack() as undo:
            clock = SystemClock()
            virtual = VirtualTime(clock, time.time_ns() // 1_000)
            store = Store(virtual.now_us, NUMBER_OF_SHARDS)
            deployments = Deployments(store)  # of the only node: it need not look what others do
            rooms = _make_rooms(store, clock, deployments)
            history = History(rooms, store, number_of_shards=NUMBER_OF_SHARDS, address=NODE_ADDRESS)
            skipper = Skipper(virtual, clock, rooms.database_clock, store.tables, history.shards)
            store.changed = skipper.changed
            history.skipper = skipper
            server = await _start_rooms(store, rooms, history, deployments, undo)
            skipper.start()
            undo.push_async_callback(skipper.stop)
            return cls(f"127.0.0.1:{server.port}", virtual, skipper, undo.pop_all())

    def now_us(self) -> int:
        return self._time.now_us()

    async def sleep(self, seconds: float) -> None:
        await self._skipper.pass_time(seconds)

    def time_held(self) -> AbstractContextManager[None]:
        return self._skipper.held()

    async def stop(self) -> None:
        await self._undo.aclose()


def _make_rooms(store: Store, clock: SystemClock, deployments: Deployments) -> Rooms:
    return Rooms(
        node_id=SystemIds().new_id(),
        store=store,
        codec=MsgpackCodec(),
        clock=clock,
        ids=SystemIds(),
        lease_valid=lambda: True,  # see only_node
        alarm=raise_alarm,
        config=CONFIG,
        cron=CronSpecs(),
        times=Times(),
        routing=deployments,
        json_payload=json_payload,
    )


async def _start_rooms(
    store: Store,
    rooms: Rooms,
    history: History,
    deployments: Deployments,
    undo: AsyncExitStack,
) -> GrpcServer:
    """Each part is stopped before those that it needs."""
    rooms.writer = writer = Writer(rooms)
    limits = QueueLimits(store, lambda: 1.0)
    rooms.matching = matcher = Matcher(rates=limits)
    matcher.connect(history)
    following = Following("queue limits", limits.refresh)
    await following.start()
    undo.push_async_callback(following.stop)
    lease_ms = int(CENTURIES_S * 1_000)
    await store.renew_node(rooms.node_id, NODE_ADDRESS, "", "all", new_incarnation(), lease_ms)
    (row,) = await store.list_nodes()
    writer.start()
    undo.push_async_callback(writer.stop)
    undo.push_async_callback(history.stop)
    shard_ids = list(range(1, NUMBER_OF_SHARDS + 1))
    await history.acquire_many(await store.read_fences(shard_ids))
    batches = Batches(rooms, store, history.shards, NUMBER_OF_SHARDS, filters.read_condition)
    await batches.start()
    undo.push_async_callback(batches.stop)
    frontend = Frontend(
        history=history,
        matching=matcher,
        visibility=store,
        members=store,
        membership=OnlyNode(row),
        namespaces=Namespaces(store, rooms.clock),
        sealer=await load_sealer(store, rooms.ids),
        ids=rooms.ids,
        clock=rooms.clock,
        db_now_us=rooms.database_clock.low_us,
        about=About(version=perdure_version(), database=await store.describe()),
        cron=rooms.cron,
        audit=store,
        ledger=InstallationLedger(store),
        batches=store,
        batch_begun=batches.wake,
        deployments=deployments,
        jobs=store,
        queue_limits=store,
        schedules=store,
        times=rooms.times,
        codec=rooms.codec,
    )
    server = GrpcServer(frontend, LISTENER)

    async def stop_server() -> None:
        matcher.stop()
        await server.stop(GRPC_GRACE_S)

    undo.push_async_callback(stop_server)
    await server.start()
    return server


def raise_alarm(what: str, **facts: object) -> None:
    """Implements history.rooms.Alarm."""
    log.error("alarm: %s %s", what, facts)
