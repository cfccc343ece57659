"""The gauges and where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.unit.frontend.fakes import turn

from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.matching import QueueInfo, TaskOffer
from perdure_engine.ports.metrics import Metrics
from perdure_engine.server.metering import read_gauges


class CountedMatcher(Matcher):
    looks = 0

    def described(self) -> Iterator[tuple[str, TaskKind, QueueInfo]]:
        self.looks += 1
        return super().described()


class NoShards:
    def refill(self, *_: Any) -> None: ...

    def shards(self) -> list[Any]:
        return []

    def owned(self) -> list[int]:
        return []


def offer(number: int) -> TaskOffer:
    run_id = number.to_bytes(16)
    return TaskOffer(
        *(1, bytes(16), TaskKind.ACTIVITY, "orders", 7, number, run_id, 5, 3, b"", 1_000, 0, "")
    )


async def test_all_gauges_of_one_page_go_through_the_waiting_tasks_once() -> None:
    matcher = CountedMatcher()
    history: Any = NoShards()
    matcher.connect(history)
    metrics = Metrics()
    read_gauges(metrics, history, matcher, lambda: 3_001_000, lambda: 0)
    gauges = (
        metrics.backlog_count,
        metrics.backlog_age_seconds,
        metrics.pollers,
        metrics.no_poller_tasks,
    )
    for waiting in (1, 2):
        matcher.offer([offer(waiting)])
        count, age, pollers, unasked = [list(gauge.read()) for gauge in gauges]
        assert count == [(("orders", "activity"), waiting)]
        assert age == [(("orders", "activity"), 3.0)]
        assert pollers == [(("orders", "activity"), 0)]
        assert unasked == [((), waiting)]
        assert matcher.looks == waiting
        await turn()  # the next page comes in another
    matcher.stop()
