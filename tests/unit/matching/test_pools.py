"""Poisoned tasks are met by the polls of the surgical pool alone, and those meet nothing else (invariant 38)."""

from __future__ import annotations

import asyncio

import msgspec
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

from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.matching import PollRequest, TaskOffer


def poisoned(task_id: int, version: str = "", kind: TaskKind = TaskKind.WORKFLOW) -> TaskOffer:
    return msgspec.structs.replace(offer(task_id, kind=kind), pool=SURGICAL, version=version)


def surgical(version: str = "", timeout_s: float = 1.0) -> PollRequest:
    asked = request(timeout_s=timeout_s)
    ref = msgspec.structs.replace(asked.worker, pool=SURGICAL, version=version)
    return msgspec.structs.replace(asked, worker=ref)


def test_pools_do_not_mix() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(offer(1), poisoned(2), poisoned(3, "shop.1"))

        assert tasks_of(await matcher.poll(surgical())) == [2]
        assert tasks_of(await matcher.poll(request(timeout_s=1.0))) == [1]
        assert tasks_of(await matcher.poll(request(timeout_s=1.0))) == []
        assert tasks_of(await matcher.poll(surgical())) == []
        assert tasks_of(await matcher.poll(surgical("shop.1"))) == [3]

    run(main)


def test_what_comes_with_a_completion_is_of_the_workers_pool() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        normal, of_pool = matcher.announce(request()), matcher.announce(surgical())
        history.publish(poisoned(1), offer(2))
        await turns()

        assert tasks_of(normal.take()) == [2]
        assert tasks_of(of_pool.take()) == [1]

    run(main)


def test_more_poisoned_tasks_than_a_queue_keeps_hold_nobody_up() -> None:
    """Invariant 40, as far as it is matching's: each pool has room of its own in memory."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(*(poisoned(number) for number in range(10, 3_000)))
        history.publish(offer(1))

        assert tasks_of(await matcher.poll(request(timeout_s=1.0))) == [1]

    run(main)


def test_a_queue_that_only_the_surgical_pool_polls_has_no_pollers() -> None:
    """Who asks wants to know whether its ordinary tasks are taken."""

    async def main(matcher: Matcher, history: FakeHistory) -> None:
        poll = asyncio.ensure_future(matcher.poll(surgical()))
        await turns()

        assert not matcher.has_pollers(NAMESPACE, QUEUE, TaskKind.WORKFLOW)
        assert matcher.pollers() == {}
        assert matcher.describe(NAMESPACE, QUEUE, TaskKind.WORKFLOW).pollers == 0
        await poll

    run(main)
