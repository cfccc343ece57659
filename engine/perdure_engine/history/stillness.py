"""Whether anything goes on in these shards, or all that can happen next is that time passes.

Asked by the test environment before it lets the database's time jump. Time that jumps while a task is out would run
out its start-to-close and heartbeat timeouts, which are judged by database time; so one hand-out anywhere is enough
for time to stay as it is.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from itertools import chain

from perdure_engine.core.tasks import TaskState
from perdure_engine.history.shard import Shard


class Stillness(enum.Enum):
    STILL = enum.auto()  # only time, or somebody outside, can change anything
    UNATTENDED = enum.auto()  # tasks are ready, and no worker asks for them
    WORKING = enum.auto()  # a worker has a task, or whoever its outcome was handed over to
    MOVING = enum.auto()  # in a moment it will be one of the others


def stillness(shards: Iterable[Shard]) -> Stillness:
    found = Stillness.STILL
    for shard in shards:
        if _moves(shard):
            return Stillness.MOVING
        if any(len(book) for book in shard.lease_books) or _handed_over(shard):
            found = Stillness.WORKING
            continue
        for offer in chain(shard.queues.offered(), shard.jobs.queues.offered()):
            if shard.rooms.matching.has_pollers(
                offer.namespace_id, offer.queue, offer.kind, offer.version, offer.pool
            ):
                return Stillness.MOVING  # about to be handed out, or it waits for a busy worker
            if found is Stillness.STILL:
                found = Stillness.UNATTENDED
    return found


def _handed_over(shard: Shard) -> bool:
    """Whether an outcome is to come from outside: no lease tells of it."""
    return any(
        record.state is TaskState.ASYNC
        for run in shard.runs.values()
        for record in run.state.tasks.values()
    )


def _moves(shard: Shard) -> bool:
    return (
        shard.in_flight
        or len(shard.inbox) > 0
        or shard.unproven
        or shard.loading.busy
        or shard.jobs.busy
        or shard.resetting.busy
        or shard.timers.busy
        or shard.outbox.busy
        or shard.schedules.at_work
    )
