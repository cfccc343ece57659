"""`WorkflowEnvironment.start_time_skipping`: when time passes, and when it must not."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest
from tests.integration.testing import programs
from tests.integration.testing.programs import DAY, HOUR

from perdure.common import WorkflowStatus
from perdure.errors import RPCError, WorkflowFailureError
from perdure.testing import WorkflowEnvironment
from perdure.worker import Worker

SOON = timedelta(minutes=1)  # of real time: a test never takes so long
WORKFLOWS = [
    programs.Sleeper,
    programs.Waiter,
    programs.Racer,
    programs.Retrier,
    programs.Unserved,
    programs.Broken,
]


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        yield env


@pytest.fixture
async def worker(env: WorkflowEnvironment) -> AsyncIterator[Worker]:
    async with running(env) as worker:
        yield worker


@asynccontextmanager
async def running(env: WorkflowEnvironment) -> AsyncIterator[Worker]:
    worker = Worker(
        env.client,
        task_queue="q",
        workflows=WORKFLOWS,
        activities=[programs.gated, programs.third_time_lucky],
        graceful_shutdown_timeout=timedelta(),
    )
    async with worker:
        yield worker


@pytest.fixture
def gate() -> programs.Gate:
    gate = programs.Gate()
    programs.GATES.append(gate)
    return gate


async def test_thirty_days_are_skipped_and_the_workflow_sees_them(
    env: WorkflowEnvironment, worker: Worker
) -> None:
    before = await env.get_current_time()

    woke = await env.client.execute_workflow(programs.Sleeper.run, 30, id="s", task_queue="q")

    steps = [later - earlier for earlier, later in itertools.pairwise(woke)]
    assert len(steps) == 30
    assert all(DAY <= step < DAY + SOON for step in steps)
    assert 30 * DAY <= await env.get_current_time() - before < 30 * DAY + SOON


async def test_time_stands_still_while_nobody_waits(
    env: WorkflowEnvironment, worker: Worker
) -> None:
    before = await env.get_current_time()

    handle = await env.client.start_workflow(
        programs.Waiter.run, args=[3600.0], id="w", task_queue="q"
    )
    await handle.signal(programs.Waiter.tell, "hello")
    assert await handle.query(programs.Waiter.told) == ["hello"]

    assert await env.get_current_time() - before < SOON
    assert await handle.result() == "hello"
    assert await env.get_current_time() - before < SOON, "its timer is cancelled: nothing to skip"


async def test_sleep_passes_exactly_that_much_and_what_falls_due_has_run(
    env: WorkflowEnvironment, worker: Worker
) -> None:
    before = await env.get_current_time()
    handle = await env.client.start_workflow(programs.Sleeper.run, 30, id="s", task_queue="q")

    await env.sleep(DAY * 2.5)

    assert 2.5 * DAY <= await env.get_current_time() - before < 2.5 * DAY + SOON
    fired = [e for e in (await handle.fetch_history()).events if e.event_type == "TimerFired"]
    assert len(fired) == 2
    await env.sleep(DAY.total_seconds())
    fired = [e for e in (await handle.fetch_history()).events if e.event_type == "TimerFired"]
    assert len(fired) == 3


async def test_when_a_sleep_ends_workers_are_done_with_what_fell_due(
    env: WorkflowEnvironment, worker: Worker
) -> None:
    """Also with what fell due in its last moment."""
    handles = await asyncio.gather(
        *(
            env.client.start_workflow(programs.Sleeper.run, 1, id=f"s-{n}", task_queue="q")
            for n in range(20)
        )
    )
    await env.sleep(HOUR)  # all of them wait for their timer
    described = await asyncio.gather(*(handle.describe() for handle in handles))
    last = max(one.pending_timers[0].fire_time for one in described)

    await env.sleep(last - await env.get_current_time())

    assert (await env.client.count_workflows(status=WorkflowStatus.COMPLETED)).count == 20


async def test_sleeps_end_each_at_its_time(env: WorkflowEnvironment) -> None:
    before = await env.get_current_time()

    async def sleep(days: int) -> timedelta:
        await env.sleep(days * DAY)
        return await env.get_current_time() - before

    found = await asyncio.gather(sleep(3), sleep(0), sleep(1))

    assert [passed // DAY for passed in found] == [3, 0, 1]


async def test_a_sleep_that_is_given_up_lets_no_time_pass(
    env: WorkflowEnvironment, worker: Worker, gate: programs.Gate
) -> None:
    handle = await env.client.start_workflow(programs.Racer.run, id="r", task_queue="q")
    await gate.entered.wait()
    before = await env.get_current_time()
    sleeping = asyncio.ensure_future(env.sleep(DAY))
    await asyncio.wait({sleeping}, timeout=0.05)
    assert not sleeping.done(), "an activity runs"

    sleeping.cancel()
    await asyncio.gather(sleeping, return_exceptions=True)
    gate.opened.set()

    assert await handle.result() == "activity"
    assert await env.get_current_time() - before < SOON


async def test_a_wait_that_times_out(env: WorkflowEnvironment, worker: Worker) -> None:
    result = await env.client.execute_workflow(
        programs.Waiter.run, args=[86_400.0 * 365], id="w", task_queue="q"
    )

    assert result == "timed out"


async def test_time_does_not_skip_while_an_activity_runs(
    env: WorkflowEnvironment, worker: Worker, gate: programs.Gate
) -> None:
    """reliability: a jump while a task is out would run out its heartbeat and start-to-close."""
    before = await env.get_current_time()
    handle = await env.client.start_workflow(programs.Racer.run, id="r", task_queue="q")
    result = asyncio.ensure_future(handle.result())
    await gate.entered.wait()
    # time is waited for, and the timer of a day is all that is left: two looks of the skipper
    done, _ = await asyncio.wait({result}, timeout=0.15)
    assert not done

    gate.opened.set()

    assert await result == "activity"
    assert await env.get_current_time() - before < SOON
    kinds = [e.event_type for e in (await handle.fetch_history()).events]
    assert "ActivityTaskTimedOut" not in kinds


async def test_the_time_between_attempts_is_skipped(
    env: WorkflowEnvironment, worker: Worker
) -> None:
    before = await env.get_current_time()

    assert await env.client.execute_workflow(programs.Retrier.run, id="r", task_queue="q") == 3

    assert 20 * HOUR <= await env.get_current_time() - before < 20 * HOUR + SOON


async def test_a_timeout_of_an_activity_that_nobody_takes_comes_at_once(
    env: WorkflowEnvironment, worker: Worker
) -> None:
    result = await env.client.execute_workflow(programs.Unserved.run, id="u", task_queue="q")

    assert result == "TimeoutError"


async def test_a_worker_that_starts_late_still_finds_its_work(env: WorkflowEnvironment) -> None:
    """Ready work without a poller keeps time for a while, or a run's timeout would beat the worker."""
    handle = await env.client.start_workflow(
        programs.Sleeper.run, 1, id="s", task_queue="q", run_timeout=DAY * 2
    )
    result = asyncio.ensure_future(handle.result())
    await asyncio.wait({result}, timeout=0.1)

    async with running(env):
        assert len(await result) == 2


async def test_a_run_that_nobody_serves_times_out(env: WorkflowEnvironment) -> None:
    handle = await env.client.start_workflow(
        programs.Sleeper.run, 1, id="s", task_queue="nobody-polls", run_timeout=DAY * 365
    )

    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()

    assert "TIMED_OUT" in str(caught.value.cause).upper().replace(" ", "_")


async def test_a_failing_workflow_task_does_not_eat_up_time(
    env: WorkflowEnvironment, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # it is logged, and that is not what this is about
    before = await env.get_current_time()
    handle = await env.client.start_workflow(
        programs.Broken.run, id="b", task_queue="q", run_timeout=DAY
    )
    result = asyncio.ensure_future(handle.result())
    await asyncio.wait({result}, timeout=0.3)

    assert not result.done()
    assert await env.get_current_time() - before < SOON
    await handle.terminate()
    with pytest.raises(WorkflowFailureError):
        await result


async def test_auto_skipping_can_be_switched_off(env: WorkflowEnvironment, worker: Worker) -> None:
    before = await env.get_current_time()
    handle = await env.client.start_workflow(programs.Sleeper.run, 1, id="s", task_queue="q")

    with env.auto_time_skipping_disabled():
        result = asyncio.ensure_future(handle.result())
        await asyncio.wait({result}, timeout=0.1)
        assert not result.done()
        assert await env.get_current_time() - before < SOON
        await env.sleep(HOUR)  # by hand it can be skipped all the same
        assert HOUR <= await env.get_current_time() - before < HOUR + SOON

    assert len(await result) == 2


async def test_a_wait_that_is_given_up_lets_no_time_pass(
    env: WorkflowEnvironment, worker: Worker
) -> None:
    with env.auto_time_skipping_disabled():
        handle = await env.client.start_workflow(programs.Sleeper.run, 1, id="s", task_queue="q")
        waiting = asyncio.ensure_future(handle.result())
        await asyncio.wait({waiting}, timeout=0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert len((await handle.fetch_history()).events) > 0  # calls are served in order
    before = await env.get_current_time()

    await handle.describe()

    assert await env.get_current_time() - before < SOON


async def test_two_environments_have_nothing_in_common(env: WorkflowEnvironment) -> None:
    other = await WorkflowEnvironment.start_time_skipping()
    async with other, running(env), running(other):
        first, second = await asyncio.gather(
            env.client.execute_workflow(programs.Sleeper.run, 5, id="s", task_queue="q"),
            other.client.execute_workflow(programs.Sleeper.run, 9, id="s", task_queue="q"),
        )
        assert (len(first), len(second)) == (6, 10)
        assert (await env.client.count_workflows()).count == 1
        apart = await other.get_current_time() - await env.get_current_time()
        assert 4 * DAY - SOON < apart < 4 * DAY + SOON


async def test_in_a_namespace_of_its_own() -> None:
    async with await WorkflowEnvironment.start_time_skipping(namespace="shop") as env:
        assert env.client.namespace == "shop"
        async with running(env):
            await env.client.execute_workflow(programs.Sleeper.run, 1, id="s", task_queue="q")


async def test_a_namespace_that_cannot_be_leaves_nothing_running() -> None:
    before = asyncio.all_tasks()

    with pytest.raises(RPCError, match="name"):
        await WorkflowEnvironment.start_time_skipping(namespace="a" * 300)

    assert engine_tasks() <= before


def engine_tasks() -> set[asyncio.Task[object]]:
    """Of the engine, not of gRPC, which ends its own in its own time."""
    return {
        task
        for task in asyncio.all_tasks()
        if not task.done() and "grpc" not in repr(task.get_coro())
    }


async def test_nothing_is_left(env: WorkflowEnvironment) -> None:
    tasks = asyncio.all_tasks()
    one = await WorkflowEnvironment.start_time_skipping()
    async with running(one):
        await one.client.execute_workflow(programs.Sleeper.run, 2, id="s", task_queue="q")

    await one.shutdown()
    await one.shutdown()

    assert engine_tasks() <= tasks


def test_it_says_what_it_can(env: WorkflowEnvironment) -> None:
    assert env.supports_time_skipping
    assert not WorkflowEnvironment.from_client(env.client).supports_time_skipping


async def test_from_client_is_in_real_time_and_leaves_the_client_alone(
    env: WorkflowEnvironment,
) -> None:
    async with WorkflowEnvironment.from_client(env.client) as same:
        await same.sleep(0)
        with same.auto_time_skipping_disabled():
            assert (await same.get_current_time()).tzinfo is not None
        assert isinstance(await same.get_current_time(), datetime)

    assert (await env.client.count_workflows()).count == 0
