"""GetJobResults: waits until one of some jobs has ended. Of an archived job it is known at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.intents import WaitJobs
from perdure_engine.core.jobs.model import OPEN_STATUSES
from perdure_engine.core.jobs.replies import EndedJob, JobReply, JobsEnded
from perdure_engine.frontend import checks
from perdure_engine.frontend.archived import archived_job
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.job_ids import job_and_shard, unknown_job
from perdure_engine.frontend.job_rows import ended_of
from perdure_engine.ports.archive import ArchivedJob

ARCHIVE_LOOKS_MAX = (
    16  # of one call: each costs some twenty requests, and who asks again is told the others
)


class GetJobResults(msgspec.Struct, frozen=True, kw_only=True):
    """`timeout_ms` 0: do not wait."""

    namespace_id: bytes
    job_ids: Sequence[str]
    timeout_ms: int


class ArchivedEnd(msgspec.Struct, frozen=True):
    """Of one that has left the tables. A refusal: the archive does not answer."""

    job_id: bytes
    job: ArchivedJob | Rejected


async def get_job_results(
    frontend: Frontend, asked: GetJobResults
) -> Sequence[EndedJob | ArchivedEnd]:
    """Those that have ended, as soon as one has; none when that takes longer than asked for. A job that does not exist
    is among them, without a status."""
    ended = await _ended(frontend, asked)
    if frontend.archive is None:
        return ended
    gone = [one.job_id for one in ended if one.status is None]
    looking = [_look(frontend, asked.namespace_id, job_id) for job_id in gone[:ARCHIVE_LOOKS_MAX]]
    return [one for one in ended if one.status is not None] + await asyncio.gather(*looking)


async def _look(frontend: Frontend, namespace_id: bytes, job_id: bytes) -> EndedJob | ArchivedEnd:
    try:
        _, shard_id = job_and_shard("job_ids", uuid_text(job_id), frontend.history.number_of_shards)
        found = await archived_job(frontend, unknown_job(), namespace_id, shard_id, job_id)
    except Rejected as refusal:
        if refusal.code is Code.NOT_FOUND:
            return EndedJob(job_id, None)
        return ArchivedEnd(job_id, refusal)
    return ArchivedEnd(job_id, found)


async def _ended(frontend: Frontend, asked: GetJobResults) -> list[EndedJob]:
    """Without a status those that the tables do not have."""
    job_ids = asked.job_ids
    if not job_ids:
        raise invalid("job_ids", "is empty")
    if len(job_ids) > limits.JOB_RESULTS_OF_CALL_MAX:
        raise invalid(
            "job_ids", f"are {len(job_ids)}, the limit is {limits.JOB_RESULTS_OF_CALL_MAX}"
        )
    checks.not_negative("timeout_ms", asked.timeout_ms)
    by_shard, ended = _by_shard(frontend, job_ids)
    if ended:
        return ended
    if not asked.timeout_ms:
        return await _ended_now(frontend, asked.namespace_id, by_shard)
    futures = [
        frontend.history.submit_job(
            shard_id, WaitJobs(shard_id=shard_id, namespace_id=asked.namespace_id, job_ids=ids)
        )
        for shard_id, ids in by_shard.items()
    ]
    try:
        waiting = asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        await frontend.parking.wait(waiting, checks.wait_s("timeout_ms", asked.timeout_ms))
        return [one for future in futures if future.done() for one in _reply(future).jobs]
    finally:
        for future in futures:
            if not future.cancel():
                # Read, or asyncio would complain of an error that nobody retrieved.
                _ = future.cancelled() or future.exception()


def _by_shard(
    frontend: Frontend, job_ids: Sequence[str]
) -> tuple[dict[int, list[bytes]], list[EndedJob]]:
    """The ids by their shards, and those that no shard of ours can have made. Each once."""
    by_shard: dict[int, list[bytes]] = {}
    unknown: list[EndedJob] = []
    number_of_shards = frontend.history.number_of_shards
    for index, text in enumerate(dict.fromkeys(job_ids)):
        field = f"job_ids[{index}]"
        try:
            job_id, shard_id = job_and_shard(field, text, number_of_shards)
        except Rejected as refused:
            if refused.field:
                raise
            unknown.append(EndedJob(checks.uuid_bytes(field, text), None))
        else:
            by_shard.setdefault(shard_id, []).append(job_id)
    return by_shard, unknown


async def _ended_now(
    frontend: Frontend, namespace_id: bytes, by_shard: dict[int, list[bytes]]
) -> list[EndedJob]:
    """As the store has them, which is never behind an acknowledgement."""
    ended: list[EndedJob] = []
    for shard_id, job_ids in by_shard.items():
        rows = await frontend.jobs.load_jobs(shard_id, job_ids)
        found = {row.job_id: row for row in rows if row.namespace_id == namespace_id}
        for job_id in job_ids:
            row = found.get(job_id)
            if row is None:
                ended.append(EndedJob(job_id, None))
            elif row.status not in OPEN_STATUSES:
                ended.append(ended_of(frontend, row))
    return ended


def _reply(future: asyncio.Future[JobReply]) -> JobsEnded:
    reply = future.result()
    assert isinstance(reply, JobsEnded)
    return reply
