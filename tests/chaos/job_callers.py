"""Calls about jobs and schedules, to whichever node owns what they are about."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from zlib import crc32

from tests.chaos.callers import PATIENCE_S, PAUSE_S, TRY_ELSEWHERE, TRY_S, Node, Nodes
from tests.chaos.load import NAMESPACE

from perdure._client.schedule_actions import wire_action
from perdure._wire.job_info import JobDescription
from perdure._wire.job_service import JobAct, JobOutcome, JobService
from perdure._wire.new_jobs import Fields, JobsToMake, MadeJob, job_fields
from perdure._wire.schedule_service import Asked, NewSchedule, ScheduleService, ScheduleTarget
from perdure.errors import RPCError
from perdure.job import JobStatus, NewJob
from perdure.schedule import Schedule, ScheduleOverlapPolicy, ScheduleSlot
from perdure_engine.core.ids import shard_of_job

T = TypeVar("T")

IDENTITY = "caller"
WHY = "torture"
PATIENCE = timedelta(seconds=PATIENCE_S)


class JobCallers:
    """Each call is one message with one request id, sent until the answer is definite."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._converter = nodes.client.core.converter

    # ---- jobs

    async def create(
        self, jobs: Sequence[NewJob[Any]], batch: Fields | None = None, *, times: int = 1
    ) -> list[MadeJob | RPCError]:
        """What became of each. Each node answers for its own jobs. `times`: the whole message again."""
        message = JobsToMake(
            [job_fields(job, self._converter, {}) for job in jobs],
            namespace=NAMESPACE,
            request_id=str(uuid.uuid4()),
            identity=IDENTITY,
            batch=batch,
        )
        for _ in range(times):
            made = await self._create(message, len(jobs))
        return made

    async def _create(self, message: JobsToMake, count: int) -> list[MadeJob | RPCError]:
        made: dict[int, MadeJob | RPCError] = {}
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PATIENCE_S
        while True:
            for node in self._nodes.nodes:
                self._nodes.tries += 1
                answered = await _answers(node, message)
                for index, one in enumerate(answered):
                    late = loop.time() > deadline_s
                    if isinstance(one, MadeJob) or late or one.status not in TRY_ELSEWHERE:
                        made.setdefault(index, one)
                if answered and len(made) == count:
                    return [made[index] for index in range(count)]
            if loop.time() > deadline_s + PATIENCE_S:
                raise TimeoutError(f"{count - len(made)} of {count} jobs without an answer")
            await asyncio.sleep(PAUSE_S)

    def callback(self, job: NewJob[Any]) -> Fields:
        """As a field of a batch."""
        return job_fields(job, self._converter, {})

    async def cancel(self, job_id: str) -> JobStatus | None:
        act = _act(job_id)
        return await self._of_job(job_id, lambda jobs: jobs.cancel(act, WHY, TRY_S))

    async def reschedule(self, job_id: str, run_at: datetime | None) -> None:
        act = _act(job_id)
        await self._of_job(job_id, lambda jobs: jobs.reschedule(act, run_at, TRY_S))

    async def describe(self, job_id: str) -> JobDescription:
        return await self._of_job(
            job_id, lambda jobs: jobs.get(NAMESPACE, job_id, lambda one: one, TRY_S)
        )

    async def result(self, job_id: str) -> JobOutcome:
        """Waits for it, however long and through whatever happens."""
        while True:
            ended = await self._of_job(job_id, lambda jobs: jobs.results(NAMESPACE, [job_id]))
            for one in ended:
                if one.error is not None:
                    raise one.error
                return await one.read(self._nodes.client.core.edge)

    async def execute(self, job: NewJob[Any]) -> Any:
        """As users do, if there is one node; else the same with our own calls."""
        core = self._nodes.client.core
        if len(self._nodes.nodes) == 1:
            [handle] = await self._nodes.client.jobs.create_many([job], rpc_timeout=PATIENCE)
            return await handle.result()
        [made] = await self.create([job])
        if isinstance(made, RPCError):
            raise made
        outcome = await self.result(made.id)
        return core.converter.from_payload(outcome.result[0]) if outcome.result else outcome.status

    async def _of_job(self, job_id: str, ask: Callable[[JobService], Awaitable[T]]) -> T:
        shard = shard_of_job(uuid.UUID(job_id).bytes)
        return await self._nodes.ask(shard, lambda node: ask(node.client.core.job_service))

    # ---- schedules

    async def create_schedule(self, schedule_id: str, schedule: Schedule) -> None:
        new = NewSchedule(
            schedule=schedule,
            action=wire_action(schedule.action, self._converter),
            user_id="",
            trigger_immediately=False,
        )
        await self._of_schedule(
            schedule_id, lambda schedules, one, asked: schedules.create(one, new, asked, TRY_S)
        )

    async def pause(self, schedule_id: str) -> None:
        await self._of_schedule(
            schedule_id, lambda schedules, one, asked: schedules.pause(one, WHY, asked, TRY_S)
        )

    async def unpause(self, schedule_id: str) -> None:
        await self._of_schedule(
            schedule_id, lambda schedules, one, asked: schedules.unpause(one, "", asked, TRY_S)
        )

    async def trigger(self, schedule_id: str) -> ScheduleSlot:
        overlap = ScheduleOverlapPolicy.ALLOW_ALL
        return await self._of_schedule(
            schedule_id, lambda schedules, one, asked: schedules.trigger(one, overlap, asked, TRY_S)
        )

    async def delete_schedule(self, schedule_id: str) -> None:
        await self._of_schedule(
            schedule_id, lambda schedules, one, asked: schedules.delete(one, WHY, asked, TRY_S)
        )

    async def _of_schedule(
        self,
        schedule_id: str,
        ask: Callable[[ScheduleService, ScheduleTarget, Asked], Awaitable[T]],
    ) -> T:
        target = ScheduleTarget(NAMESPACE, schedule_id)
        asked = Asked(str(uuid.uuid4()), IDENTITY)
        return await self._nodes.ask(
            -1 - crc32(schedule_id.encode()),
            lambda node: ask(node.client.core.schedule_service, target, asked),
        )


async def _answers(node: Node, message: JobsToMake) -> list[MadeJob | RPCError]:
    """None when the message as a whole has none."""
    try:
        return await node.client.core.job_service.create(message, TRY_S)
    except RPCError as error:
        if error.status not in TRY_ELSEWHERE:
            raise
        return []


def _act(job_id: str) -> JobAct:
    return JobAct(
        namespace=NAMESPACE, job_id=job_id, identity=IDENTITY, request_id=str(uuid.uuid4())
    )
