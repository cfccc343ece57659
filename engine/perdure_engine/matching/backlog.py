"""Offers of one queue and kind that wait for a worker. Pure: no loop, no clock.

An offer waits for anybody or, for a while, for the worker that has its run in the cache. Both are
heaps in the order priority, ready time, arrival; a worker is given the smaller of the two heads, so
that neither a stream of its own tasks nor one of everybody's can starve the other.

Memory is bounded: past TASKS_PER_QUEUE_MAX an offer is refused, and of a refused offer only its
shard is remembered. The shard has the row; it is told when there is room again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from perdure_engine.core.tasks import TaskKind
from perdure_engine.ports.matching import TaskOffer

TASKS_PER_QUEUE_MAX = 1_000  # some polls' worth; the rest stays in the database
REFILL_BELOW = TASKS_PER_QUEUE_MAX // 2
# Each shard may answer a refill with a full queue's worth: to call all 512 whenever a queue is half
# empty would offer hundreds of tasks for each one taken. An empty queue calls them all.
REFILL_SHARDS_AT_ONCE = 8

ANYBODY = 0.0


class Waiting(NamedTuple):
    """An offer in a heap; compared from the left, and `arrival` is unique."""

    priority: int
    ready_us: int
    arrival: int
    sticky_until: float  # ANYBODY: not reserved for a worker
    offer: TaskOffer


def offer_key(offer: TaskOffer) -> tuple[int, int]:
    """What makes two offers the same one. Task ids and query numbers are both positive."""
    return offer.shard_id, offer.task_id or -offer.query_no


class Backlog:
    def __init__(self, kind: TaskKind) -> None:
        self.kind = kind
        self.anybody: list[Waiting] = []
        self._sticky: dict[bytes, list[Waiting]] = {}
        self._keys: set[tuple[int, int]] = set()
        # (shard, queue_no), oldest refusal first; jobs and activities of a queue have each their number
        self._refused: dict[tuple[int, int], None] = {}
        self._arrivals = 0
        self.held: list[Waiting] = []  # jobs of a queue with a limit, until they are let go
        self.holds_jobs = False
        self.let_go = 0  # of them, and not taken yet

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[TaskOffer]:
        for heap in (self.anybody, self.held, *self._sticky.values()):
            for waiting in heap:
                yield waiting.offer

    @property
    def is_idle(self) -> bool:
        return not self._keys and not self._refused

    def add(self, offer: TaskOffer, sticky_until: float) -> bool:
        """Keep the offer, unless it is here already or there is no room. False: it was not kept."""
        key = offer_key(offer)
        if key in self._keys:
            return False
        if len(self._keys) >= TASKS_PER_QUEUE_MAX:
            self._refused.setdefault((offer.shard_id, offer.queue_no))
            return False
        self._keys.add(key)
        self._arrivals += 1
        waiting = Waiting(offer.priority, offer.ready_us, self._arrivals, sticky_until, offer)
        if self.holds_jobs and offer.kind is TaskKind.JOB:
            heappush(self.held, waiting)
        elif sticky_until == ANYBODY:
            heappush(self.anybody, waiting)
        else:
            heappush(self._sticky.setdefault(offer.sticky_worker_id, []), waiting)
        return True

    def take(self, worker_id: bytes, or_anybodys: bool) -> Waiting | None:
        """The next offer for this worker: its own or, if `or_anybodys`, the first of both."""
        own = self._sticky.get(worker_id)
        if own and not (or_anybodys and self.anybody and self.anybody[0] < own[0]):
            waiting = heappop(own)
            if not own:
                del self._sticky[worker_id]
        elif or_anybodys and self.anybody:
            waiting = heappop(self.anybody)
            if self.let_go and waiting.offer.kind is TaskKind.JOB:
                self.let_go -= 1
        else:
            return None
        self._keys.discard(offer_key(waiting.offer))
        return waiting

    def hold_jobs(self, hold: bool) -> None:
        """Whether jobs, those that wait here too, wait until they are let go."""
        self.holds_jobs = hold
        self.let_go = 0
        jobs = [one for one in self.anybody if one.offer.kind is TaskKind.JOB] + self.held
        others = [one for one in self.anybody if one.offer.kind is not TaskKind.JOB]
        self.anybody, self.held = (others, jobs) if hold else (others + jobs, [])
        heapify(self.anybody)
        heapify(self.held)

    def let_jobs_go(self, count: int) -> int:
        """The first of those that are held, at most `count`, are anybody's from now on. Returns how many."""
        count = min(count, len(self.held))
        for _ in range(count):
            heappush(self.anybody, heappop(self.held))
        self.let_go += count
        return count

    def workers_with_own(self, workers: Mapping[bytes, object]) -> list[bytes]:
        """Those of `workers` for whom offers are reserved. Walks the smaller of the two."""
        if len(workers) < len(self._sticky):
            return [worker_id for worker_id in workers if worker_id in self._sticky]
        return [worker_id for worker_id in self._sticky if worker_id in workers]

    def expire(self, now: float) -> float:
        """Free the offers whose worker has had its time; return the next such time, or ANYBODY."""
        earliest = ANYBODY
        for worker_id, heap in list(self._sticky.items()):
            kept: list[Waiting] = []
            for waiting in heap:
                if waiting.sticky_until <= now:
                    self._free(waiting)
                    continue
                kept.append(waiting)
                if earliest == ANYBODY or waiting.sticky_until < earliest:
                    earliest = waiting.sticky_until
            self._put_sticky(worker_id, kept)
        return earliest

    def free_worker(self, worker_id: bytes) -> bool:
        """Its offers are anybody's from now on. False: it had none."""
        heap = self._sticky.pop(worker_id, None)
        if heap is None:
            return False
        for waiting in heap:
            self._free(waiting)
        return True

    def withdraw(self, shard_id: int) -> None:
        self._refused = {key: None for key in self._refused if key[0] != shard_id}
        if not any(key[0] == shard_id for key in self._keys):
            return
        self._keys = {key for key in self._keys if key[0] != shard_id}
        self.anybody = [w for w in self.anybody if w.offer.shard_id != shard_id]
        self.held = [w for w in self.held if w.offer.shard_id != shard_id]
        self.let_go = min(self.let_go, len(self.anybody))
        heapify(self.anybody)
        heapify(self.held)
        for worker_id, heap in list(self._sticky.items()):
            self._put_sticky(worker_id, [w for w in heap if w.offer.shard_id != shard_id])

    def pop_refused(self) -> list[tuple[int, int]]:
        """(shard, queue_no) to be told that there is room: the longest refused first, each once."""
        if not self._refused or len(self._keys) >= REFILL_BELOW:
            return []
        refused = list(self._refused)
        if self._keys:
            refused = refused[:REFILL_SHARDS_AT_ONCE]
        for key in refused:
            del self._refused[key]
        return refused

    def _free(self, waiting: Waiting) -> None:
        heappush(self.anybody, waiting._replace(sticky_until=ANYBODY))

    def _put_sticky(self, worker_id: bytes, heap: list[Waiting]) -> None:
        if heap:
            heapify(heap)
            self._sticky[worker_id] = heap
        else:
            self._sticky.pop(worker_id, None)
