"""What a task's token says. Sealing (a MAC) is the frontend's; this is only the content."""

from __future__ import annotations

import msgspec

from perdure_engine.core.tasks import TaskKind


class TaskToken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One hand-out of one attempt. It does not expire and does not depend on who owns the shard now.

    `started_event_id` is 0 for activities; for a workflow task it is the id its Started event will have, and a
    completion counts only while the run's next event id is still that.
    """

    shard_id: int
    namespace_id: bytes
    run_id: bytes
    kind: TaskKind
    scheduled_event_id: int
    attempt: int
    start_no: int
    started_us: int
    deadline_us: int  # start-to-close, or the workflow task's timeout
    started_event_id: int = 0
    updates_to: int = 0  # admitted updates up to this inbox number went out with the workflow task


def token_of_task_ahead(of: TaskToken, started_event_id: int, started_us: int) -> TaskToken:
    """Of the workflow task that the outcome of the attempt `of` leads to, before it is made: what its worker takes for
    known. Nobody has handed it out, so it has no number and no deadline."""
    return TaskToken(
        of.shard_id,
        of.namespace_id,
        of.run_id,
        TaskKind.WORKFLOW,
        started_event_id - 1,
        1,
        0,
        started_us,
        0,
        started_event_id,
    )


class QueryToken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One query handed to a worker. Good only in the process that made it."""

    shard_id: int
    run_id: bytes
    query_no: int
