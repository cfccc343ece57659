"""An engine process without doors: it owns all shards of a database, and dies when it is told to.

    python -P schedule_owner.py DSN ACTION MOMENT SLOTS

The first one makes the schedule "s", of a JOB or a WORKFLOW each second. MOMENT says what happens at the first
statement that claims a slot after SLOTS have been saved: `before` it is sent, `while` it is under way, or `after` it
was saved and before anybody has heard so, the process kills itself as kill -9 does. `never`: it ends by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from perdure_engine.core.ids import shard_of
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.jobs.model import JobSpec
from perdure_engine.core.schedules.intents import CreateSchedule
from perdure_engine.core.schedules.model import (
    Action,
    IntervalSpec,
    JobAction,
    OverlapPolicy,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
    SlotOutcome,
    WorkflowAction,
)
from perdure_engine.history.rooms import HistoryConfig, Rooms
from perdure_engine.history.service import HistoryService
from perdure_engine.history.writer import Writer
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.store import Batch
from perdure_engine.scheduler.cron import CronSpecs
from perdure_engine.scheduler.times import Times
from perdure_engine.server.clock import SystemClock, SystemIds
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

NAMESPACE = b"schedules-killed"
SCHEDULE_ID = "s"
SHARDS = (1, 2, 3, 4)
SHARD_ID = shard_of(NAMESPACE, f"schedule:{SCHEDULE_ID}", len(SHARDS))
START = StartWorkflow(
    namespace_id=b"",
    workflow_id="",
    run_id=b"",
    request_id=b"",
    body_hash=b"",
    workflow_type="T",
    task_queue="q",
)
ACTIONS: dict[str, Action] = {
    "JOB": JobAction("task", "q", JobSpec()),
    "WORKFLOW": WorkflowAction("w", START),
}


class DyingStore(SqlStore):
    """Kills its process at a slot."""

    moment = "never"
    left = 0  # slots that are saved before
    done: asyncio.Event

    async def commit(self, batch: Batch) -> int:
        claims = [row for row in batch.schedule_slots if row.version == 1]
        if not claims:
            return await super().commit(batch)
        dies = self.left <= 0 and self.moment != "never"
        if dies and self.moment == "before":
            die()
        if dies and self.moment == "while":
            asyncio.get_running_loop().call_later(0.0005, die)
        saved = await super().commit(batch)
        if dies:
            die()
        self.left -= len(claims)
        if self.left <= 0 and self.moment == "never":
            self.done.set()
        return saved


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(dsn: str, action: str, moment: str, slots: int) -> None:
    store = DyingStore(SqlStoreConfig(dsn))
    store.moment, store.left, store.done = moment, slots, asyncio.Event()
    await store.open()
    ids = SystemIds()
    rooms = Rooms(
        node_id=ids.new_id(),
        store=store,
        codec=MsgpackCodec(),
        clock=SystemClock(),
        ids=ids,
        lease_valid=lambda: True,
        alarm=lambda what, **facts: print(what, facts, file=sys.stderr),
        config=HistoryConfig(),
        cron=CronSpecs(),
        times=Times(),
    )
    rooms.writer = writer = Writer(rooms)
    rooms.matching = matcher = Matcher()
    history = HistoryService(rooms, store, number_of_shards=len(SHARDS), address="here")
    matcher.connect(history)
    writer.start()
    await history.acquire_many(await store.read_fences(list(SHARDS)))
    if await store.load_schedule(SHARD_ID, NAMESPACE, SCHEDULE_ID) is None:
        await history.submit_schedule(SHARD_ID, create(action))
    await store.done.wait()
    while await firing(store):
        await rooms.clock.sleep(0.01)
    matcher.stop()
    await history.stop()
    await writer.stop()
    await store.close()


def create(action: str) -> CreateSchedule:
    spec = ScheduleSpec(intervals=(IntervalSpec(1_000),))
    policies = SchedulePolicies(overlap=OverlapPolicy.ALLOW_ALL)
    return CreateSchedule(
        namespace_id=NAMESPACE,
        schedule_id=SCHEDULE_ID,
        schedule=Schedule(spec, ACTIONS[action], policies),
        request_id=SystemIds().new_id(),
    )


async def firing(store: SqlStore) -> bool:
    of = (SHARD_ID, NAMESPACE, SCHEDULE_ID)
    return bool(await store.list_slots(*of, (SlotOutcome.FIRING,), 0, 0, None, 1))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
