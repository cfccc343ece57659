"""Jobs take the polls' room for activities, and stand in one line with them; a queue's limit paces jobs alone."""

import asyncio
from collections.abc import Callable

from tests.simulation.loop import SimulatedLoop, simulate
from tests.simulation.world import pass_time, turns
from tests.unit.matching.fakes import (
    NAMESPACE,
    QUEUE,
    FakeHistory,
    key_of,
    offer,
    request,
    run,
    tasks_of,
)

from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.backlog import TASKS_PER_QUEUE_MAX
from perdure_engine.matching.limits import LEAST_PER_S, QueueLimits
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.jobs import QueueLimitRow
from perdure_engine.ports.matching import TaskOffer
from perdure_engine.ports.store import StoreUnavailable
from perdure_engine.server.following import Following
from perdure_engine.store.memory import MemoryStore

JOB, ACTIVITY = TaskKind.JOB, TaskKind.ACTIVITY


def job(task_id: int, *, priority: int = 3, ready_us: int = 0, shard: int = 1) -> TaskOffer:
    return offer(task_id, kind=JOB, priority=priority, ready_us=ready_us, shard=shard)


def test_jobs_and_activities_stand_in_one_line() -> None:
    """By priority, then age; each in its part of the answer."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(
            job(1, ready_us=30),
            offer(2, kind=ACTIVITY, ready_us=20),
            job(3, ready_us=10),
            job(4, priority=1, ready_us=90),
            offer(5, kind=ACTIVITY, priority=2, ready_us=80),
        )
        taken = []
        for _ in range(5):
            answer = await matcher.poll(request(workflows=0, activities=1))
            taken += tasks_of(answer)
        assert taken == [4, 5, 3, 2, 1]

    run(main)


def test_they_take_the_room_of_activities_and_none_of_workflow_tasks() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*(job(n) for n in range(1, 6)), offer(6, kind=ACTIVITY, ready_us=1))
        assert tasks_of(await matcher.poll(request(activities=0, timeout_s=1))) == []
        answer = await matcher.poll(request(activities=4))
        assert [key_of(one)[1] for one in answer.job_tasks] == [1, 2, 3, 4]
        answer = await matcher.poll(request(activities=4))
        assert (len(answer.job_tasks), len(answer.activity_tasks)) == (1, 1)
        assert matcher.has_pollers(NAMESPACE, QUEUE, JOB)

    run(main)


def test_an_abandoned_poll_gives_its_jobs_back() -> None:
    """Invariant 17."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.slow.add(2)
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        history.publish(job(2))
        await turns()
        waiting.cancel()
        await turns()
        history.finish(2)
        await turns()
        assert history.undone == [2]
        assert tasks_of(await matcher.poll(request(b"w2"))) == [2]

    run(main)


def test_a_completion_takes_jobs_along() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        taker = matcher.announce(request(activities=3))
        history.publish(*(job(n) for n in range(1, 6)))
        await turns()
        assert tasks_of(taker.take()) == [1, 2, 3]

    run(main)


def test_a_full_queue_asks_for_both_kinds_again() -> None:
    """They have each their number, and so each their pages."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        most = TASKS_PER_QUEUE_MAX
        history.publish(*(job(n) for n in range(1, most + 2)))
        history.publish(offer(most + 2, kind=ACTIVITY))
        await matcher.poll(request(activities=most))
        assert history.refills == [(1, JOB * 10), (1, ACTIVITY * 10)]

    run(main)


# ---- limits


def limited(
    rate_per_s: float,
    main: Callable[[Matcher, FakeHistory, QueueLimits, MemoryStore], object],
    share: float = 1.0,
) -> None:
    async def within(loop: SimulatedLoop) -> None:
        store = MemoryStore(lambda: 0)
        await store.put_queue_limit(QueueLimitRow(NAMESPACE, QUEUE, rate_per_s, 0))
        limits = QueueLimits(store, lambda: share)
        following = Following("queue limits", limits.refresh)
        await following.start()
        matcher = Matcher(rates=limits)
        await main(matcher, FakeHistory(matcher), limits, store)  # type: ignore[misc]
        await following.stop()

    simulate(within, 0)


async def drain(matcher: Matcher, most: int, seconds: float) -> int:
    """How many tasks a worker gets in so much time."""
    loop = asyncio.get_running_loop()
    end, taken = loop.time() + seconds, 0
    while (left := end - loop.time()) > 0.001:
        taken += len(tasks_of(await matcher.poll(request(activities=most, timeout_s=left))))
    return taken


def test_no_more_jobs_of_a_queue_start_in_a_second_than_its_limit() -> None:
    async def main(
        matcher: Matcher, history: FakeHistory, limits: QueueLimits, store: MemoryStore
    ) -> None:
        history.publish(*(job(n) for n in range(1, 901)))
        for _ in range(3):
            assert 99 <= await drain(matcher, 100, 1.0) <= 111
        assert await drain(matcher, 1, 2.0) <= 221, "however few a worker takes at a time"

    limited(100.0, main)


def test_a_node_starts_its_share() -> None:
    async def main(
        matcher: Matcher, history: FakeHistory, limits: QueueLimits, store: MemoryStore
    ) -> None:
        history.publish(*(job(n) for n in range(1, 101)))
        assert 24 <= await drain(matcher, 100, 1.0) <= 28

    limited(100.0, main, share=0.25)


def test_a_node_without_shards_starts_next_to_nothing() -> None:
    async def main(
        matcher: Matcher, history: FakeHistory, limits: QueueLimits, store: MemoryStore
    ) -> None:
        assert limits.rate_of(NAMESPACE, QUEUE) == LEAST_PER_S
        assert limits.rate_of(NAMESPACE, "other") == 0.0

    limited(100.0, main, share=0.0)


def test_workers_that_come_late_find_no_pile() -> None:
    """What was not started in time is not made up for in one go."""

    async def main(
        matcher: Matcher, history: FakeHistory, limits: QueueLimits, store: MemoryStore
    ) -> None:
        history.publish(*(job(n) for n in range(1, 501)))
        await pass_time(60)
        for _ in range(5):
            await matcher.poll(request(activities=1, timeout_s=1))
            await pass_time(1)
        assert await drain(matcher, 100, 1.0) <= 125

    limited(100.0, main)


def test_activities_pass_jobs_that_are_held() -> None:
    async def main(
        matcher: Matcher, history: FakeHistory, limits: QueueLimits, store: MemoryStore
    ) -> None:
        history.publish(*(job(n) for n in range(1, 51)))
        history.publish(*(offer(n, kind=ACTIVITY, ready_us=9) for n in range(51, 101)))
        answer = await matcher.poll(request())
        assert (len(answer.job_tasks), len(answer.activity_tasks)) == (1, 50)

    limited(1.0, main)


def test_a_limit_that_is_changed_counts_within_two_seconds() -> None:
    """Also for what waits already. While the database does not answer, the old one holds."""

    async def main(
        matcher: Matcher, history: FakeHistory, limits: QueueLimits, store: MemoryStore
    ) -> None:
        history.publish(*(job(n) for n in range(1, 301)))
        assert await drain(matcher, 100, 1.0) <= 3
        await store.put_queue_limit(QueueLimitRow(NAMESPACE, QUEUE, 0.0, 1))
        store.faults.fail_next("list_queue_limits", StoreUnavailable("away"))
        assert await drain(matcher, 100, 0.9) <= 3
        assert await drain(matcher, 300, 2.0) >= 290
        await store.put_queue_limit(QueueLimitRow(NAMESPACE, QUEUE, 2.0, 2))
        await pass_time(2)
        history.publish(*(job(n) for n in range(301, 400)))
        assert await drain(matcher, 100, 1.0) <= 3

    limited(2.0, main)


def test_a_limit_of_another_queue_lets_nobody_start_sooner() -> None:
    async def main(
        matcher: Matcher, history: FakeHistory, limits: QueueLimits, store: MemoryStore
    ) -> None:
        history.publish(*(job(n) for n in range(1, 11)))
        assert await drain(matcher, 100, 0.2) == 1
        for seq in range(3):
            await store.put_queue_limit(QueueLimitRow(NAMESPACE, "other", 5.0 + seq, seq))
            await limits.refresh()
            assert await drain(matcher, 100, 0.2) == 0
        assert await drain(matcher, 100, 0.5) == 1

    limited(1.0, main)


def test_held_jobs_are_withdrawn_with_their_shard() -> None:
    async def main(
        matcher: Matcher, history: FakeHistory, limits: QueueLimits, store: MemoryStore
    ) -> None:
        history.publish(*(job(n) for n in range(1, 11)), *(job(n, shard=2) for n in range(11, 21)))
        matcher.withdraw(1)
        assert matcher.describe(NAMESPACE, QUEUE, JOB).backlog_count == 10
        answer = await matcher.poll(request())
        assert [key_of(one)[0] for one in answer.job_tasks] == [2]

    limited(1.0, main)
