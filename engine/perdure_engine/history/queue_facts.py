"""What is known of a task queue from all shards of this process: how much waits, since when, and what flows.

Nothing is asked of the database. What is in memory is there to be counted, and of what is left to paging each shard
keeps the number (history.offering); queues without tasks and without flow are not known at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure_engine.core.ids import queue_number
from perdure_engine.core.tasks import TaskKind
from perdure_engine.history.flows import Flow
from perdure_engine.history.jobs.queues import JobQueues
from perdure_engine.history.offering import Book
from perdure_engine.history.queues import QueueBooks
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.ports.history import QueueFacts, QueueName


def facts_of(rooms: Rooms, shards: Iterable[Shard], name: QueueName) -> QueueFacts:
    queue_no = queue_number(name.namespace_id, name.kind, name.queue)
    known = _Known()
    for shard in shards:
        offering = _offering_of(shard, name.kind)
        book = offering.books.get(queue_no)
        if book is not None:
            known.add(offering.waiting(queue_no, book), book)
    return known.facts(rooms.flows.by_number.get(queue_no))


def facts_of_all(rooms: Rooms, shards: Iterable[Shard]) -> dict[QueueName, QueueFacts]:
    """Of each queue that has tasks or flow."""
    flows = rooms.flows.by_number
    names = {
        queue_no: QueueName(flow.namespace_id, flow.queue, flow.kind)
        for queue_no, flow in flows.items()
    }
    found: dict[int, _Known] = {}
    for shard in shards:
        for offering in (shard.queues, shard.jobs.queues):
            for queue_no, book in offering.books.items():
                offer = next(iter(book.offered.values()), None)
                if offer is not None and queue_no not in names:
                    names[queue_no] = QueueName(offer.namespace_id, offer.queue, offer.kind)
                known = found.setdefault(queue_no, _Known())
                known.add(offering.waiting(queue_no, book), book)
    return {
        name: found.get(queue_no, _Known()).facts(flows.get(queue_no))
        for queue_no, name in names.items()
    }


class _Known:
    """Of one queue, shard by shard."""

    def __init__(self) -> None:
        self._waiting = 0
        self._oldest_us = 0

    def add(self, waiting: int, book: Book) -> None:
        """The oldest of a shard is the first that was offered: the key that pages go by is their age."""
        self._waiting += waiting
        first = next(iter(book.offered.values()), None)
        if first is not None:
            self._oldest_us = min(first.ready_us, self._oldest_us or first.ready_us)

    def facts(self, flow: Flow | None) -> QueueFacts:
        return QueueFacts(
            backlog_count=self._waiting,
            oldest_ready_us=self._oldest_us,
            add_rate=0.0 if flow is None else flow.add_rate,
            dispatch_rate=0.0 if flow is None else flow.dispatch_rate,
        )


def _offering_of(shard: Shard, kind: TaskKind) -> JobQueues | QueueBooks:
    return shard.jobs.queues if kind is TaskKind.JOB else shard.queues
