"""What is not in the tables any more, looked for in the archive."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from perdure_engine.core.errors import Code, Rejected, unavailable
from perdure_engine.core.status import Status
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.archive import (
    Archive,
    ArchiveCorrupt,
    ArchivedJob,
    ArchivedRun,
    ArchiveUnavailable,
)

log = logging.getLogger(__name__)


async def archived_run(
    frontend: Frontend, refusal: Rejected, namespace_id: bytes, workflow_id: str, run_id: bytes
) -> ArchivedRun:
    """A run that the tables do not have, as `refusal` says: raised again where the archive has none either.

    Raises UNAVAILABLE when the archive does not answer: not to know is not the same as not to be there.
    """
    if refusal.code is not Code.NOT_FOUND or frontend.archive is None:
        raise refusal
    shard_id = frontend.shard_id(namespace_id, workflow_id)
    with refusals_of_archive():
        found = await frontend.archive.find_run(namespace_id, shard_id, workflow_id, run_id)
    if found is None:
        raise refusal
    return found


async def refusal_of_archived(
    frontend: Frontend, refusal: Rejected, namespace_id: bytes, workflow_id: str, run_id: bytes
) -> Rejected:
    """What is told of a run that the tables do not have to somebody who wants more than to read it."""
    try:
        run = await archived_run(frontend, refusal, namespace_id, workflow_id, run_id)
    except Rejected as told:
        return told
    ended = Status(run.row.status).name
    return Rejected(
        Code.NOT_FOUND,
        "WORKFLOW_ARCHIVED",
        f"workflow {workflow_id!r} ended ({ended}), is over its retention and lies in the archive: its description,"
        " result and history can be read, and nothing else can be done with it",
    )


async def archived_job(
    frontend: Frontend, refusal: Rejected, namespace_id: bytes, shard_id: int, job_id: bytes
) -> ArchivedJob:
    """As `archived_run`."""
    if refusal.code is not Code.NOT_FOUND or frontend.archive is None:
        raise refusal
    with refusals_of_archive():
        found = await frontend.archive.find_job(namespace_id, shard_id, job_id)
    if found is None:
        raise refusal
    return found


def require_archive(frontend: Frontend) -> Archive:
    """Raises FAILED_PRECONDITION."""
    if frontend.archive is None:
        raise Rejected(
            Code.FAILED_PRECONDITION,
            "NO_ARCHIVE",
            "this installation has no archive: what is over its retention was deleted",
            field="archived",
        )
    return frontend.archive


@contextmanager
def refusals_of_archive() -> Iterator[None]:
    """Raises Rejected where the archive does not answer, or not with what was put there.

    What exactly happened stands in the log: the texts of object stores name buckets and addresses.
    """
    try:
        yield
    except ArchiveUnavailable as error:
        log.warning("the archive did not serve a call: %s", error)
        raise unavailable("ARCHIVE_UNAVAILABLE", "the archive does not answer; try again") from None
    except ArchiveCorrupt as error:
        log.error("what the archive has does not read back: %s", error)
        message = "what the archive has of it does not read back; the engine's log says more"
        raise Rejected(Code.DATA_LOSS, "ARCHIVE_CORRUPT", message) from None
