"""Schedules in history's room: what callers ask, what the tables hold, and workers for what they start."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.core.schedule_bench import EVERY_MINUTE, JOB, schedule
from tests.unit.history.room import FINISH, NAMESPACE, SHARDS, Node, Room

from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import schedule_uid, shard_of
from perdure_engine.core.jobs.intents import CompleteJobs, JobCompleted, JobFailed
from perdure_engine.core.jobs.model import JobSpec, JobStatus
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.schedules import intents
from perdure_engine.core.schedules.model import (
    JobAction,
    ScheduleRecord,
    ScheduleSpec,
    SlotOrigin,
    SlotOutcome,
    WorkflowAction,
)
from perdure_engine.ports.history import HandedJobTask, HandedWorkflowTask, WorkerRef
from perdure_engine.ports.rows import ScheduleSlotRow

EVERY = tuple(range(1, SHARDS + 1))
QUEUE = "reports"
MINUTE_S, HOUR_S = 60, 3_600
S = 1_000_000


def shard_of_schedule(schedule_id: str) -> int:
    return shard_of(NAMESPACE, f"schedule:{schedule_id}", SHARDS)


SHARD = shard_of_schedule("s")


class Planner:
    """Who makes schedules, on a node."""

    def __init__(self, room: Room, node: Node) -> None:
        self.room = room
        self.node = node

    def ask(self, kind: Any, schedule_id: str = "s", **fields: Any) -> asyncio.Future[Any]:
        known: dict[str, Any] = {"namespace_id": NAMESPACE, "schedule_id": schedule_id}
        if "request_id" in kind.__struct_fields__:
            known["request_id"] = self.room.ids.new_id()
        intent = kind(**(known | fields))
        return self.node.history.submit_schedule(shard_of_schedule(schedule_id), intent)

    def create(
        self,
        schedule_id: str = "s",
        action: JobAction | WorkflowAction = JOB,
        spec: ScheduleSpec = EVERY_MINUTE,
        **options: Any,
    ) -> asyncio.Future[Any]:
        made = schedule(action, spec, **options)
        return self.ask(intents.CreateSchedule, schedule_id, schedule=made)

    def describe(self, schedule_id: str = "s") -> asyncio.Future[Any]:
        return self.ask(intents.DescribeSchedule, schedule_id)

    def trigger(self, schedule_id: str = "s", **fields: Any) -> asyncio.Future[Any]:
        return self.ask(intents.TriggerSchedule, schedule_id, **({"overlap": None} | fields))

    def pause(self, schedule_id: str = "s", *, paused: bool = True) -> asyncio.Future[Any]:
        return self.ask(intents.PauseSchedule, schedule_id, paused=paused, note="n")

    def delete(self, schedule_id: str = "s") -> asyncio.Future[Any]:
        return self.ask(intents.DeleteSchedule, schedule_id)

    def backfill(self, from_us: int, to_us: int, **fields: Any) -> asyncio.Future[Any]:
        span = {"from_us": from_us, "to_us": to_us, "overlap": None, "dry_run": False}
        return self.ask(intents.BackfillSchedule, **(span | fields))

    def record(self, schedule_id: str = "s") -> ScheduleRecord:
        shard = self.node.shard(shard_of_schedule(schedule_id))
        return shard.schedules.records[schedule_uid(NAMESPACE, schedule_id)]


async def begin(room: Room, *shard_ids: int) -> tuple[Node, Planner]:
    node = await room.node(*(shard_ids or EVERY))
    return node, Planner(room, node)


def next_minute(room: Room) -> float:
    """Seconds until the next full minute is well over."""
    return (60 * S - room.now_us % (60 * S)) / S + 0.3


def no_alarms(node: Node) -> None:
    assert node.alarms == []


# ---- what the tables hold


def slots(room: Room, schedule_id: str = "s") -> list[ScheduleSlotRow]:
    rows = room.tables.schedule_slots.in_order(shard_of_schedule(schedule_id))
    return [row for row in rows if row.schedule_id == schedule_id]


def outcomes(
    room: Room, schedule_id: str = "s", origin: SlotOrigin = SlotOrigin.SPEC
) -> list[SlotOutcome]:
    return [SlotOutcome(row.outcome) for row in slots(room, schedule_id) if row.origin == origin]


def job_statuses(room: Room, schedule_id: str = "s") -> list[JobStatus]:
    rows = room.tables.job_runs.in_order(shard_of_schedule(schedule_id))
    mine = sorted(
        (row for row in rows if row.schedule_id == schedule_id), key=lambda row: row.scheduled_us
    )
    return [JobStatus(row.status) for row in mine]


def runs_of(room: Room, workflow_id: str) -> int:
    """How many runs have been started whose workflow id begins so."""
    return sum(row.workflow_id.startswith(workflow_id) for row in room.tables.executions.all())


# ---- workers


async def take_jobs(
    node: Node, worker: WorkerRef, timeout_s: float = 0.5, most: int = 10
) -> list[HandedJobTask]:
    answer = await node.polling(worker, workflow=0, activity=most, timeout_s=timeout_s, queue=QUEUE)
    return list(answer.job_tasks)


def complete_jobs(node: Node, *tasks: HandedJobTask) -> asyncio.Future[Any]:
    shard_id = tasks[0].token.shard_id
    done = [JobCompleted(task.token, b"ok") for task in tasks]
    return node.history.submit_job(shard_id, CompleteJobs(shard_id, done, "w"))


def fail_job(node: Node, task: HandedJobTask) -> asyncio.Future[Any]:
    shard_id = task.token.shard_id
    failed = JobFailed(task.token, Failure(FailureKind.APPLICATION, "boom"))
    return node.history.submit_job(shard_id, CompleteJobs(shard_id, [failed], "w"))


async def take_workflow(
    node: Node, worker: WorkerRef, timeout_s: float = 0.5
) -> HandedWorkflowTask | None:
    answer = await node.polling(worker, workflow=1, activity=0, timeout_s=timeout_s, queue=QUEUE)
    return answer.workflow_tasks[0] if answer.workflow_tasks else None


async def work_jobs(node: Node, worker: WorkerRef, seconds: float) -> int:
    """Does what comes for so long. Returns how many jobs it were."""
    done, until = 0, node.clock.monotonic() + seconds
    while (left := until - node.clock.monotonic()) > 0:
        tasks = await take_jobs(node, worker, min(left, 5.0), 1_000)
        by_shard: dict[int, list[HandedJobTask]] = {}
        for task in tasks:
            by_shard.setdefault(task.token.shard_id, []).append(task)
        for some in by_shard.values():
            await complete_jobs(node, *some)
        done += len(tasks)
    return done


async def work_workflows(node: Node, worker: WorkerRef, seconds: float) -> int:
    """As `work_jobs`, for workflows, which complete at once."""
    done, until = 0, node.clock.monotonic() + seconds
    while (left := until - node.clock.monotonic()) > 0:
        task = await take_workflow(node, worker, min(left, 5.0))
        if task is not None:
            await node.complete(task, [FINISH])
            done += 1
    return done


ONCE = JobAction("report", QUEUE, JobSpec(retry=RetryPolicy(maximum_attempts=1)))
