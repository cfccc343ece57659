"""Where the engine's figures come from that no room knows alone: gauges, and the database's times."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib.metadata import version

from perdure_engine.core.tasks import ROOM_OF, TaskKind
from perdure_engine.history.service import HistoryService
from perdure_engine.matching.matcher import Matcher
from perdure_engine.matching.queue import KIND_NAMES
from perdure_engine.ports.history import NO_FACTS, QueueFacts, QueueName
from perdure_engine.ports.metrics import OTHER, SERIES_MAX, Metrics, Reading
from perdure_engine.ports.store import Batch, Fence, FenceState, JobRemoval, Removal, Sweep
from perdure_engine.store.sql.store import SqlStore, SqlStoreConfig

US = 1_000_000


class MeasuredStore(SqlStore):
    """The SQL store, with the time that its writes take.

    Each renewal of the node's lease is a sample of database time too: commits bring samples, but an
    idle node has none, and its clock may run faster than the database's until its next timer.
    """

    sample: Callable[[int], None]

    def __init__(self, config: SqlStoreConfig, metrics: Metrics) -> None:
        super().__init__(config)
        self._metrics = metrics

    async def renew_node(
        self, node_id: bytes, address: str, region: str, roles: str, incarnation: int, lease_ms: int
    ) -> int:
        began_s = time.perf_counter()
        now_us = await super().renew_node(node_id, address, region, roles, incarnation, lease_ms)
        self._metrics.lease_renew_seconds.observe(time.perf_counter() - began_s)
        self.sample(now_us)
        return now_us

    async def commit(self, batch: Batch) -> int:
        began_s = time.perf_counter()
        try:
            return await super().commit(batch)
        finally:
            self._took("commit", began_s)

    async def sweep(self, sweep: Sweep) -> int:
        began_s = time.perf_counter()
        try:
            return await super().sweep(sweep)
        finally:
            self._took("sweep", began_s)

    async def remove_runs(self, removal: Removal) -> int:
        began_s = time.perf_counter()
        try:
            return await super().remove_runs(removal)
        finally:
            self._took("remove_runs", began_s)

    async def remove_jobs(self, removal: JobRemoval) -> int:
        began_s = time.perf_counter()
        try:
            return await super().remove_jobs(removal)
        finally:
            self._took("remove_jobs", began_s)

    async def bump_fences(self, fences: list[Fence], new_owner_id: bytes) -> list[FenceState]:
        began_s = time.perf_counter()
        try:
            return await super().bump_fences(fences, new_owner_id)
        finally:
            self._took("bump_fences", began_s)

    def _took(self, op: str, began_s: float) -> None:
        self._metrics.db_txn_seconds.observe(time.perf_counter() - began_s, op)


def read_gauges(
    metrics: Metrics,
    history: HistoryService,
    matcher: Matcher,
    db_now_us: Callable[[], int],
    archive_lag_us: Callable[[], int],
) -> None:
    """Names the sources of all gauges. They are read when somebody looks, on the event loop."""
    looked_at = _Queues(history, matcher)

    def of_queues(measure: Callable[[QueueFacts], float]) -> Callable[[], Reading]:
        return lambda: by_queue(
            (name.queue, name.kind, measure(facts)) for name, facts, _ in looked_at()
        )

    def pollers() -> Reading:
        return by_queue((name.queue, name.kind, number) for name, _, number in looked_at())

    def ages() -> Reading:
        now_us = db_now_us()
        oldest: dict[tuple[str, ...], float] = {}
        for name, facts, _ in looked_at():
            if facts.oldest_ready_us:
                labels = (name.queue, KIND_NAMES[name.kind])
                age_s = max(0, now_us - facts.oldest_ready_us) / US
                oldest[labels] = max(age_s, oldest.get(labels, 0.0))
        return sorted(oldest.items(), key=lambda one: -one[1])[:SERIES_MAX]

    def unasked() -> float:
        return sum([facts.backlog_count for _, facts, number in looked_at() if not number])

    def timer_lag() -> Reading:
        lag_us = max((shard.timers.lag_us() for shard in history.shards()), default=0)
        return [(("timers",), lag_us / US)]

    metrics.inflight_polls.read_number(matcher.waiting_polls)
    metrics.backlog_count.read_from(of_queues(lambda facts: facts.backlog_count))
    metrics.queue_add_rate.read_from(of_queues(lambda facts: facts.add_rate))
    metrics.queue_dispatch_rate.read_from(of_queues(lambda facts: facts.dispatch_rate))
    metrics.backlog_age_seconds.read_from(ages)
    metrics.pollers.read_from(pollers)
    metrics.no_poller_tasks.read_number(unasked)
    metrics.shards_owned.read_number(lambda: len(history.owned()))
    metrics.runs_in_memory.read_number(lambda: sum(len(one.runs) for one in history.shards()))
    metrics.jobs_in_memory.read_number(
        lambda: sum(len(one.jobs.memory.jobs) for one in history.shards())
    )
    metrics.runs_quarantined.read_number(
        lambda: sum(len(one.quarantined) for one in history.shards())
    )
    metrics.inbox_intents.read_number(lambda: sum(len(one.inbox) for one in history.shards()))
    metrics.schedules.read_number(
        lambda: sum(len(one.schedules.records) for one in history.shards())
    )
    metrics.schedule_overdue.read_number(
        lambda: sum(one.schedules.watch.overdue for one in history.shards())
    )
    metrics.queue_lag_seconds.read_from(timer_lag)
    metrics.archive_lag_seconds.read_number(lambda: archive_lag_us() / US)
    metrics.clock_skew_seconds.read_number(lambda: time.time() - db_now_us() / US)
    metrics.tzdata_version_info.read_from(lambda: [((version("tzdata"),), 1.0)])


class _Queues:
    """The queues, with their pollers, looked at once for all gauges that are read in one turn of the loop: each look
    goes through all shards, and calls wait meanwhile."""

    def __init__(self, history: HistoryService, matcher: Matcher) -> None:
        self._history = history
        self._matcher = matcher
        self._found: list[tuple[QueueName, QueueFacts, int]] | None = None

    def __call__(self) -> list[tuple[QueueName, QueueFacts, int]]:
        if self._found is None:
            self._found = self._look()
            asyncio.get_running_loop().call_soon(self._forget)
        return self._found

    def _look(self) -> list[tuple[QueueName, QueueFacts, int]]:
        facts = self._history.all_queue_facts()
        pollers = self._matcher.pollers()
        names = dict.fromkeys([*facts, *pollers])
        return [(name, facts.get(name, NO_FACTS), self._polled(name, pollers)) for name in names]

    def _polled(self, name: QueueName, pollers: dict[QueueName, int]) -> int:
        """Who polls for activities gets jobs."""
        return pollers.get(name._replace(kind=ROOM_OF[name.kind]), 0)

    def _forget(self) -> None:
        self._found = None


def by_queue(numbers: Iterable[tuple[str, TaskKind, float]]) -> Reading:
    """Summed over namespaces, which may share names; past SERIES_MAX the smallest go together."""
    totals: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for name, kind, number in numbers:
        totals[name, KIND_NAMES[kind]] += number
    if len(totals) > SERIES_MAX:
        for labels in sorted(totals, key=lambda one: -totals[one])[SERIES_MAX:]:
            totals[OTHER, labels[1]] += totals.pop(labels)
    return list(totals.items())
