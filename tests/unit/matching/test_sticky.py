"""Sticky offers: the worker with the run in its cache first, anybody after a second."""

import asyncio

import pytest
from tests.simulation.world import pass_time, turns
from tests.unit.matching.fakes import FakeHistory, offer, request, run, tasks_of

from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.matching import TaskOffer


@pytest.mark.parametrize("made", [offer(1, sticky=b"w1"), offer(0, query=1, sticky=b"w1")])
def test_a_sticky_offer_waits_a_second_for_its_worker_and_then_goes_to_anybody(
    made: TaskOffer,
) -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        other = asyncio.ensure_future(matcher.poll(request(b"w2")))
        await turns()
        start = loop.time()
        history.publish(made)
        assert len(tasks_of(await other)) == 1
        assert loop.time() - start == pytest.approx(1.0)

    run(main)


@pytest.mark.parametrize("made", [offer(1, sticky=b"w1"), offer(0, query=1, sticky=b"w1")])
def test_its_worker_gets_it_at_once_though_others_have_waited_longer(made: TaskOffer) -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        start = asyncio.get_running_loop().time()
        other = asyncio.ensure_future(matcher.poll(request(b"w2", timeout_s=5)))
        await turns()
        own = asyncio.ensure_future(matcher.poll(request(b"w1")))
        await turns()
        history.publish(made)
        assert len(tasks_of(await own)) == 1
        assert asyncio.get_running_loop().time() == start
        assert tasks_of(await other) == []

    run(main)


def test_offers_expire_each_in_its_own_time() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        arrived: dict[int, float] = {}

        async def work() -> None:
            while len(arrived) < 3:
                for number in tasks_of(await matcher.poll(request(b"w2"))):
                    arrived[number] = loop.time() - start

        worker = asyncio.ensure_future(work())
        for number, at in ((1, 0.0), (2, 0.4), (3, 0.8)):
            await pass_time(start + at - loop.time())
            history.publish(offer(number, sticky=b"w%d" % (number + 10)))
        await worker
        assert arrived == {
            1: pytest.approx(1.0),
            2: pytest.approx(1.4),
            3: pytest.approx(1.8),
        }

    run(main)


def test_what_a_forgotten_worker_had_goes_to_anybody_at_once() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        other = asyncio.ensure_future(matcher.poll(request(b"w2")))
        await turns()
        history.publish(offer(1, sticky=b"w1"))
        await turns()
        assert not other.done()
        matcher.forget_worker(b"w1")
        assert tasks_of(await other) == [1]

        # An offer made before the shard heard of the death is not held back either ...
        history.publish(offer(2, sticky=b"w1"))
        assert tasks_of(await matcher.poll(request(b"w2"))) == [2]
        assert loop.time() == start

        # ... but a worker that polls again lives.
        waiting = asyncio.ensure_future(matcher.poll(request(b"w1", workflows=1)))
        await turns()
        history.publish(offer(3, sticky=b"w1"), offer(4, sticky=b"w1"))
        assert tasks_of(await waiting) == [3]
        assert tasks_of(await matcher.poll(request(b"w2", timeout_s=0.5))) == []

    run(main)


def test_the_polls_of_a_forgotten_worker_end_empty() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        gone = [asyncio.ensure_future(matcher.poll(request(b"w1"))) for _ in range(2)]
        stays = asyncio.ensure_future(matcher.poll(request(b"w2")))
        await turns()
        matcher.forget_worker(b"w1")
        assert [tasks_of(answer) for answer in await asyncio.gather(*gone)] == [[], []]
        assert loop.time() == start
        history.publish(offer(1))
        assert tasks_of(await stays) == [1]

    run(main)


def test_invariant_19_neither_own_tasks_nor_everybodys_starve_the_other() -> None:
    """A worker that is always full takes the older of the two heads."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(offer(100, ready_us=50))
        order = []
        for number in range(1, 11):
            # Its own stream never ends: each poll finds a fresh task of its own beside the old one.
            history.publish(offer(number, sticky=b"w1", ready_us=number * 10))
            history.publish(offer(number + 20, sticky=b"w1", ready_us=number * 10 + 1))
            order += tasks_of(await matcher.poll(request(b"w1", workflows=1)))
        assert 100 in order

        history.publish(offer(200, sticky=b"w1", ready_us=0))
        history.publish(*(offer(number, ready_us=1_000) for number in range(300, 310)))
        assert tasks_of(await matcher.poll(request(b"w1", workflows=1))) == [200]

    run(main)


def test_a_sticky_worker_does_not_get_a_second_share() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        own = asyncio.ensure_future(matcher.poll(request(b"w1", timeout_s=1)))
        other = asyncio.ensure_future(matcher.poll(request(b"w2", timeout_s=1)))
        await turns()
        history.publish(*(offer(number) for number in range(1, 11)))
        history.publish(*(offer(number, sticky=b"w1", ready_us=5) for number in range(11, 14)))
        mine, others = tasks_of(await own), tasks_of(await other)
        assert set(mine) >= {11, 12, 13}
        assert len([number for number in mine if number < 11]) == 5
        assert len(others) == 5

    run(main)
