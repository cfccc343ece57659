"""Workflow tasks that wait for local activities: when they end, yield or are lost."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.unit.sdk_client.test_local_activities import CONVERTER, TASK

from perdure import activity
from perdure._definitions import activity_definition
from perdure._replay.messages import LocalActivityOutcome, LocalWork, TaskSuccess
from perdure._wire.tasks import PolledWorkflowTask
from perdure._worker.cache import CachedRun
from perdure._worker.local_activities import LocalActivities
from perdure._worker.open_tasks import OpenTasks
from perdure_api.v1 import worker_service_pb2 as pb

OVER = TaskSuccess(commands=[], query_results=[])


class FakeInstance:
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.evicted = asyncio.Event()

    def resolve_local(self, outcome: LocalActivityOutcome) -> TaskSuccess:
        self.heard.append(outcome.activity_id)
        return OVER

    def yield_task(self) -> TaskSuccess:
        self.heard.append("yield")
        return OVER

    def evict(self) -> None:
        self.evicted.set()


class Room:
    """Open tasks whose only local activity waits until it is told to go on."""

    def __init__(self, executor: ThreadPoolExecutor, *, can_yield: bool = True) -> None:
        self.go_on = asyncio.Event()
        self.begun = asyncio.Event()
        self.stopped = asyncio.Event()
        self.completed: asyncio.Queue[tuple[bytes, bool]] = asyncio.Queue()
        self.abandoned: list[bytes] = []

        @activity.defn(name="work")
        async def work() -> None:
            self.begun.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise

        self.local = LocalActivities(
            {"work": activity_definition(work)},
            namespace="default",
            task_queue="q",
            converter=CONVERTER,
            executor=executor,
            at_once_max=10,
            now_us=lambda: TASK.scheduled_time_us,
        )
        self.tasks = OpenTasks(
            self.local,
            guarded=lambda _, go_on: go_on(),
            complete=lambda polled, _run, _outcome, yields: self.completed.put_nowait(
                (polled.token, yields)
            ),
            abandon=lambda polled: self.abandoned.append(polled.token),
            can_yield=can_yield,
        )
        self.instance: Any = FakeInstance()
        self.run = CachedRun("r-1", self.instance)

    def take_in(self, token: bytes, *, timeout_ms: int = 60_000, queries: int = 0) -> bool:
        message = pb.WorkflowTask(
            token=token,
            run_id="r-1",
            task_timeout_ms=timeout_ms,
            queries=[pb.TaskQuery(query_token=b"q")] * queries,
        )
        start = [] if self.begun.is_set() else [TASK]
        work = LocalWork(start=start, cancel=[], waits=True)
        outcome = TaskSuccess(commands=[], query_results=[], local=work)
        return self.tasks.take_in(PolledWorkflowTask(message), self.run, outcome)

    async def next_completed(self) -> tuple[bytes, bool]:
        async with asyncio.timeout(10):
            return await self.completed.get()

    async def close(self) -> None:
        self.tasks.close()
        self.local.give_up()
        await self.local.wait_ended()


@pytest.fixture
def executor() -> Any:
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def test_a_task_ends_when_its_code_waits_for_nothing_local(
    executor: ThreadPoolExecutor,
) -> None:
    room = Room(executor)
    assert room.take_in(b"one")
    room.go_on.set()

    assert await room.next_completed() == (b"one", False)
    assert room.instance.heard == ["1"]
    assert "r-1" not in room.tasks
    await room.close()


async def test_a_task_that_lasts_yields_and_the_next_one_hears_of_the_outcome(
    executor: ThreadPoolExecutor,
) -> None:
    room = Room(executor)
    room.take_in(b"one", timeout_ms=10)
    assert await room.next_completed() == (b"one", True)
    await room.begun.wait()
    assert not room.stopped.is_set()

    room.take_in(b"two")
    room.go_on.set()
    assert await room.next_completed() == (b"two", False)
    assert room.instance.heard == ["yield", "1"]
    await room.close()


async def test_a_task_with_queries_yields_at_once(executor: ThreadPoolExecutor) -> None:
    room = Room(executor)
    assert room.take_in(b"one", queries=1)

    assert room.completed.get_nowait() == (b"one", True)
    await room.close()


async def test_a_run_that_is_not_kept_does_not_yield(executor: ThreadPoolExecutor) -> None:
    """Its local activities would begin anew with each task, and never end."""
    room = Room(executor, can_yield=False)
    assert room.take_in(b"one", timeout_ms=1, queries=1)

    room.go_on.set()
    assert await room.next_completed() == (b"one", False)
    await room.close()


async def test_a_lost_task_stops_what_it_waited_for_and_says_nothing(
    executor: ThreadPoolExecutor,
) -> None:
    room = Room(executor)
    room.take_in(b"one")
    await room.begun.wait()
    room.tasks.lose("r-1", b"one")

    async with asyncio.timeout(10):
        await room.stopped.wait()
        await room.instance.evicted.wait()
    assert room.abandoned == [b"one"]
    assert room.completed.empty()
    assert room.instance.heard == []
    await room.close()


async def test_a_loss_of_the_task_before_is_not_one_of_this_task(
    executor: ThreadPoolExecutor,
) -> None:
    room = Room(executor)
    room.take_in(b"two")
    room.tasks.lose("r-1", b"one")

    assert "r-1" in room.tasks
    assert room.abandoned == []
    await room.close()
