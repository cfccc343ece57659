"""GetTaskHistory: the rest of a history whose first page came with a workflow task."""

from __future__ import annotations

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.events import Event
from perdure_engine.frontend.frontend import Frontend

SCOPE = b"get_task_history"


class Rest(msgspec.Struct, frozen=True, array_like=True):
    """What is still to be read of a handed-out task: saved events from one id to another, then the
    unsaved tail.

    The tail travels in the token because no one keeps it: the hand-out may live on another node by
    then.
    """

    shard_id: int
    run_id: bytes
    from_event_id: int
    to_event_id: int
    tail: list[Event]


class TaskHistoryPage(msgspec.Struct, frozen=True):
    events: list[Event]
    next_page_token: bytes  # b"": complete


def seal_rest(frontend: Frontend, namespace_id: bytes, rest: Rest) -> bytes:
    return frontend.sealer.seal_page(rest, SCOPE + namespace_id)


async def get_task_history(
    frontend: Frontend, namespace_id: bytes, page_token: bytes
) -> TaskHistoryPage:
    rest = frontend.sealer.open_page("page_token", page_token, SCOPE + namespace_id, Rest)
    if rest.from_event_id > rest.to_event_id:
        return TaskHistoryPage(rest.tail, b"")
    events, next_event_id = await frontend.history.read_task_events(
        rest.shard_id,
        rest.run_id,
        rest.from_event_id,
        rest.to_event_id,
        limits.BATCH_MESSAGE_BYTES_MAX,
    )
    if not next_event_id:
        return TaskHistoryPage(events + rest.tail, b"")
    following = msgspec.structs.replace(rest, from_event_id=next_event_id)
    return TaskHistoryPage(events, seal_rest(frontend, namespace_id, following))
