"""The gauges and where they come from."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.frontend.fakes import turn

from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.history import QueueFacts, QueueName, WorkerRef
from perdure_engine.ports.matching import PollRequest
from perdure_engine.ports.metrics import OTHER, SERIES_MAX, Metrics
from perdure_engine.server.metering import by_queue, read_gauges

NAMESPACE_ID = bytes(16)
JOBS = QueueName(NAMESPACE_ID, "orders", TaskKind.JOB)
ACTIVITIES = JOBS._replace(kind=TaskKind.ACTIVITY)
IDLE = QueueName(NAMESPACE_ID, "idle", TaskKind.WORKFLOW)


class Queues:
    """History, as far as gauges ask it of queues."""

    def __init__(self) -> None:
        self.looks = 0
        self.facts: dict[QueueName, QueueFacts] = {}

    def all_queue_facts(self) -> dict[QueueName, QueueFacts]:
        self.looks += 1
        return self.facts

    def refill(self, *_: Any) -> None: ...

    def shards(self) -> list[Any]:
        return []

    def owned(self) -> list[int]:
        return []


def measured(history: Any, matcher: Matcher) -> Metrics:
    metrics = Metrics()
    read_gauges(metrics, history, matcher, lambda: 3_001_000, lambda: 2_500_000)
    return metrics


async def test_the_gauges_of_queues_come_from_one_look() -> None:
    history: Any = Queues()
    history.facts = {
        JOBS: QueueFacts(30_000, 1_000, 12.5, 10.0),
        JOBS._replace(namespace_id=b"n" * 16): QueueFacts(5, 2_001_000, 1.0, 0.5),
        IDLE: QueueFacts(7, 0, 0.0, 0.0),
    }
    matcher = Matcher()
    matcher.connect(history)
    metrics = measured(history, matcher)
    worker = WorkerRef(b"w" * 16, "w", "")
    request = PollRequest(NAMESPACE_ID, "orders", worker, 0, 10, 60.0)
    polling = asyncio.ensure_future(matcher.poll(request))
    await turn()

    jobs, activities, idle = ("orders", "job"), ("orders", "activity"), ("idle", "workflow")
    for look in (1, 2):
        assert dict(metrics.backlog_count.read()) == {jobs: 30_005, idle: 7, activities: 0}
        assert dict(metrics.backlog_age_seconds.read()) == {jobs: 3.0}
        assert dict(metrics.queue_add_rate.read())[jobs] == 13.5
        assert dict(metrics.queue_dispatch_rate.read())[jobs] == 10.5
        assert dict(metrics.pollers.read()) == {jobs: 1, activities: 1, idle: 0}
        assert dict(metrics.no_poller_tasks.read()) == {(): 12}
        assert dict(metrics.archive_lag_seconds.read()) == {(): 2.5}
        assert history.looks == look
        await turn()  # the next page comes in another
    matcher.stop()
    await polling


def test_a_page_has_so_many_queues_and_the_smallest_go_together() -> None:
    found = dict(by_queue((f"q{n}", TaskKind.JOB, float(n)) for n in range(SERIES_MAX + 3)))

    assert len(found) == SERIES_MAX + 1
    assert found[OTHER, "job"] == 0 + 1 + 2
    assert found["q3", "job"] == 3
