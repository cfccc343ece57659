"""RedriveJobs: failed, poisoned and suspended jobs begin anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.ids import batch_request_id, shard_of_job
from perdure_engine.core.jobs.intents import RedriveJob
from perdure_engine.core.jobs.model import DEAD_LETTERS
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.count_jobs import count_jobs
from perdure_engine.frontend.handlers.list_jobs import ListJobs, all_jobs, check_filter
from perdure_engine.frontend.job_ids import job_and_shard
from perdure_engine.frontend.job_rows import failure_type_of
from perdure_engine.ports.jobs import JobFilter

TOGETHER_MAX = 500  # under way at once: enough for large commits, and no shard's inbox is filled

GONE = (Code.NOT_FOUND, Code.FAILED_PRECONDITION)


class RedriveJobs(msgspec.Struct, frozen=True, kw_only=True):
    """These jobs, or without any all that the filter finds of DEAD_LETTERS; its statuses are of those, none is all."""

    namespace_id: bytes
    request_id: bytes
    job_ids: Sequence[str] = ()
    where: JobFilter
    failure_type: str = ""
    dry_run: bool = False
    identity: str = ""
    reason: str = ""


async def redrive_jobs(frontend: Frontend, asked: RedriveJobs) -> int:
    """How many have begun anew, or would. One that is gone, or no dead letter, is not counted. When it breaks off, what
    is done stays done, and the same call goes on."""
    checks.label("identity", asked.identity)
    checks.prose("reason", asked.reason)
    if len(asked.job_ids) > limits.JOBS_OF_CALL_MAX:
        raise invalid(
            "job_ids", f"are {len(asked.job_ids)}, the limit is {limits.JOBS_OF_CALL_MAX}"
        )
    where = msgspec.structs.replace(asked.where, statuses=_statuses(asked.where.statuses))
    if asked.job_ids and asked.where != JobFilter(asked.where.namespace_id):
        raise invalid("filter", "cannot be given with job_ids")
    check_filter(where, asked.failure_type)
    if asked.dry_run and not asked.job_ids:
        return sum(count for _, count in await count_jobs(frontend, where, asked.failure_type))
    named = _named(asked.job_ids, frontend.history.number_of_shards)
    done = 0
    together: list[bytes] = []
    async with aclosing(_meant(frontend, asked, where, named)) as meant:
        async for job_id in meant:
            together.append(job_id)
            if len(together) == TOGETHER_MAX:
                done += await _redriven(frontend, asked, together)
                together = []
    return done + await _redriven(frontend, asked, together)


def _statuses(asked: Sequence[int]) -> tuple[int, ...]:
    for index, status in enumerate(asked):
        if status not in DEAD_LETTERS:
            names = ", ".join([one.name for one in DEAD_LETTERS])
            raise invalid(f"filter.statuses[{index}]", f"is none of {names}")
    return tuple(asked) or tuple(map(int, DEAD_LETTERS))


def _named(job_ids: Sequence[str], number_of_shards: int) -> list[bytes]:
    """Without those that we cannot have made. Raises INVALID_ARGUMENT before anything is done."""
    named: list[bytes] = []
    for index, text in enumerate(dict.fromkeys(job_ids)):
        try:
            named.append(job_and_shard(f"job_ids[{index}]", text, number_of_shards)[0])
        except Rejected as refused:
            if refused.code is not Code.NOT_FOUND:
                raise
    return named


async def _meant(
    frontend: Frontend, asked: RedriveJobs, where: JobFilter, named: list[bytes]
) -> AsyncGenerator[bytes, None]:
    if asked.job_ids:
        for job_id in named:
            yield job_id
        return
    # Oldest first: what failed first begins first.
    async with aclosing(all_jobs(frontend, ListJobs(where=where, oldest_first=True))) as found:
        async for info in found:
            if asked.failure_type in ("", failure_type_of(info)):
                yield info.job_id


async def _redriven(frontend: Frontend, asked: RedriveJobs, job_ids: list[bytes]) -> int:
    if asked.dry_run:
        return await _count_dead(frontend, asked.namespace_id, job_ids)
    name = asked.request_id.hex()
    futures = [
        frontend.history.submit_job(
            shard_of_job(job_id),
            RedriveJob(
                namespace_id=asked.namespace_id,
                job_id=job_id,
                request_id=batch_request_id(asked.namespace_id, name, job_id),
                reason=asked.reason,
                identity=asked.identity,
            ),
        )
        for job_id in job_ids
    ]
    done = 0
    for outcome in await asyncio.gather(*futures, return_exceptions=True):
        if not isinstance(outcome, BaseException):
            done += 1
        elif not isinstance(outcome, Rejected) or outcome.code not in GONE:
            raise outcome
    return done


async def _count_dead(frontend: Frontend, namespace_id: bytes, job_ids: list[bytes]) -> int:
    by_shard: dict[int, list[bytes]] = {}
    for job_id in job_ids:
        by_shard.setdefault(shard_of_job(job_id), []).append(job_id)
    rows = [
        row
        for shard_id, of_shard in by_shard.items()
        for row in await frontend.jobs.load_jobs(shard_id, of_shard)
    ]
    return sum(row.namespace_id == namespace_id and row.status in DEAD_LETTERS for row in rows)
