"""`describe` and `result`: one job."""

from __future__ import annotations

from typing import Any

from perdure.cli.durations import optional_duration
from perdure.cli.job.group import JobId, app
from perdure.cli.jsonable import to_jsonable
from perdure.cli.parameters import Wait
from perdure.cli.session import Session, connected


@connected(app, "describe")
async def describe(session: Session, job_id: JobId) -> None:
    """Show everything that is kept of a job, with each attempt that failed."""
    client = await session.connect()
    found = await client.jobs.get(job_id).describe(rpc_timeout=session.call_timeout)
    values: dict[str, Any] = to_jsonable(found, client.core.decode_or_keep)
    if session.out.is_json:
        session.out.document(values)
        return
    lines: dict[str, Any] = {}
    for name, value in values.items():
        title = name.replace("_", " ")
        if name == "failures":
            for failed in found.failures:
                lines[f"attempt {failed.attempt} failed"] = failed.failure.message
        elif found.last_crash is not None and name == "last_crash":
            lines[title] = found.last_crash.message
            lines["crash report"] = found.last_crash.stack_trace
        elif value not in (None, "", [], False):
            lines[title] = value
    session.out.fields(lines)


@connected(app, "result")
async def result(session: Session, job_id: JobId, wait: Wait = None) -> None:
    """Wait for a job's end and print its result as JSON.

    Exit code 4: it failed or was skipped; 5: --timeout passed; 6: it was cancelled.
    """
    limit = optional_duration(wait)
    client = await session.connect()
    with session.out.waiting(f"Waiting for {job_id}; Ctrl-C leaves it running"):
        value = await client.jobs.get(job_id).result(rpc_timeout=limit)
    session.out.document(to_jsonable(value, client.core.decode_or_keep))
