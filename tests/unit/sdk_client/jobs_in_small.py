"""An engine's JobService as small as a client's tests need it, and a client over it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from perdure._client.core import ClientCore
from perdure._client.job_requests import JobCreation, Whose
from perdure._client.job_waits import JobWaits
from perdure._client.jobs import Jobs
from perdure._jobs import JobStatus
from perdure._wire.connection import Connection
from perdure._wire.job_service import EndedJob
from perdure._wire.new_jobs import JobsToMake, MadeJob
from perdure._wire.surroundings import Surroundings
from perdure.converter import DataConverter
from perdure.errors import RPCError, RPCStatusCode
from perdure_api.v1 import job_service_pb2 as pb

UNAVAILABLE = RPCError("gone for a moment", RPCStatusCode.UNAVAILABLE)
BUSY = RPCError("later", RPCStatusCode.RESOURCE_EXHAUSTED, retry_delay_s=0.5)
TOO_LARGE = RPCError("too large", RPCStatusCode.RESOURCE_EXHAUSTED)
WRONG = RPCError("task_name: is empty", RPCStatusCode.INVALID_ARGUMENT)

Answer = list[MadeJob | RPCError]


def job_id(number: int) -> str:
    return f"00000001-0000-8000-8000-{number:012}"


class FakeService:
    """Makes every job that is asked for, unless `answer` says something else, once each.

    Jobs have numbers in the order in which they were first asked for, a repeat of a message the same.
    """

    def __init__(self) -> None:
        self.messages: list[pb.CreateJobsRequest] = []
        self.answers: list[Callable[[Answer], Answer]] = []
        self.held: asyncio.Event | None = None
        self.flying = 0
        self.flying_max = 0
        self._numbers = itertools.count()
        self._made: dict[tuple[str, int], MadeJob] = {}
        self.asked: list[list[str]] = []
        self.ended: dict[str, pb.JobResult] = {}
        self.something_ended = asyncio.Event()
        self.asking_fails: list[RPCError] = []

    async def create(self, jobs: JobsToMake, timeout_s: float) -> Answer:
        message = pb.CreateJobsRequest()
        message.CopyFrom(jobs.message)
        self.messages.append(message)
        self.flying += 1
        self.flying_max = max(self.flying, self.flying_max)
        try:
            if self.held is not None:
                await self.held.wait()
            made: Answer = [
                self._job(message.request_id, index) for index in range(len(message.jobs))
            ]
            return self.answers.pop(0)(made) if self.answers else made
        finally:
            self.flying -= 1

    def _job(self, request_id: str, index: int) -> MadeJob:
        key = (request_id, index)
        if key not in self._made:
            self._made[key] = MadeJob(job_id(next(self._numbers)), True, JobStatus.PENDING)
        return self._made[key]

    async def results(self, namespace: str, job_ids: Sequence[str]) -> list[EndedJob]:
        self.asked.append(list(job_ids))
        if self.asking_fails:
            raise self.asking_fails.pop(0)
        while True:
            found = [EndedJob(self.ended[one]) for one in job_ids if one in self.ended]
            if found:
                return found
            self.something_ended.clear()
            await self.something_ended.wait()

    def end(self, job_id: str, **fields: Any) -> None:
        fields.setdefault("status", pb.JOB_STATUS_COMPLETED)
        self.ended[job_id] = pb.JobResult(job_id=job_id, **fields)
        self.something_ended.set()


class Slept:
    """Sleeps for no time, and remembers for how long it was to be."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.delays.append(seconds)
        await turn(1)


def raises(error: RPCError) -> Callable[[Answer], Answer]:
    def answer(made: Answer) -> Answer:
        raise error

    return answer


def client_over(
    service: Any, converter: DataConverter = DataConverter.default, sleep: Any = None
) -> tuple[Jobs, ClientCore]:
    numbers = itertools.count(1)
    surroundings = Surroundings(
        monotonic_s=lambda: 0.0,
        sleep=sleep or Slept(),
        random=lambda: 0.0,
        new_uuid=lambda: f"request-{next(numbers)}",
    )
    core = ClientCore(Connection("127.0.0.1:1"), "default", "me", converter, surroundings)
    core.job_service = service
    whose = Whose(namespace="default", identity="me", converter=core.converter, edge=core.edge)
    core.job_creation = JobCreation(service, whose, core.unary, surroundings)

    def ask(job_ids: Sequence[str]) -> Awaitable[list[EndedJob]]:
        answer: Awaitable[list[EndedJob]] = service.results("default", job_ids)
        return answer

    core.job_waits = JobWaits(ask, surroundings)
    return Jobs(core), core


async def turn(times: int = 5) -> None:
    """The loop has done what was due, and what became due by that."""
    loop = asyncio.get_running_loop()
    for _ in range(times):
        done = loop.create_future()
        loop.call_soon(done.set_result, None)
        await done
