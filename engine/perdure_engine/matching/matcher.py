"""Matching's door: finds the queue, and pairs every queue that changed once per loop turn.

The tasks of one version of workers are a queue of their own, met by that version's polls alone; so are those of a
version that only a pool of its workers may have.
"""

from __future__ import annotations

import asyncio

from perdure_engine.core.tasks import WORKER_KINDS, TaskKind
from perdure_engine.matching.queue import TaskQueue, TaskSource
from perdure_engine.ports.history import QueueName
from perdure_engine.ports.limits import NoRates, QueueRates
from perdure_engine.ports.matching import PollAnswer, PollRequest, QueueInfo, Taker, TaskOffer
from perdure_engine.ports.metrics import Metrics

IDLE_QUEUES_MIN = 1_000  # queue names come from callers: past this many, idle queues are dropped
FORGOTTEN_WORKERS_MAX = 1_000  # offers made before the shard heard of a death trail it by seconds


class Matcher:
    """Implements ports.matching.Matching. Lives on one event loop; made while it runs.

    History and matching know each other: the composition root makes the matcher, hands it to
    history, then calls `connect`. Nothing may be offered or polled before that.
    """

    def __init__(self, metrics: Metrics | None = None, rates: QueueRates | None = None) -> None:
        self._metrics = metrics or Metrics()
        self._rates = rates or NoRates()
        self._rates.on_change(self._limit_jobs)
        self._loop = asyncio.get_running_loop()
        self._source: TaskSource | None = None
        self._queues: dict[tuple[bytes, str, str, str], TaskQueue] = {}
        self._queues_max = IDLE_QUEUES_MIN
        self._awake: dict[TaskQueue, None] = {}
        self._forgotten: dict[bytes, None] = {}
        self._stopped = False

    def connect(self, source: TaskSource) -> None:
        """Name the history that starts tasks."""
        self._source = source

    def stop(self) -> None:
        """End all polls, and from now on each new one at once; stopping twice is fine."""
        self._stopped = True
        for queue in self._queues.values():
            queue.end_polls()

    def offer(self, offers: list[TaskOffer]) -> None:
        for offer in offers:
            worker_id = offer.sticky_worker_id
            sticky = bool(worker_id) and worker_id not in self._forgotten
            queue = self._queue(offer.namespace_id, offer.queue, offer.version, offer.pool)
            queue.add(offer, sticky)

    def withdraw(self, shard_id: int) -> None:
        for queue in self._queues.values():
            queue.withdraw(shard_id)

    async def poll(self, request: PollRequest) -> PollAnswer:
        """Wait for tasks; empty after `timeout_s`.

        Cancelled, it has taken nothing. Await it directly: a task around it that is cancelled after
        it has returned would lose the answer.
        """
        if self._stopped:
            return PollAnswer([], [])
        self._forgotten.pop(request.worker.worker_id, None)  # it lives
        queue = self._queue_of(request)
        poll = queue.open(request)
        try:
            return await poll.answered
        except BaseException:  # also GeneratorExit: a coroutine that is thrown away took nothing
            queue.abandon(poll)
            raise

    def announce(self, request: PollRequest) -> Taker:
        self._forgotten.pop(request.worker.worker_id, None)  # it lives
        queue = self._queue_of(request)
        taker = queue.announce(request)
        if self._stopped:
            taker.leave()
        return taker

    def has_pollers(
        self, namespace_id: bytes, queue: str, kind: TaskKind, version: str = "", pool: str = ""
    ) -> bool:
        found = self._queues.get((namespace_id, queue, version, pool))
        return found is not None and found.has_pollers(kind)

    def forget_worker(self, worker_id: bytes) -> None:
        self._forgotten[worker_id] = None
        if len(self._forgotten) > FORGOTTEN_WORKERS_MAX:
            del self._forgotten[next(iter(self._forgotten))]
        for queue in self._queues.values():
            queue.forget_worker(worker_id)

    def describe(
        self, namespace_id: bytes, queue: str, kind: TaskKind, version: str | None = None
    ) -> QueueInfo:
        infos = [
            found.describe(kind)
            for (of_namespace, name, of_version, pool), found in self._queues.items()
            if name == queue
            and of_namespace == namespace_id
            and not pool
            and (version is None or version == of_version)
        ]
        if len(infos) == 1:
            return infos[0]
        return QueueInfo(
            backlog_count=sum(info.backlog_count for info in infos),
            oldest_ready_us=min((i.oldest_ready_us for i in infos if i.oldest_ready_us), default=0),
            pollers=sum(info.pollers for info in infos),
        )

    def waiting_polls(self) -> int:
        return sum(queue.waiting_polls for queue in self._queues.values())

    def pollers(self) -> dict[QueueName, int]:
        """How many workers of the normal pool poll, by queue and kind; those of its versions together."""
        found: dict[QueueName, int] = {}
        for (namespace_id, name, _, pool), queue in self._queues.items():
            if pool:
                continue
            for kind in WORKER_KINDS:
                number = queue.pollers(kind)
                if number:
                    key = QueueName(namespace_id, name, kind)
                    found[key] = found.get(key, 0) + number
        return found

    def _queue_of(self, request: PollRequest) -> TaskQueue:
        worker = request.worker
        return self._queue(request.namespace_id, request.queue, worker.version, worker.pool)

    def _queue(self, namespace_id: bytes, name: str, version: str, pool: str) -> TaskQueue:
        found = self._queues.get((namespace_id, name, version, pool))
        if found is not None:
            return found
        assert self._source is not None, "connect() comes first"
        if len(self._queues) >= self._queues_max:
            self._drop_idle_queues()
        queue = TaskQueue(self._source, self._loop, self._wake, self._metrics)
        self._queues[namespace_id, name, version, pool] = queue
        rate = self._rates.rate_of(namespace_id, name)
        if rate:
            queue.limit_jobs(rate)
        return queue

    def _limit_jobs(self) -> None:
        """The limit of a queue is that of its jobs of all versions, of which one is current."""
        for (namespace_id, name, _, _), queue in self._queues.items():
            queue.limit_jobs(self._rates.rate_of(namespace_id, name))

    def _drop_idle_queues(self) -> None:
        """The next drop comes when as many again have been made: amortised, it costs nothing."""
        self._queues = {key: queue for key, queue in self._queues.items() if not queue.is_idle()}
        self._queues_max = max(IDLE_QUEUES_MIN, 2 * len(self._queues))

    def _wake(self, queue: TaskQueue) -> None:
        """Pair once per loop turn: what one commit publishes must travel in one answer."""
        if not self._awake:
            self._loop.call_soon(self._pair)
        self._awake[queue] = None

    def _pair(self) -> None:
        awake, self._awake = self._awake, {}
        for queue in awake:
            queue.pair()
