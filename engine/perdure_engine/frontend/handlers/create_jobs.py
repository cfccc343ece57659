"""CreateJobs: one job or thousands, each with its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.ids import job_id_of, shard_of
from perdure_engine.core.jobs.intents import Callback, CreatedJob, CreateJobs, DescribeJob
from perdure_engine.core.jobs.model import NewJob
from perdure_engine.core.jobs.replies import JobDescription, JobReply, JobsCreated
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.get_job_batch import get_job_batch
from perdure_engine.frontend.new_jobs import (
    AskedJob,
    JobOptions,
    Plan,
    body_hash,
    check_options,
    due_of,
    new_job,
    shard_of_batch,
    shard_of_keys,
    too_late,
)

CALLBACK_KEY = "__callback:{}"  # users' keys cannot begin so


class AskedBatch(msgspec.Struct, frozen=True):
    """The batch that all jobs of a call belong to. `callback` None: nothing follows its end. Its input is the engine's
    to make."""

    batch_id: str
    callback: JobOptions | None
    sealed: bool


class CreateJobsCall(msgspec.Struct, frozen=True, kw_only=True):
    """`jobs` may hold refusals of what could not be read. `body`: a hash of the call, by which a repeat with the same
    request id is known from a mistake."""

    namespace_id: bytes
    request_id: bytes
    jobs: Sequence[AskedJob | Rejected]
    body: bytes = b""
    batch: AskedBatch | None = None
    identity: str = ""


Made = CreatedJob | BaseException


async def create_jobs(frontend: Frontend, call: CreateJobsCall) -> list[Made]:
    """What became of each job, in their order. Raises when the call is wrong, and when all of its jobs are one shard's
    that did not take them."""
    if len(call.jobs) > limits.JOBS_OF_CALL_MAX:
        raise invalid("jobs", f"are {len(call.jobs)}, the limit is {limits.JOBS_OF_CALL_MAX}")
    checks.label("identity", call.identity)
    sorting = _Sorting(frontend, call)
    batch = None if call.batch is None else sorting.begin_batch(call.batch)
    if sorting.late_callback is not None:
        await _require_known(frontend, call, sorting.late_callback)
    for index, asked in enumerate(call.jobs):
        sorting.add(index, asked)
    portions = sorting.portions
    futures = [
        frontend.history.submit_job(
            shard_id,
            CreateJobs(
                shard_id=shard_id, namespace_id=call.namespace_id, jobs=portion.jobs, batch=batch
            ),
        )
        for shard_id, portion in portions.items()
    ]
    replies = await asyncio.gather(*futures, return_exceptions=True)
    made: list[Made | None] = list(sorting.refused)
    for portion, reply in zip(portions.values(), replies, strict=True):
        if isinstance(reply, BaseException) and len(portion.jobs) == len(made):
            raise reply
        _put_together(made, portion, reply)
    if sorting.late:
        await _answer_late(frontend, call.namespace_id, sorting.late, made)
    return [_answered(one) for one in made]


class _Portion:
    """The jobs of a call that go to one shard."""

    __slots__ = ("indices", "jobs")

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.jobs: list[NewJob] = []


class _Late(msgspec.Struct, gc=False):
    """A job whose time is over before it is made; or which was made by a call that had no answer."""

    index: int
    shard_id: int
    job_id: bytes
    body_hash: bytes


class _Sorting:
    """Checks the jobs of a call and parts them by shard."""

    def __init__(self, frontend: Frontend, call: CreateJobsCall) -> None:
        self._namespace_id = namespace_id = call.namespace_id
        self._call = call
        self._number_of_shards = number_of_shards = frontend.history.number_of_shards
        self._now_us = frontend.db_now_us()
        self._plans: dict[int, Plan] = {}
        # Jobs without keys go to the shards in turn, from one that the request id names.
        self._first = shard_of(namespace_id, f"call:{call.request_id.hex()}", number_of_shards)
        self._batch_id = ""
        self._batch_shard_id = 0
        self.portions: dict[int, _Portion] = {}
        self.refused: list[Rejected | None] = [None] * len(call.jobs)
        self.late: list[_Late] = []
        self.late_callback: Rejected | None = None

    def begin_batch(self, asked: AskedBatch) -> Callback:
        """Before the first job is added. Raises INVALID_ARGUMENT."""
        checks.key("batch.batch_id", asked.batch_id)
        self._batch_id = asked.batch_id
        self._batch_shard_id = shard_id = shard_of_batch(
            asked.batch_id, self._namespace_id, self._number_of_shards
        )
        self.portions[shard_id] = _Portion()  # also without a job: to seal it
        callback = None
        if asked.callback is not None:
            plan = self._plan(asked.callback)
            if plan.refused is not None:
                self.late_callback = checks.under("batch.callback", plan.refused)
                if not plan.late:
                    raise self.late_callback
            # By its batch and not by the call: whichever call brings it, it is the same job.
            key = CALLBACK_KEY.format(asked.batch_id)
            job_id = job_id_of(shard_id, self._namespace_id, key, b"", 0)
            callback = new_job(plan, AskedJob(asked.callback), job_id, b"", "", self._call.identity)
        return Callback(asked.batch_id, callback, asked.sealed)

    def add(self, index: int, asked: AskedJob | Rejected) -> None:
        if isinstance(asked, Rejected):
            self.refused[index] = asked
            return
        options = asked.options
        # By identity: the call holds them all, and hashing their content costs more than all the rest.
        plan = self._plans.get(id(options)) or self._plan(options)
        refused = plan.refused
        if len(asked.input) > limits.PAYLOAD_BYTES_MAX and refused is None:
            refused = invalid(
                "input", f"is {len(asked.input)} bytes, the limit is {limits.PAYLOAD_BYTES_MAX}"
            )
        if refused is not None:
            self.refused[index] = refused
            if not plan.late:
                return
        call = self._call
        shard_id = plan.shard_id
        if not shard_id:
            turn = self._first - 1 + index // limits.JOBS_TOGETHER
            shard_id = turn % self._number_of_shards + 1
        key = options.idempotency_key
        job_id = job_id_of(shard_id, self._namespace_id, key, call.request_id, index)
        hashed = body_hash(asked) if key else call.body
        if refused is not None:
            self.late.append(_Late(index, shard_id, job_id, hashed))
            return
        portion = self.portions.get(shard_id)
        if portion is None:
            portion = self.portions[shard_id] = _Portion()
        portion.indices.append(index)
        portion.jobs.append(new_job(plan, asked, job_id, hashed, self._batch_id, call.identity))

    def _plan(self, options: JobOptions) -> Plan:
        refused, late = None, False
        shard_id = self._batch_shard_id
        try:
            check_options(options, in_batch=bool(self._batch_id))
        except Rejected as refusal:
            refused = refusal
        else:
            refused = too_late(options, self._now_us)
            late = refused is not None
            shard_id = shard_id or shard_of_keys(
                options, self._namespace_id, self._number_of_shards
            )
        plan = Plan(options, shard_id, due_of(options, self._now_us), refused, late)
        self._plans[id(options)] = plan
        return plan


def _put_together(
    made: list[Made | None], portion: _Portion, reply: JobReply | BaseException
) -> None:
    if isinstance(reply, BaseException):
        for index in portion.indices:
            made[index] = reply
        return
    assert isinstance(reply, JobsCreated)
    for index, answer in zip(portion.indices, reply.jobs, strict=True):
        made[index] = answer


async def _require_known(frontend: Frontend, call: CreateJobsCall, too_late: Rejected) -> None:
    """A callback whose time is over is refused, but not for a batch that is there: the call may be the repeat of one
    that came in time."""
    assert call.batch is not None
    try:
        await get_job_batch(frontend, call.namespace_id, call.batch.batch_id)
    except Rejected as refusal:
        raise (too_late if refusal.code is Code.NOT_FOUND else refusal) from None


async def _answer_late(
    frontend: Frontend, namespace_id: bytes, late: list[_Late], made: list[Made | None]
) -> None:
    """Those that are there are answered as any repeat is; the others stay refused."""
    replies = await asyncio.gather(
        *(
            frontend.history.submit_job(
                one.shard_id, DescribeJob(namespace_id=namespace_id, job_id=one.job_id)
            )
            for one in late
        ),
        return_exceptions=True,
    )
    for one, reply in zip(late, replies, strict=True):
        if isinstance(reply, JobDescription):
            if reply.info.spec.body_hash == one.body_hash:
                made[one.index] = CreatedJob(one.job_id, False, reply.info.status)
        elif not (isinstance(reply, Rejected) and reply.code is Code.NOT_FOUND):
            assert isinstance(reply, BaseException)
            made[one.index] = reply


def _answered(one: Made | None) -> Made:
    assert one is not None, "a job without an answer"
    return one
