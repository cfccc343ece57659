"""What others ask of matching: pollers, backlog, the end."""

import asyncio

from tests.simulation.world import pass_time, turns
from tests.unit.matching.fakes import (
    NAMESPACE,
    QUEUE,
    FakeHistory,
    offer,
    request,
    run,
    tasks_of,
)

from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.matching import QueueInfo


def polled(matcher: Matcher, kind: TaskKind = TaskKind.WORKFLOW) -> bool:
    return matcher.has_pollers(NAMESPACE, QUEUE, kind)


def test_a_worker_counts_as_a_poller_while_it_waits_and_for_one_time_out_after() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        assert not polled(matcher)
        waiting = asyncio.ensure_future(matcher.poll(request(activities=0, timeout_s=10)))
        await pass_time(9)
        assert polled(matcher)
        assert not polled(matcher, TaskKind.ACTIVITY)
        await waiting
        await pass_time(9.5)
        assert polled(matcher)
        await pass_time(1)
        assert not polled(matcher)

    run(main)


def test_a_worker_busy_with_what_it_took_counts_longer() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(offer(1))
        await matcher.poll(request(timeout_s=1))
        await pass_time(30)
        assert polled(matcher)
        await pass_time(31)
        assert not polled(matcher)

    run(main)


def test_a_forgotten_worker_is_no_poller() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(offer(1))
        await matcher.poll(request())
        matcher.forget_worker(b"w1")
        assert not polled(matcher)

    run(main)


def test_a_queue_is_described_without_being_made() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        assert matcher.describe(NAMESPACE, QUEUE, TaskKind.WORKFLOW) == QueueInfo(0, 0, 0)
        assert matcher._queues == {}

    run(main)


def test_a_description_counts_tasks_pollers_and_the_oldest_but_no_queries() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        polls = [
            asyncio.ensure_future(matcher.poll(request(worker, workflows=0, timeout_s=5)))
            for worker in (b"w1", b"w1", b"w2")
        ]
        history.publish(
            offer(1, ready_us=30),
            offer(2, ready_us=20, sticky=b"w1"),
            offer(0, query=1, ready_us=10),
        )
        await turns()
        assert matcher.describe(NAMESPACE, QUEUE, TaskKind.WORKFLOW) == QueueInfo(2, 20, 0)
        assert matcher.describe(NAMESPACE, QUEUE, TaskKind.ACTIVITY) == QueueInfo(0, 0, 2)
        await asyncio.gather(*polls)

    run(main)


def test_stopping_ends_the_polls_that_wait_and_those_to_come() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        matcher.stop()
        matcher.stop()
        assert tasks_of(await waiting) == []
        history.publish(offer(1))
        assert tasks_of(await matcher.poll(request())) == []
        assert (loop.time(), history.starts) == (start, 0)

    run(main)
