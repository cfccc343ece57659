"""The tasks of a version of workers are met by that version's polls alone (T10)."""

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

from perdure_engine.core.tasks import TaskKind
from perdure_engine.matching.matcher import Matcher
from perdure_engine.ports.matching import PollRequest, TaskOffer


def of(version: str, task_id: int, sticky: bytes = b"") -> TaskOffer:
    return msgspec.structs.replace(offer(task_id, sticky=sticky), version=version)


def by(version: str, worker: bytes = b"w1", timeout_s: float = 1.0) -> PollRequest:
    asked = request(worker, timeout_s=timeout_s)
    ref = msgspec.structs.replace(asked.worker, version=version)
    return msgspec.structs.replace(asked, worker=ref)


def test_versions_do_not_mix() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(offer(1), of("shop.1", 2), of("shop.2", 3))

        assert tasks_of(await matcher.poll(by("shop.2"))) == [3]
        assert tasks_of(await matcher.poll(by("other.1"))) == []
        assert tasks_of(await matcher.poll(by(""))) == [1]
        assert tasks_of(await matcher.poll(by("shop.1"))) == [2]

    run(main)


def test_what_comes_with_a_completion_is_of_the_workers_version() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        taker = matcher.announce(by("shop.1"))
        history.publish(of("shop.2", 1), of("shop.1", 2))
        await turns()

        assert tasks_of(taker.take()) == [2]

    run(main)


def test_sticky_works_within_a_version() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        polls = [
            asyncio.ensure_future(matcher.poll(by("shop.1", worker, 0.5)))
            for worker in (b"w1", b"w2")
        ]
        await turns()
        history.publish(of("shop.1", 1, sticky=b"w2"))

        assert [tasks_of(await poll) for poll in polls] == [[], [1]]

    run(main)


def test_pollers_are_counted_by_version_and_described_together() -> None:
    async def main(matcher: Matcher, history: FakeHistory) -> None:
        history.publish(of("shop.1", 1))
        poll = asyncio.ensure_future(matcher.poll(by("shop.2")))
        await turns()
        kind = TaskKind.WORKFLOW

        assert matcher.has_pollers(NAMESPACE, QUEUE, kind, "shop.2")
        assert not matcher.has_pollers(NAMESPACE, QUEUE, kind, "shop.1")
        assert not matcher.has_pollers(NAMESPACE, QUEUE, kind)
        info = matcher.describe(NAMESPACE, QUEUE, kind)
        assert (info.backlog_count, info.pollers) == (1, 1)
        await poll

    run(main)
