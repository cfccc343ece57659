"""What is known of a task queue from all shards of this process: how much waits, since when, and what flows.

Nothing is asked of the database. What is in memory is there to be counted, and of what is left to paging each shard
keeps the number (history.offering); queues without tasks and without flow are not known at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perdure_engine.core.ids import queue_number
from perdure_engine.core.tasks import TaskKind
from perdure_engine.history.flows import Flow
from perdure_engine.history.offering import Book
from perdure_engine.history.rooms import Rooms
from perdure_engine.history.shard import Shard
from perdure_engine.ports.history import QueueFacts, QueueName


def facts_of(rooms: Rooms, shards: Iterable[Shard], name: QueueName) -> QueueFacts:
    queue_no = queue_number(name.namespace_id, name.kind, name.queue)
    books = [_books_of(shard, name.kind).get(queue_no) for shard in shards]
    return _facts([book for book in books if book is not None], rooms.flows.by_number.get(queue_no))


def facts_of_all(rooms: Rooms, shards: Iterable[Shard]) -> dict[QueueName, QueueFacts]:
    """Of each queue that has tasks or flow."""
    found: dict[int, list[Book]] = {}
    names = {
        queue_no: QueueName(flow.namespace_id, flow.queue, flow.kind)
        for queue_no, flow in rooms.flows.by_number.items()
    }
    for shard in shards:
        for books in (shard.queues.books, shard.jobs.queues.books):
            for queue_no, book in books.items():
                found.setdefault(queue_no, []).append(book)
                offer = next(iter(book.offered.values()), None)
                if offer is not None and queue_no not in names:
                    names[queue_no] = QueueName(offer.namespace_id, offer.queue, offer.kind)
    return {
        name: _facts(found.get(queue_no, []), rooms.flows.by_number.get(queue_no))
        for queue_no, name in names.items()
    }


def _books_of(shard: Shard, kind: TaskKind) -> Mapping[int, Book]:
    return shard.jobs.queues.books if kind is TaskKind.JOB else shard.queues.books


def _facts(books: list[Book], flow: Flow | None) -> QueueFacts:
    """The oldest of a shard is the first that was offered: the key that pages go by is their age."""
    firsts = [next(iter(book.offered.values())).ready_us for book in books if book.offered]
    return QueueFacts(
        backlog_count=sum([len(book.offered) + max(0, book.beyond) for book in books]),
        oldest_ready_us=min(firsts, default=0),
        add_rate=0.0 if flow is None else flow.add_rate,
        dispatch_rate=0.0 if flow is None else flow.dispatch_rate,
    )
