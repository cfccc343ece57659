"""Invariants 16 and 17: a poll that ends in any way but by returning has taken nothing."""

import asyncio

import pytest
from tests.simulation.world import pass_time, turns
from tests.unit.matching.fakes import FakeHistory, offer, request, run, tasks_of

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.matching import PollAnswer

NOT_SET_UP = "the scene is not set"


async def cancelled(task: asyncio.Task[PollAnswer]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_invariant_17_a_poll_cancelled_while_it_waits_takes_nothing() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        await cancelled(waiting)
        history.publish(offer(1))
        await turns()
        assert (history.starts, history.undone) == (0, [])
        assert tasks_of(await matcher.poll(request())) == [1]

    run(main)


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("seed", range(6))
def test_invariant_17_a_cancel_at_any_step_of_the_handover_loses_nothing(
    steps: int, seed: int
) -> None:
    """From before the offer is paired until the answer is on its way to the coroutine."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        history.publish(offer(1), offer(2), offer(3, kind=TaskKind.ACTIVITY))
        await turns(steps)
        if waiting.cancel():
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert history.holder == {}
            assert sorted(tasks_of(await matcher.poll(request()))) == [1, 2, 3]
        assert len(history.holder) == 3

    run(main, seed)


def test_invariant_17_an_answer_already_given_is_taken_back_from_a_cancelled_poll() -> None:
    """The narrowest gap: the result is set, and the coroutine has not run yet."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        history.publish(offer(1))
        for _ in range(10):
            if not history.holder:
                await turns(1)
        assert not waiting.done(), NOT_SET_UP
        await cancelled(waiting)
        assert (history.undone, history.holder) == ([1], {})

    run(main)


def test_invariant_17_a_poll_cancelled_in_the_turn_of_the_pairing_is_passed_over() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        first = asyncio.ensure_future(matcher.poll(request(b"w1")))
        await turns()
        second = asyncio.ensure_future(matcher.poll(request(b"w2")))
        await turns()
        history.publish(offer(1))
        first.cancel()  # its future is cancelled; its coroutine may run before or after the pairing
        assert tasks_of(await second) == [1]
        assert first.cancelled()
        assert (history.starts, history.undone) == (1, [])

    for seed in range(8):
        run(main, seed)


def test_a_coroutine_that_is_thrown_away_takes_nothing() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        coroutine = matcher.poll(request())
        coroutine.send(None)
        history.publish(offer(1))
        await turns()
        assert history.holder, NOT_SET_UP
        coroutine.close()
        assert history.undone == [1]

    run(main)


def test_invariant_17_a_poll_that_times_out_takes_nothing() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        assert tasks_of(await matcher.poll(request(timeout_s=2.5))) == []
        assert loop.time() - start == pytest.approx(2.5)
        history.publish(offer(1))
        await turns()
        assert history.starts == 0

    run(main)


@pytest.mark.parametrize("seed", range(8))
def test_a_task_that_is_offered_in_the_instant_of_the_time_out_is_not_lost(seed: int) -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(2.0, history.publish, offer(1))
        found = tasks_of(await matcher.poll(request(timeout_s=2.0)))
        found += tasks_of(await matcher.poll(request(timeout_s=1.0)))
        assert found == [1]

    run(main, seed)


# ---- starts that take their time


def test_what_is_ready_is_answered_without_waiting_for_what_is_not() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        start = asyncio.get_running_loop().time()
        history.slow = {2}
        history.publish(offer(1), offer(2), offer(3))
        assert tasks_of(await matcher.poll(request())) == [1, 3]
        assert asyncio.get_running_loop().time() == start

    run(main)


def test_a_late_start_goes_to_its_poll_while_that_waits_and_late_ones_travel_together() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.slow = {1, 2}
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        history.publish(offer(1), offer(2))
        await turns()
        history.finish(2)
        history.finish(1)
        assert sorted(tasks_of(await waiting)) == [1, 2]

    run(main)


def test_a_late_start_goes_to_another_poll_of_the_same_worker_only() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.slow = {2}
        history.publish(offer(1), offer(2))
        assert tasks_of(await matcher.poll(request(b"w1"))) == [1]
        stranger = asyncio.ensure_future(matcher.poll(request(b"w2", timeout_s=3)))
        await turns()
        again = asyncio.ensure_future(matcher.poll(request(b"w1")))
        await turns()
        history.finish(2)
        assert tasks_of(await again) == [2]
        assert history.undone == []
        assert tasks_of(await stranger) == []

    run(main)


def test_invariant_17_a_late_start_that_finds_no_poll_is_undone() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.slow = {2}
        history.publish(offer(1), offer(2))
        assert tasks_of(await matcher.poll(request(b"w1"))) == [1]
        stranger = asyncio.ensure_future(matcher.poll(request(b"w2")))
        await turns()
        history.finish(2)
        assert tasks_of(await stranger) == [2]  # offered again, and started anew for this worker
        assert history.undone == [2]
        assert history.holder[1, 2][0] == b"w2"

    run(main)


@pytest.mark.parametrize("how", ["cancelled", "timed out", "forgotten"])
def test_invariant_17_a_late_start_of_a_poll_that_ended_is_undone(how: str) -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.slow = {1}
        waiting = asyncio.ensure_future(matcher.poll(request(timeout_s=2)))
        await turns()
        history.publish(offer(1))
        await turns()
        if how == "cancelled":
            await cancelled(waiting)
        elif how == "timed out":
            assert tasks_of(await waiting) == []
        else:
            matcher.forget_worker(b"w1")
            assert tasks_of(await waiting) == []
        history.finish(1)
        await turns()
        assert (history.undone, history.holder) == ([1], {})

    run(main)


@pytest.mark.parametrize("steps", range(3))
def test_invariant_17_late_starts_gathered_but_not_answered_are_undone_with_their_poll(
    steps: int,
) -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.slow = {1}
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        history.publish(offer(1))
        await turns()
        history.finish(1)
        await turns(steps)
        if waiting.cancel():
            await turns()
            assert (history.undone, history.holder) == ([1], {})

    for seed in range(8):
        run(main, seed)


def test_starts_under_way_count_as_taken_and_give_the_room_back_when_they_fail() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.slow = {1, 2, 3}
        waiting = asyncio.ensure_future(matcher.poll(request(workflows=3)))
        await turns()
        history.publish(*(offer(number) for number in (1, 2, 3)))
        await turns()
        history.publish(offer(4))
        await turns()
        assert sorted(history.pending) == [1, 2, 3]
        assert (1, 4) not in history.holder

        history.ready.discard((1, 1))
        history.finish(1)  # stale after all
        assert tasks_of(await waiting) == [4]

    run(main)


def test_a_start_that_fails_drops_the_offer_and_frees_the_room() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.slow = {1}
        waiting = asyncio.ensure_future(matcher.poll(request(workflows=1)))
        await turns()
        history.publish(offer(1))
        await turns()
        history.publish(offer(2))
        await turns()
        assert not waiting.done(), NOT_SET_UP
        history.fail(1, Rejected(Code.UNAVAILABLE, "SHARD_MOVED", "moved"))
        assert tasks_of(await waiting) == [2]

    run(main)


# ---- bug case 3


@pytest.mark.parametrize("seed", range(3))
def test_bug_case_3_polls_cancelled_and_reopened_again_and_again_lose_nothing(seed: int) -> None:
    """100 activities; the client cancels and reopens its polls every 50 ms for 10 s."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        loop = asyncio.get_running_loop()
        ran: list[int] = []

        async def work() -> None:
            while True:
                answer = await matcher.poll(request(workflows=0, activities=5))
                ran.extend(tasks_of(answer))

        def publish_some(first: int) -> None:
            history.publish(*(offer(n, kind=TaskKind.ACTIVITY) for n in range(first, first + 4)))

        for wave in range(
            25
        ):  # in the very instants in which polls are cancelled, and between them
            loop.call_later(0.05 * wave * 7, publish_some, 1 + wave * 4)
        workers: list[asyncio.Future[None]] = []
        for _ in range(200):
            workers = [asyncio.ensure_future(work()) for _ in range(4)]
            await pass_time(0.05)
            for worker in workers:
                worker.cancel()
        last = [asyncio.ensure_future(work()) for _ in range(4)]
        await pass_time(2.0)
        for worker in last:
            worker.cancel()
        assert sorted(ran) == list(range(1, 101))

    run(main, seed)
