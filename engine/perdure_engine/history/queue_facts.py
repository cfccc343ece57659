"""What is known of a task queue from all shards of this process: how much waits, since when, and what flows.

Nothing is asked of the database. What is in memory is there to be counted, and of what is left to paging each shard
keeps the number (history.offering); queues without tasks and without flow are not known at all. A queue's name stands
for several numbers: what is pinned to a version is paged by itself, and is counted with the rest; what only the
surgical pool may have is not, because no further worker of the queue would help it.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure_engine.history.flows import Flow
from perdure_engine.history.offering import Book
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.ports.history import NO_FACTS, QueueFacts, QueueName


def facts_of(rooms: Rooms, shards: Iterable[Shard], name: QueueName) -> QueueFacts:
    return facts_of_all(rooms, shards, name).get(name, NO_FACTS)


def facts_of_all(
    rooms: Rooms, shards: Iterable[Shard], only: QueueName | None = None
) -> dict[QueueName, QueueFacts]:
    """Of each queue that has tasks or flow; `only` None: of all of them."""
    found: dict[QueueName, _Known] = {}
    names: dict[int, QueueName] = {}
    for queue_no, flow in rooms.flows.by_number.items():
        name = names[queue_no] = QueueName(flow.namespace_id, flow.queue, flow.kind)
        if only in (None, name):
            found.setdefault(name, _Known()).flows.append(flow)
    for shard in shards:
        for offering in (shard.queues, shard.jobs.queues):
            for queue_no, book in offering.books.items():
                offer = next(iter(book.offered.values()), None)
                if offer is not None and offer.pool:
                    continue
                if offer is not None and queue_no not in names:
                    names[queue_no] = QueueName(offer.namespace_id, offer.queue, offer.kind)
                if queue_no in names and only in (None, names[queue_no]):
                    known = found.setdefault(names[queue_no], _Known())
                    known.add(offering.waiting(queue_no, book), book)
    return {name: known.facts() for name, known in found.items()}


class _Known:
    """Of one queue, shard by shard."""

    __slots__ = ("_oldest_us", "_waiting", "flows")

    def __init__(self) -> None:
        self.flows: list[Flow] = []
        self._waiting = 0
        self._oldest_us = 0

    def add(self, waiting: int, book: Book) -> None:
        """The oldest of a shard is the first that was offered: the key that pages go by is their age."""
        self._waiting += waiting
        first = next(iter(book.offered.values()), None)
        if first is not None:
            self._oldest_us = min(first.ready_us, self._oldest_us or first.ready_us)

    def facts(self) -> QueueFacts:
        return QueueFacts(
            backlog_count=self._waiting,
            oldest_ready_us=self._oldest_us,
            add_rate=sum(flow.add_rate for flow in self.flows),
            dispatch_rate=sum(flow.dispatch_rate for flow in self.flows),
        )
