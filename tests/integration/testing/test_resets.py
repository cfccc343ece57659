"""Resets and pauses of real code in the whole engine: what replays, what is done again, what waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import activity, workflow
from perdure.client import (
    BatchOperationInfo,
    BatchOperationState,
    BatchOperationType,
    RPCError,
    RPCStatusCode,
    WaitKind,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowHistory,
)
from perdure.common import ResetReapplyExcludeType, ResetType, WorkflowStatus
from perdure.errors import TerminatedError
from perdure.testing import WorkflowEnvironment
from perdure.worker import Replayer, Worker

QUEUE = "q"
LIMIT = timedelta(minutes=10)
HOUR = timedelta(hours=1)
KEYS: list[str] = []


@activity.defn
async def double(number: int) -> int:
    KEYS.append(activity.info().idempotency_key)
    return number * 2


@workflow.defn
class Script:
    """Does what it is told, step by step, and says what came of each."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.log: list[str] = []

    @workflow.run
    async def run(self, steps: list[str], words: int) -> list[str]:
        for number, step in enumerate(steps):
            await self.step(number, step)
            self.log.append(step)
        await workflow.wait_condition(
            lambda: len(self.told) >= words and workflow.all_handlers_finished()
        )
        return [*self.log, *self.told]

    async def step(self, number: int, step: str) -> None:
        match step:
            case "activity":
                await workflow.execute_activity(double, number, start_to_close_timeout=LIMIT)
            case "timer":
                await workflow.sleep(workflow.random().randint(1, 1_000))
            case "both":
                await asyncio.gather(
                    workflow.sleep(HOUR),
                    workflow.execute_activity(double, number, start_to_close_timeout=LIMIT),
                )
            case "cancelled":
                work = workflow.start_activity(double, number, start_to_close_timeout=LIMIT)
                work.cancel()
            case "patch":
                workflow.patched(f"patch-{number % 2}")
            case "local":
                await workflow.execute_local_activity(double, number, start_to_close_timeout=LIMIT)
            case "random":
                await workflow.execute_activity(
                    double, workflow.random().getrandbits(16), start_to_close_timeout=LIMIT
                )
            case _:
                wanted = self.log.count("told") + 1
                await workflow.wait_condition(lambda: len(self.told) >= wanted)

    @workflow.signal
    def tell(self, word: str) -> None:
        self.told.append(word)

    @workflow.update
    async def ask(self, word: str) -> int:
        self.told.append(word)
        await workflow.sleep(1)
        return len(self.told)

    @workflow.query
    def state(self) -> list[str]:
        return self.log


@workflow.defn
class Keys:
    """Two keys of its own making, with an hour between."""

    @workflow.run
    async def run(self) -> list[str]:
        first = str(workflow.uuid4())
        await workflow.sleep(HOUR)
        return [first, str(workflow.uuid4())]


@asynccontextmanager
async def engine() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_time_skipping() as env:
        worker = Worker(
            env.client,
            task_queue=QUEUE,
            workflows=[Script, Keys],
            activities=[double],
            graceful_shutdown_timeout=timedelta(),
        )
        async with worker:
            yield env


@pytest.fixture
async def env() -> AsyncIterator[WorkflowEnvironment]:
    async with engine() as env:
        yield env


async def script(
    env: WorkflowEnvironment, steps: list[str], words: int = 1
) -> WorkflowHandle[Script, list[str]]:
    return await env.client.start_workflow(
        Script.run, args=[steps, words], id="s", task_queue=QUEUE
    )


def ends(history: WorkflowHistory) -> list[int]:
    return [e.event_id for e in history.events if e.event_type == "WorkflowTaskCompleted"]


async def replays(handle: WorkflowHandle[Script, list[str]]) -> WorkflowHistory:
    history = await handle.fetch_history()
    await Replayer(workflows=[Script, Keys]).replay_workflow(history)
    return history


# ---- any history


STEPS = ("activity", "timer", "both", "cancelled", "patch", "local", "random", "told")


async def every_reset_of(steps: list[str]) -> None:
    async with engine() as env:
        words = [f"word-{number}" for number in range(steps.count("told") + 1)]
        first = await script(env, steps, len(words))
        for number, word in enumerate(words):
            if number % 2:
                await first.execute_update(Script.ask, word)
            else:
                await first.signal(Script.tell, word)
        result = await first.result()
        base = env.client.get_workflow_handle_for(Script.run, "s", run_id=first.result_run_id)
        for event_id in ends(await replays(base)):
            new = await base.reset(event_id=event_id)
            again = await new.result()
            assert sorted(again) == sorted(result), "every step is done, every word is heard once"
            assert again[: len(steps)] == steps
            run = env.client.get_workflow_handle_for(Script.run, "s", run_id=new.result_run_id)
            points = ends(await replays(run))
            deeper = await run.reset(event_id=points[event_id % len(points)])
            assert sorted(await deeper.result()) == sorted(result)
            await replays(
                env.client.get_workflow_handle_for(Script.run, "s", run_id=deeper.result_run_id)
            )


@given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=4))
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_a_reset_at_each_workflow_task_of_any_history_replays(steps: list[str]) -> None:
    """Its new run comes to the same end, is deterministic by its own history, and so is a reset of that one."""
    asyncio.run(every_reset_of(steps))


# ---- what is whose


async def test_what_is_random_before_the_point_is_the_first_runs_and_after_it_its_own(
    env: WorkflowEnvironment,
) -> None:
    handle = await env.client.start_workflow(Keys.run, id="k", task_queue=QUEUE)
    first, second = await handle.result()
    new = await handle.reset(reset_type=ResetType.LAST_WORKFLOW_TASK)
    again = await new.result()
    assert again[0] == first, "the code must find what it has done"
    assert again[1] != second, "a key that was used is not made again"
    from_the_start = await handle.reset(reset_type=ResetType.FIRST_WORKFLOW_TASK)
    assert first not in await from_the_start.result()


async def test_an_activity_that_is_scheduled_anew_is_another_one(env: WorkflowEnvironment) -> None:
    """Its key is the new run's: whoever resets wants it done again. (One that was pending keeps its key:
    test_resetting.py.)"""
    KEYS.clear()
    handle = await script(env, ["activity", "activity"], 0)
    await handle.result()
    new = await handle.reset(event_id=ends(await handle.fetch_history())[1])
    await new.result()
    runs = [key.split(":")[0] for key in KEYS]
    assert runs == [handle.result_run_id, handle.result_run_id, new.result_run_id]


async def test_signals_and_updates_can_be_left_out(env: WorkflowEnvironment) -> None:
    handle = await script(env, ["told"])
    await handle.signal(Script.tell, "signal")
    await handle.result()
    new = await handle.reset(
        reset_type=ResetType.FIRST_WORKFLOW_TASK,
        reapply_exclude=list(ResetReapplyExcludeType),
        reason="nobody said that",
    )
    assert (await new.describe()).status is WorkflowStatus.RUNNING
    assert await new.execute_update(Script.ask, "update") == 1
    assert await new.result() == ["told", "update"]


async def test_who_waits_for_the_old_run_hears_that_it_was_terminated(
    env: WorkflowEnvironment,
) -> None:
    """As Temporal: a reset is no run that follows."""
    handle = await script(env, ["told"])
    assert await handle.query(Script.state) == []
    waiting = asyncio.ensure_future(handle.result())
    new = await handle.reset(reset_type=ResetType.LAST_WORKFLOW_TASK, reason="wrong rates")
    with pytest.raises(WorkflowFailureError) as failed:
        await waiting
    assert isinstance(failed.value.cause, TerminatedError)
    assert "wrong rates" in str(failed.value.cause)
    old = env.client.get_workflow_handle("s", run_id=handle.result_run_id)
    assert (await old.describe()).reset_run_id == new.result_run_id
    said = await new.describe()
    assert said.original_run_id == said.reset_from_run_id == handle.result_run_id


async def test_bad_input_is_told_before_the_engine_is_asked_and_by_it(
    env: WorkflowEnvironment,
) -> None:
    handle = await script(env, ["told"])
    for options in (
        {},
        {"event_id": 4, "reset_type": ResetType.LAST_WORKFLOW_TASK},
        {"event_id": 0},
        {"reset_type": ResetType.BUILD_ID},
        {"reset_type": ResetType.LAST_WORKFLOW_TASK, "build_id": "b"},
    ):
        with pytest.raises(ValueError, match=r"event_id|build_id"):
            await handle.reset(**options)  # type: ignore[arg-type]  # a dict of several types
    with pytest.raises(RPCError) as refused:
        await handle.reset(event_id=99)
    assert refused.value.status is RPCStatusCode.INVALID_ARGUMENT
    assert "workflow_task_finish_event_id" in str(refused.value)


# ---- pause


async def test_a_paused_run_stands_still_and_time_goes_on(env: WorkflowEnvironment) -> None:
    handle = await script(env, ["timer", "told"])
    assert await handle.query(Script.state) == []
    await handle.pause(reason="the provider is down")
    [paused] = [one async for one in env.client.list_workflows("ExecutionStatus = 'Paused'")]
    assert (paused.id, paused.status) == ("s", WorkflowStatus.PAUSED)
    await handle.signal(Script.tell, "word")
    await env.sleep(24 * HOUR)
    said = await handle.describe()
    assert (said.status, said.pause_reason) == (WorkflowStatus.PAUSED, "the provider is down")
    first, *_ = await handle.explain()
    assert first.kind is WaitKind.PAUSED
    assert first.text.endswith(": the provider is down")
    assert await handle.query(Script.state) == [], "as its code left it"
    with pytest.raises(RPCError) as refused:
        await handle.pause()
    assert refused.value.status is RPCStatusCode.FAILED_PRECONDITION
    await handle.unpause()
    assert await handle.result() == ["timer", "told", "word"]
    await replays(handle)


async def closed(env: WorkflowEnvironment, job_id: str) -> BatchOperationInfo:
    """The job, once it has come to its end."""
    while True:
        found = await env.client.operator.describe_batch_operation(job_id)
        if found.state is not BatchOperationState.RUNNING:
            return found
        await asyncio.sleep(0.01)


async def test_a_batch_resets_each_workflow_once_and_says_so_in_the_log(
    env: WorkflowEnvironment,
) -> None:
    """With the client's call, through the engine: those that failed begin again, what they were told comes along."""
    client = env.client
    handles = [
        await client.start_workflow(
            Script.run, args=[["activity", "told"], 1], id=f"s-{number}", task_queue=QUEUE
        )
        for number in range(5)
    ]
    for handle in handles:
        await handle.signal(Script.tell, "word")
        assert await handle.result() == ["activity", "told", "word"]
    query = "WorkflowType = 'Script' AND ExecutionStatus = 'Completed'"
    operation = BatchOperationType.RESET
    assert await client.operator.count_batch_operation(query, operation) == 5
    job_id = await client.operator.start_batch_operation(
        query, operation, reset_type=ResetType.FIRST_WORKFLOW_TASK, reason="a bug"
    )
    job = await closed(env, job_id)
    assert (job.state, job.total) == (BatchOperationState.COMPLETED, 5)
    assert (job.done, job.failed, job.last_failure) == (5, 0, "")
    assert job.reset_type is ResetType.FIRST_WORKFLOW_TASK
    for handle in handles:
        newest = client.get_workflow_handle(handle.id)
        assert await newest.result() == ["activity", "told", "word"]
        assert (await newest.describe()).run_id != handle.result_run_id
    log = [entry async for entry in client.operator.list_audit()]
    assert sorted((entry.action, entry.workflow_id, entry.reason) for entry in log) == sorted(
        [
            ("batch.start", "", "a bug"),
            *(("workflow.reset", handle.id, "a bug") for handle in handles),
        ]
    )


async def test_a_batch_reset_needs_to_know_where_to(env: WorkflowEnvironment) -> None:
    for operation, options in (
        (BatchOperationType.RESET, {}),
        (BatchOperationType.CANCEL, {"reset_type": ResetType.LAST_WORKFLOW_TASK}),
    ):
        with pytest.raises(RPCError) as caught:
            await env.client.operator.start_batch_operation(
                "WorkflowType = 'Script'", operation, **options
            )
        assert caught.value.status is RPCStatusCode.INVALID_ARGUMENT
        assert "reset_type" in str(caught.value)
