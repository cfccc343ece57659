"""Who gets which task: order, batches, shares, doubled and stale offers."""

import asyncio

import pytest
from tests.simulation.loop import Interrupted
from tests.simulation.world import turns
from tests.unit.matching.fakes import FakeHistory, offer, request, run, tasks_of

from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.matcher import Matcher


def test_an_offer_meets_the_poll_that_waits_and_the_poll_the_offer_that_waits() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        history.publish(offer(1))
        assert tasks_of(await waiting) == [1]

        history.publish(offer(2))
        await turns()
        assert tasks_of(await matcher.poll(request())) == [2]

    run(main)


@pytest.mark.parametrize("seed", range(5))
def test_what_one_commit_publishes_goes_out_in_one_answer(seed: int) -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        waiting = asyncio.ensure_future(matcher.poll(request()))
        await turns()
        for number in range(1, 65):
            history.publish(offer(number))
        assert len(tasks_of(await waiting)) == 64

    run(main, seed)


def test_one_answer_carries_both_kinds_and_no_more_of_each_than_was_asked_for() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*(offer(n) for n in range(1, 6)))
        history.publish(*(offer(n, kind=TaskKind.ACTIVITY) for n in range(11, 16)))
        answer = await matcher.poll(request(workflows=2, activities=3))
        assert [len(answer.workflow_tasks), len(answer.activity_tasks)] == [2, 3]

        answer = await matcher.poll(request(workflows=0, activities=100))
        assert tasks_of(answer) == [14, 15]

    run(main)


def test_queues_and_namespaces_do_not_mix() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(offer(1, queue="other"))
        assert tasks_of(await matcher.poll(request(timeout_s=1))) == []
        assert tasks_of(await matcher.poll(request(queue="other"))) == [1]

    run(main)


def test_priority_comes_first_then_ready_time_then_arrival() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(
            offer(1, priority=3, ready_us=20),
            offer(2, priority=3, ready_us=10),
            offer(3, priority=1, ready_us=30),
            offer(4, priority=3, ready_us=10),
            offer(5, priority=5, ready_us=0),
        )
        assert tasks_of(await matcher.poll(request())) == [3, 2, 4, 1, 5]

    run(main)


def test_a_lone_task_goes_to_the_worker_that_has_waited_longest() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        polls = {}
        for worker in (b"w1", b"w2", b"w3"):
            polls[worker] = asyncio.ensure_future(matcher.poll(request(worker)))
            await turns()
        for number, worker in enumerate((b"w1", b"w2", b"w3"), start=1):
            history.publish(offer(number))
            await turns()
            assert tasks_of(await polls[worker]) == [number]

    run(main)


@pytest.mark.parametrize(
    ("tasks", "workers", "largest"), [(64, 2, 32), (10, 3, 4), (3, 5, 1), (7, 1, 7), (100, 7, 15)]
)
def test_several_workers_share_evenly(tasks: int, workers: int, largest: int) -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        polls = [
            asyncio.ensure_future(matcher.poll(request(b"w%d" % n, timeout_s=1)))
            for n in range(workers)
        ]
        await turns()
        history.publish(*(offer(number) for number in range(1, tasks + 1)))
        counts = [len(tasks_of(answer)) for answer in await asyncio.gather(*polls)]
        assert sum(counts) == tasks
        assert max(counts) == largest

    run(main)


def test_a_worker_with_many_polls_gets_no_larger_share() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        many = [
            asyncio.ensure_future(matcher.poll(request(b"w1", workflows=5, timeout_s=1)))
            for _ in range(10)
        ]
        one = asyncio.ensure_future(matcher.poll(request(b"w2", timeout_s=1)))
        await turns()
        history.publish(*(offer(number) for number in range(1, 21)))
        assert len(tasks_of(await one)) == 10
        assert sum(len(tasks_of(answer)) for answer in await asyncio.gather(*many)) == 10

    run(main)


def test_what_a_full_worker_cannot_take_of_its_share_goes_to_the_others() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        small = asyncio.ensure_future(matcher.poll(request(b"w1", workflows=2)))
        large = asyncio.ensure_future(matcher.poll(request(b"w2")))
        await turns()
        history.publish(*(offer(number) for number in range(1, 65)))
        assert len(tasks_of(await small)) == 2
        assert len(tasks_of(await large)) == 62

    run(main)


def test_a_doubled_offer_is_handed_out_once() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(offer(1), offer(1), offer(1, shard=2))
        history.publish(offer(1))
        history.publish(offer(0, query=7), offer(0, query=7), offer(0, query=8))
        assert (
            matcher.describe(offer(1).namespace_id, "orders", TaskKind.WORKFLOW).backlog_count == 2
        )
        assert sorted(tasks_of(await matcher.poll(request()))) == [-8, -7, 1, 1]
        assert history.starts == 4

    run(main)


def test_an_offer_taken_and_put_back_may_be_offered_again() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(offer(1))
        answer = await matcher.poll(request())
        history.undo_start(answer.workflow_tasks[0])
        assert tasks_of(await matcher.poll(request())) == [1]

    run(main)


def test_a_stale_offer_costs_nobody_a_place() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*(offer(number) for number in range(1, 5)))
        history.ready -= {(1, 1), (1, 3)}
        assert tasks_of(await matcher.poll(request(workflows=2))) == [2, 4]

    run(main)


def test_an_error_in_one_start_does_not_take_the_other_tasks_along() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        errors: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(context["exception"])
        )
        history.broken = {2}
        history.publish(offer(1), offer(2), offer(3))
        assert tasks_of(await matcher.poll(request())) == [1, 3]
        assert [str(error) for error in errors] == ["task 2 is broken"]

    run(main)


def test_an_error_in_a_start_is_reported_to_the_loop() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.broken = {1}
        history.publish(offer(1))
        await matcher.poll(request(timeout_s=1))

    with pytest.raises(Interrupted, match="task 1 is broken"):
        run(main)


def test_an_answer_stays_below_the_size_of_a_message() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.input_bytes = 400_000
        history.publish(*(offer(number, kind=TaskKind.ACTIVITY) for number in range(1, 11)))
        counts = [len(tasks_of(await matcher.poll(request()))) for _ in range(3)]
        assert counts == [4, 4, 2]

    run(main)


def test_a_withdrawn_shard_leaves_nothing_behind_and_the_others_alone() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(
            offer(1), offer(2, shard=2), offer(3, sticky=b"w1"), offer(4, queue="other")
        )
        matcher.withdraw(1)
        assert tasks_of(await matcher.poll(request())) == [2]
        assert tasks_of(await matcher.poll(request(queue="other", timeout_s=1))) == []
        assert tasks_of(await matcher.poll(request(timeout_s=5))) == []

        history.publish(offer(1))
        assert tasks_of(await matcher.poll(request())) == [1]

    run(main)
