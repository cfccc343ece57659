"""Takers: what a worker's completions lead to waits for their answer, and never in vain."""

import asyncio

from tests.simulation.world import pass_time, turns
from tests.unit.matching.fakes import FakeHistory, offer, request, run, tasks_of

from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.matcher import Matcher
from perdure_engine.matching.queue import TAKER_WAIT_S
from perdure_engine.ports.matching import PollAnswer


def test_a_taker_gets_what_is_there_and_waits_for_nothing() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        taker = matcher.announce(request())
        history.publish(offer(1), offer(2, kind=TaskKind.ACTIVITY))
        assert tasks_of(taker.take()) == [1, 2]
        assert tasks_of(matcher.announce(request()).take()) == []
        assert history.undone == []

    run(main)


def test_a_taker_gets_no_more_of_each_kind_than_it_asked_for() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*(offer(n) for n in range(1, 6)))
        history.publish(*(offer(n, kind=TaskKind.ACTIVITY) for n in range(6, 9)))
        answer = matcher.announce(request(workflows=2, activities=0)).take()
        assert tasks_of(answer) == [1, 2]

    run(main)


def test_the_polls_of_its_worker_leave_to_a_taker_what_it_has_room_for() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        taker = matcher.announce(request(workflows=2))
        history.publish(offer(1), offer(2))
        await turns()
        assert not waiting.done()
        assert tasks_of(taker.take()) == [1, 2]
        history.publish(offer(3))
        assert tasks_of(await waiting) == [3]

    run(main)


def test_what_is_more_than_the_takers_have_room_for_goes_to_the_polls_at_once() -> None:
    """A fan-out must not wait for completions that bring back one task each."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        start = asyncio.get_running_loop().time()
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        taker = matcher.announce(request(activities=2))
        history.publish(*(offer(n, kind=TaskKind.ACTIVITY) for n in range(1, 4)))
        assert tasks_of(await waiting) == [1, 2, 3]
        assert asyncio.get_running_loop().time() == start
        assert tasks_of(taker.take()) == []

    run(main)


def test_the_polls_wait_for_a_slow_taker_no_longer_than_one_commit() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        taker = matcher.announce(request())
        start = loop.time()
        history.publish(offer(1))
        assert tasks_of(await waiting) == [1]
        assert 0 < loop.time() - start <= TAKER_WAIT_S * 1.01
        assert tasks_of(taker.take()) == []

    run(main)


def test_what_a_taker_leaves_goes_to_the_polls() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        for left in (True, False):
            waiting = asyncio.ensure_future(matcher.poll(request()))
            await turns()
            first, second = matcher.announce(request()), matcher.announce(request(workflows=0))
            start = loop.time()
            history.publish(offer(1 + left))
            await turns()
            assert not waiting.done()
            if left:
                first.leave()
                second.leave()
            else:
                second.take()
                first.leave()
            assert tasks_of(await waiting) == [1 + left]
            assert loop.time() == start

    run(main)


def test_other_workers_get_their_share_though_one_has_a_taker() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        own = asyncio.ensure_future(matcher.poll(request(b"w1")))
        other = asyncio.ensure_future(matcher.poll(request(b"w2")))
        await turns()
        taker = matcher.announce(request(b"w1"))
        history.publish(*(offer(n) for n in range(1, 5)))
        assert len(tasks_of(await other)) == 2
        again = asyncio.ensure_future(matcher.poll(request(b"w2")))
        await turns()
        assert len(tasks_of(taker.take())) >= 1
        await pass_time(1)
        taken = [*history.holder.values()]
        assert len(taken) == 4
        for call in (own, again):
            call.cancel()

    run(main)


def test_a_taker_of_a_forgotten_worker_takes_nothing() -> None:
    """Invariant 17: a call that ends after its worker was found dead must not be handed more."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        taker = matcher.announce(request())
        matcher.forget_worker(b"w1")
        history.publish(offer(1, sticky=b"w1"))
        assert taker.take() == PollAnswer([], [])
        assert history.holder == {}
        taker.leave()

    run(main)


def test_a_stopped_matcher_hands_nothing_out() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        before = matcher.announce(request())
        history.publish(offer(1))
        matcher.stop()
        assert before.take() == PollAnswer([], [])
        assert matcher.announce(request()).take() == PollAnswer([], [])
        assert history.holder == {}

    run(main)


def test_invariant_17_a_start_that_outlasts_its_taker_goes_to_a_poll_or_is_undone() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.slow = {1, 2}
        history.publish(offer(1), offer(2))
        taker = matcher.announce(request())
        assert tasks_of(taker.take()) == []
        history.finish(1)
        await turns()
        assert history.undone == [1]
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        history.finish(2)
        taken = tasks_of(await waiting)
        if len(taken) == 1:  # the one that was undone is offered again
            taken += tasks_of(await matcher.poll(request()))
        assert sorted(taken) == [1, 2]

    run(main)
