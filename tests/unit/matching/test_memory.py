"""Bounded memory: refused offers, refills, queues nobody uses."""

import asyncio

from tests.simulation.world import turns
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
from perdure_engine.matching.backlog import REFILL_SHARDS_AT_ONCE, TASKS_PER_QUEUE_MAX
from perdure_engine.matching.matcher import IDLE_QUEUES_MIN, Matcher
from perdure_engine.ports.matching import TaskOffer


def full_queue() -> list[TaskOffer]:
    return [offer(number, shard=99) for number in range(1, TASKS_PER_QUEUE_MAX + 1)]


def waiting_in(matcher: Matcher) -> int:
    return matcher.describe(NAMESPACE, QUEUE, TaskKind.WORKFLOW).backlog_count


def test_a_queue_holds_so_many_offers_and_no_more() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*full_queue())
        history.publish(offer(5_000), offer(5_001, sticky=b"w1"), offer(0, query=1))
        history.publish(offer(1, kind=TaskKind.ACTIVITY))
        assert waiting_in(matcher) == TASKS_PER_QUEUE_MAX
        assert matcher.describe(NAMESPACE, QUEUE, TaskKind.ACTIVITY).backlog_count == 1

    run(main)


def test_a_refused_shard_is_called_once_when_the_queue_falls_under_half() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*full_queue())
        history.publish(offer(5_000, shard=1), offer(5_001, shard=1), offer(5_002, shard=2))
        await matcher.poll(request(workflows=TASKS_PER_QUEUE_MAX // 2))
        assert history.refills == []
        await matcher.poll(request(workflows=1))
        assert history.refills == [(1, 10), (2, 10)]
        await matcher.poll(request(workflows=100))
        assert history.refills == [(1, 10), (2, 10)]

    run(main)


def test_many_refused_shards_are_called_a_few_at_a_time_the_longest_refused_first() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*full_queue())
        history.publish(*(offer(5_000, shard=shard) for shard in range(1, 41)))
        history.publish(*(offer(5_001, shard=shard) for shard in range(40, 0, -1)))
        await matcher.poll(request(workflows=TASKS_PER_QUEUE_MAX // 2 + 1))
        assert [shard for shard, _ in history.refills] == list(range(1, REFILL_SHARDS_AT_ONCE + 1))

        # The last task leaves: nothing will come to call the others later.
        await matcher.poll(request(workflows=TASKS_PER_QUEUE_MAX))
        assert [shard for shard, _ in history.refills] == list(range(1, 41))

    run(main)


def test_a_refill_answered_at_once_or_later_fills_the_queue_again() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*full_queue())
        history.publish(*(offer(number, shard=1) for number in range(5_000, 5_100)))
        history.refill = lambda shard_id, queue_no: matcher.offer(  # type: ignore[method-assign]
            [made for (shard, _), made in history.offers.items() if shard == shard_id]
        )
        found: list[int] = []
        while len(found) < TASKS_PER_QUEUE_MAX + 100:
            found += tasks_of(await matcher.poll(request(workflows=100, timeout_s=1)))
        assert sorted(found)[-100:] == list(range(5_000, 5_100))

    run(main)


def test_a_withdrawn_shard_is_not_called_but_makes_room_for_the_others() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*full_queue())
        history.publish(offer(5_000, shard=1), offer(5_000, shard=2))
        matcher.withdraw(1)
        matcher.withdraw(99)
        await turns()
        assert history.refills == [(2, 10)]

    run(main)


def test_idle_queues_are_dropped_and_those_in_use_are_not() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(offer(1, queue="kept"))
        waiting = asyncio.ensure_future(matcher.poll(request(queue="waiting", timeout_s=9_999)))
        for number in range(3 * IDLE_QUEUES_MIN):
            await matcher.poll(request(queue=f"idle {number}", timeout_s=0.5))
        assert len(matcher._queues) <= IDLE_QUEUES_MIN
        assert tasks_of(await matcher.poll(request(queue="kept"))) == [1]
        history.publish(offer(2, queue="waiting"))
        assert tasks_of(await waiting) == [2]

    run(main)


def test_workers_that_were_seen_once_are_not_remembered_for_ever() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        for number in range(500):
            await matcher.poll(request(b"w%d" % number, timeout_s=0.5))
        (queue,) = matcher._queues.values()
        assert len(queue._seen[TaskKind.WORKFLOW]) <= 3

    run(main)
