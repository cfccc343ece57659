"""How jobs are made: those that run once by CreateJobs, all of a call together; each recurring one is a schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.ids import recurring_job_id, request_id_of, uuid_text
from perdure_engine.core.jobs.intents import CreatedJob
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.intents import CreateSchedule
from perdure_engine.core.schedules.model import Schedule, ScheduleSpec
from perdure_engine.frontend.handlers.create_jobs import (
    AskedBatch,
    CreateJobsCall,
    create_jobs,
)
from perdure_engine.frontend.handlers.create_schedule import create_schedule
from perdure_engine.frontend.new_jobs import AskedJob
from perdure_engine.frontend.schedule_checks import scheduled_job
from perdure_engine.transport.http.rest.bodies import jobs as bodies
from perdure_engine.transport.http.rest.convert import jobs as convert
from perdure_engine.transport.http.rest.convert.job_times import due_or_spec
from perdure_engine.transport.http.rest.convert.workflows import body_hash
from perdure_engine.transport.http.rest.operations import Call, QueryT


class MadeJob(msgspec.Struct, frozen=True, gc=False):
    """`next_us` 0: not known, of a job that was there."""

    job_id: str
    created: bool
    status: JobStatus
    next_us: int


class _Recurring(NamedTuple):
    job_id: str
    spec: ScheduleSpec
    asked: AskedJob


Outcome = MadeJob | BaseException


async def make_jobs(
    call: Call[QueryT, bodies.NewJob] | Call[QueryT, bodies.NewJobs],
    asked: Sequence[bodies.NewJob],
    batch: bodies.JobBatch | None = None,
) -> list[Outcome]:
    """What became of each job, in their order. The bodies are spent afterwards. Raises when the whole call is wrong."""
    making = _Making(call, batch)
    for index, body in enumerate(asked):
        making.add(index, body)
    if making.recurs:
        await asyncio.gather(making.make_once(), making.make_recurring())
    else:
        await making.make_once()
    return [making.outcomes[index] for index in range(len(asked))]


class _Making:
    def __init__(
        self,
        call: Call[QueryT, bodies.NewJob] | Call[QueryT, bodies.NewJobs],
        batch: bodies.JobBatch | None,
    ) -> None:
        self._frontend = call.frontend
        self._namespace_id = call.namespace_id
        self._request_id = call.request_id()
        self._body_hash = body_hash(call.body)
        self._sharing = convert.Sharing()
        self._in_batch = batch is not None
        self._batch = None if batch is None else self._batch_of(batch)
        self._once: list[AskedJob | Rejected] = []
        self._once_at: list[int] = []
        self._recurring: list[tuple[int, _Recurring]] = []
        self.outcomes: dict[int, Outcome] = {}

    @property
    def recurs(self) -> bool:
        return bool(self._recurring)

    def add(self, index: int, body: bodies.NewJob) -> None:
        asked: AskedJob | Rejected
        try:
            when = due_or_spec(self._frontend.times, body.schedule, body.timezone)
            if isinstance(when, ScheduleSpec):
                self._recurring.append((index, self._asked_to_recur(index, body, when)))
                return
            asked = self._sharing.asked(body, when)
        except Rejected as rejected:
            asked = rejected
        self._once.append(asked)
        self._once_at.append(index)

    async def make_once(self) -> None:
        if not self._once and self._batch is None:
            return
        jobs_call = CreateJobsCall(
            namespace_id=self._namespace_id,
            request_id=self._request_id,
            jobs=self._once,
            body=self._body_hash,
            batch=self._batch,
        )
        made: Sequence[CreatedJob | BaseException]
        try:
            made = await create_jobs(self._frontend, jobs_call)
        except Exception as error:
            if not self.recurs:
                raise
            made = [error] * len(self._once)  # the others of the call may have been made
        now_us = self._frontend.db_now_us()
        for index, asked, one in zip(self._once_at, self._once, made, strict=True):
            if isinstance(one, CreatedJob):
                due_us = asked.options.due_us if isinstance(asked, AskedJob) else 0
                next_us = max(due_us, now_us) if one.created else 0
                made_job = MadeJob(uuid_text(one.job_id), one.created, one.status, next_us)
                self.outcomes[index] = made_job
            else:
                self.outcomes[index] = one

    async def make_recurring(self) -> None:
        made = await asyncio.gather(
            *[self._recur(recurring) for _, recurring in self._recurring],
            return_exceptions=True,
        )
        for (index, _), one in zip(self._recurring, made, strict=True):
            self.outcomes[index] = one

    def _batch_of(self, batch: bodies.JobBatch) -> AskedBatch:
        callback = batch.callback
        if callback is None:
            return AskedBatch(batch.batch_id, None, not batch.more)
        if callback.schedule is not None:
            raise invalid("batch.callback.schedule", "is when the batch has ended")
        options = self._sharing.asked(callback, 0).options
        return AskedBatch(batch.batch_id, options, not batch.more)

    def _asked_to_recur(self, index: int, body: bodies.NewJob, spec: ScheduleSpec) -> _Recurring:
        if self._in_batch:
            raise invalid("schedule", "cannot recur in a batch")
        if body.expires_at is not None:
            raise invalid("expires_at", "is for a job that runs once")
        key, body.idempotency_key = body.idempotency_key, ""
        name = f"key:{key}" if key else f"call:{self._request_id.hex()}:{index}"
        job_id = uuid_text(recurring_job_id(self._namespace_id, name))
        return _Recurring(job_id, spec, self._sharing.asked(body, 0))

    async def _recur(self, recurring: _Recurring) -> MadeJob:
        job_id, spec, asked = recurring
        # Another body by the same key is another request for the same schedule.
        hashed = body_hash(spec, asked.options, asked.input)
        request_id = request_id_of(self._namespace_id, f"{job_id}:{hashed.hex()}")
        intent = CreateSchedule(
            namespace_id=self._namespace_id,
            schedule_id=job_id,
            schedule=Schedule(spec, scheduled_job(asked)),
            request_id=request_id,
            user_id=asked.options.user_id,
        )
        try:
            saved = await create_schedule(self._frontend, intent)
        except Rejected as rejected:
            if rejected.code is Code.ALREADY_EXISTS:
                raise _reused() from None
            raise
        return MadeJob(job_id, not saved.repeated, JobStatus.PENDING, saved.next_us)


def _reused() -> Rejected:
    message = "idempotency_key: was used before with another job"
    return Rejected(Code.INVALID_ARGUMENT, "REQUEST_ID_REUSED", message, field="idempotency_key")
