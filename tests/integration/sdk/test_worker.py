"""A worker end to end, against the fake engine: real gRPC, real replay."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import grpc
import pytest
from tests.integration.sdk.fake_engine import PATIENCE_S, FakeEngine
from tests.integration.sdk.fake_faults import UNAVAILABLE, Fault, status

from perdure import activity, workflow
from perdure.client import Client, RPCError, WorkflowFailureError, WorkflowQueryFailedError
from perdure.common import RetryPolicy
from perdure.errors import ActivityError, ApplicationError, CancelledError, RPCStatusCode
from perdure.worker import Worker

QUEUE = "queue"
NOW = timedelta()


@activity.defn
async def compose(greeting: str, name: str) -> str:
    return f"{greeting}, {name}!"


@activity.defn
def compose_in_thread(name: str) -> str:
    assert threading.current_thread() is not threading.main_thread()
    return f"{activity.info().activity_type} {activity.info().attempt} {name}"


@activity.defn
async def fail(non_retryable: bool) -> None:
    activity.heartbeat("so far")
    raise ApplicationError("no", "a detail", type="Oops", non_retryable=non_retryable)


@workflow.defn
class Greet:
    @workflow.run
    async def run(self, name: str) -> str:
        return await workflow.execute_activity(
            compose, args=["Hello", name], start_to_close_timeout=timedelta(seconds=10)
        )


@workflow.defn
class CallOne:
    """Runs the activity of that name."""

    @workflow.run
    async def run(self, name: str, arg: object, attempts: int) -> object:
        return await workflow.execute_activity(
            name,
            arg,
            start_to_close_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(maximum_attempts=attempts),
        )


@workflow.defn
class Collect:
    """Collects what it is sent until it has as many as it wants."""

    def __init__(self) -> None:
        self._got: list[str] = []

    @workflow.run
    async def run(self, wanted: int) -> list[str]:
        await workflow.wait_condition(lambda: len(self._got) >= wanted)
        return self._got

    @workflow.signal
    def add(self, one: str) -> None:
        self._got.append(one)

    @workflow.query
    def got(self) -> list[str]:
        return self._got

    @workflow.query
    def broken(self, why: str) -> str:
        raise ValueError(why)


WORKFLOWS = [Greet, CallOne, Collect]


def make_worker(client: Client, *activities: object, **options: object) -> Worker:
    settings: dict[str, object] = {"graceful_shutdown_timeout": NOW, **options}
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=WORKFLOWS,
        activities=[*activities],  # type: ignore[list-item]  # functions
        **settings,  # type: ignore[arg-type]  # whatever the test gives
    )


async def test_a_workflow_with_an_activity(engine: FakeEngine, client: Client) -> None:
    async with make_worker(client, compose):
        result = await client.execute_workflow(Greet.run, "Ada", id="greet", task_queue=QUEUE)

    assert result == "Hello, Ada!"
    first, second = engine.completions("workflow_task_success")
    assert first.workflow_task_success.cached
    assert not second.workflow_task_success.cached  # it has ended
    (goodbye,) = engine.requests["Goodbye"]
    assert list(goodbye.released_tokens) == []
    assert not engine.requests["GetHistory"]


async def test_many_at_once_travel_in_batches(engine: FakeEngine, client: Client) -> None:
    async with make_worker(client, compose):
        results = await asyncio.gather(
            *(
                client.execute_workflow(Greet.run, f"{n}", id=f"greet-{n}", task_queue=QUEUE)
                for n in range(200)
            )
        )

    assert results == [f"Hello, {n}!" for n in range(200)]
    completions = [len(request.completions) for request in engine.requests["CompleteTasks"]]
    assert sum(completions) == 600
    assert len(completions) < 60
    assert len(engine.requests["WaitResults"]) < 60
    assert len(engine.streams) == 1


async def test_a_sync_activity_runs_in_a_thread(engine: FakeEngine, client: Client) -> None:
    async with make_worker(client, compose_in_thread):
        result = await client.execute_workflow(
            CallOne.run, args=["compose_in_thread", "Bob", 1], id="thread", task_queue=QUEUE
        )
    assert result == "compose_in_thread 1 Bob"


async def test_a_failing_activity(engine: FakeEngine, client: Client) -> None:
    async with make_worker(client, fail):
        with pytest.raises(WorkflowFailureError) as caught:
            await client.execute_workflow(
                CallOne.run, args=["fail", False, 2], id="fails", task_queue=QUEUE
            )
    error = caught.value.cause
    assert isinstance(error, ActivityError)
    assert isinstance(error.cause, ApplicationError)
    assert error.cause.type == "Oops"
    assert list(error.cause.details) == ["a detail"]
    failures = engine.completions("activity_failure")
    assert len(failures) == 2
    assert b"so far" in failures[0].activity_failure.heartbeat_details


async def test_an_activity_that_is_not_registered(engine: FakeEngine, client: Client) -> None:
    async with make_worker(client, compose):
        with pytest.raises(WorkflowFailureError) as caught:
            await client.execute_workflow(
                CallOne.run, args=["missing", None, 1], id="missing", task_queue=QUEUE
            )
    assert "known: compose" in str(caught.value.cause.__cause__)


async def test_signals_and_queries(engine: FakeEngine, client: Client) -> None:
    async with make_worker(client):
        handle = await client.start_workflow(Collect.run, 2, id="collect", task_queue=QUEUE)
        await handle.signal(Collect.add, "a")
        assert await handle.query(Collect.got) == ["a"]
        with pytest.raises(WorkflowQueryFailedError, match="because"):
            await handle.query(Collect.broken, "because")
        await handle.signal(Collect.add, "b")
        assert await handle.result() == ["a", "b"]
        assert await handle.query(Collect.got) == ["a", "b"]  # of a closed run: replayed


async def test_an_evicted_run_fetches_its_history(engine: FakeEngine, client: Client) -> None:
    engine.page_events = 2
    async with make_worker(client, max_cached_workflows=1):
        one = await client.start_workflow(Collect.run, 2, id="one", task_queue=QUEUE)
        await one.signal(Collect.add, "1")
        assert await one.query(Collect.got) == ["1"]
        other = await client.start_workflow(Collect.run, 1, id="other", task_queue=QUEUE)
        await engine.until(lambda: bool(engine.runs.by_workflow_id["other"].sticky_worker))
        await one.signal(Collect.add, "2")
        assert await one.result() == ["1", "2"]
        await other.signal(Collect.add, "x")
        assert await other.result() == ["x"]
    assert engine.requests["GetHistory"]
    assert not engine.completions("workflow_task_failure")


async def test_without_a_cache_the_whole_history_comes_in_pages(
    engine: FakeEngine, client: Client
) -> None:
    engine.page_events = 3
    async with make_worker(client, max_cached_workflows=0):
        handle = await client.start_workflow(Collect.run, 3, id="paged", task_queue=QUEUE)
        for n in range(3):
            await handle.signal(Collect.add, str(n))
        assert await handle.result() == ["0", "1", "2"]
    assert engine.requests["GetTaskHistory"]


async def test_an_unknown_workflow_type_fails_the_task_only(
    engine: FakeEngine, client: Client
) -> None:
    async with make_worker(client):
        await client.start_workflow("Nobody", id="nobody", task_queue=QUEUE)
        await engine.until(lambda: bool(engine.completions("workflow_task_failure")))
    (failure,) = engine.completions("workflow_task_failure")
    assert failure.workflow_task_failure.cause == 5  # UNKNOWN_WORKFLOW_TYPE
    assert "Greet" in failure.workflow_task_failure.failure.message


async def test_a_completion_is_repeated_with_the_same_token(
    engine: FakeEngine, client: Client
) -> None:
    engine.fail(
        "CompleteTasks",
        Fault(status(UNAVAILABLE, "before")),
        Fault(status(UNAVAILABLE, "after"), after_effect=True),
    )
    async with make_worker(client, compose):
        result = await client.execute_workflow(Greet.run, "Ada", id="greet", task_queue=QUEUE)
    assert result == "Hello, Ada!"
    tokens = [
        completion.token
        for request in engine.requests["CompleteTasks"]
        for completion in request.completions
    ]
    assert tokens.count(tokens[0]) == 3
    assert len(set(tokens)) == 3


async def test_a_late_completion_is_dropped_and_the_run_evicted(
    engine: FakeEngine, client: Client
) -> None:
    async with make_worker(client):
        handle = await client.start_workflow(Collect.run, 1, id="late", task_queue=QUEUE)
        engine.gates["CompleteTasks"] = gate = asyncio.Event()
        await handle.signal(Collect.add, "a")
        await engine.until(lambda: bool(engine.runs.started_tasks))
        # The task times out: the engine forgets the token and will send the whole history.
        await engine.until(lambda: len(engine.requests["CompleteTasks"]) >= 1)
        (token,) = engine.runs.started_tasks
        run = engine.runs.started_tasks.pop(token)
        gate.set()
        del engine.gates["CompleteTasks"]
        run.started_event_id, run.sticky_worker = 0, b""
        run.append(workflow_task_timed_out={"started_event_id": len(run.events)})
        engine.runs.schedule(run)
        assert await handle.result() == ["a"]


async def test_a_worker_survives_the_restart_of_the_engine(
    engine: FakeEngine, client: Client
) -> None:
    async with make_worker(client):
        handle = await client.start_workflow(Collect.run, 1, id="survivor", task_queue=QUEUE)
        waiting = asyncio.create_task(handle.result())
        await engine.arrived("WaitResults")
        await engine.kill()
        await engine.start()
        await handle.signal(Collect.add, "after")
        assert await waiting == ["after"]
    assert len(engine.streams) == 2


async def test_forgotten_waits(engine: FakeEngine, client: Client) -> None:
    handle = await client.start_workflow(Collect.run, 1, id="forgotten", task_queue=QUEUE)
    with pytest.raises(RPCError) as caught:
        await handle.result(rpc_timeout=timedelta(seconds=0.05))
    assert caught.value.status is RPCStatusCode.DEADLINE_EXCEEDED
    await engine.until(lambda: any(one.forget for one in engine.requests["WaitResults"]))

    with pytest.raises(RPCError) as missing:
        await client.get_workflow_handle("nobody").result()
    assert missing.value.status is RPCStatusCode.NOT_FOUND


async def test_a_cancelled_run(engine: FakeEngine, client: Client) -> None:
    async with make_worker(client):
        handle = await client.start_workflow(Collect.run, 1, id="cancelled", task_queue=QUEUE)
        await handle.cancel(reason="enough")
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, CancelledError)


async def test_a_namespace_that_is_not_there_ends_the_worker(
    engine: FakeEngine, client: Client
) -> None:
    missing = Fault(status(grpc.StatusCode.NOT_FOUND, "no such namespace"))
    engine.fail("PollTasks", missing, missing)
    with pytest.raises(RPCError, match="no such namespace"):
        await make_worker(client).run()

    engine.fail("PollTasks", missing, missing)
    with pytest.raises(RPCError, match="no such namespace"):
        async with asyncio.timeout(PATIENCE_S), make_worker(client):
            await asyncio.Event().wait()


async def test_one_poll_of_each_kind_is_parked(engine: FakeEngine, client: Client) -> None:
    worker = make_worker(
        client, compose, max_concurrent_workflow_tasks=5, max_concurrent_activities=1
    )
    async with worker:
        await engine.arrived("PollTasks", 3)
        asked = {
            (poll.max_workflow_tasks, poll.max_activity_tasks, poll.pool)
            for poll in engine.requests["PollTasks"]
        }
    # Half of the places: the rest is for what completions bring. And one for poisoned tasks.
    assert asked == {(3, 0, ""), (0, 1, ""), (1, 1, "surgical")}


async def test_what_follows_from_a_completion_comes_with_its_answer(
    engine: FakeEngine, client: Client
) -> None:
    engine.completions_bring_tasks = True
    async with make_worker(client, compose):
        result = await client.execute_workflow(Greet.run, "Ada", id="greet", task_queue=QUEUE)
    assert result == "Hello, Ada!"
    asked = [
        (request.task_queue, request.max_workflow_tasks, request.max_activity_tasks)
        for request in engine.requests["CompleteTasks"]
    ]
    assert asked == [(QUEUE, 1, 1)] * 3
    # The first task came by a poll, the activity and the second task with answers.
    polls = [poll for poll in engine.requests["PollTasks"] if not poll.pool]
    assert len([poll for poll in polls if poll.max_workflow_tasks]) <= 2
    assert len([poll for poll in polls if poll.max_activity_tasks]) == 1


async def test_no_more_tasks_are_taken_than_there_are_places(
    engine: FakeEngine, client: Client
) -> None:
    """A completion's answer must not bring what nobody can run: it would wait behind its lease."""
    engine.completions_bring_tasks = True
    async with (
        make_worker(client, compose, max_concurrent_workflow_tasks=1, max_concurrent_activities=1),
        asyncio.TaskGroup() as group,
    ):
        for number in range(5):
            group.create_task(
                client.execute_workflow(Greet.run, "Ada", id=f"greet-{number}", task_queue=QUEUE)
            )
    wanted = [
        (request.max_workflow_tasks, request.max_activity_tasks)
        for request in engine.requests["CompleteTasks"]
    ]
    assert max(workflow for workflow, _ in wanted) <= 1
    assert max(activity for _, activity in wanted) <= 1


async def test_a_worker_that_stops_asks_for_nothing_more(
    engine: FakeEngine, client: Client
) -> None:
    """And what an answer on its way brings all the same is still run, and told that the worker goes."""
    engine.completions_bring_tasks = True
    loop, started = asyncio.get_running_loop(), asyncio.Event()

    @activity.defn(name="compose")
    def until_shutdown(greeting: str, name: str) -> str:
        loop.call_soon_threadsafe(started.set)
        assert activity.wait_for_worker_shutdown_sync(PATIENCE_S)
        return f"{greeting}, {name}!"

    worker = make_worker(client, until_shutdown, graceful_shutdown_timeout=timedelta(minutes=1))
    async with worker:
        await client.start_workflow(Greet.run, "Ada", id="greet", task_queue=QUEUE)
        await started.wait()
        await worker.shutdown()
    last = engine.requests["CompleteTasks"][-1]
    assert last.completions[0].HasField("activity_success")
    assert (last.max_workflow_tasks, last.max_activity_tasks) == (0, 0)


async def test_an_empty_poll_is_repeated_at_once(engine: FakeEngine, client: Client) -> None:
    engine.polls_are_empty = 3
    async with make_worker(client):
        await engine.arrived("PollTasks", 4)


async def test_a_worker_runs_once(engine: FakeEngine, client: Client) -> None:
    worker = make_worker(client)
    async with worker:
        assert worker.is_running
    assert not worker.is_running
    await worker.shutdown()
    with pytest.raises(RuntimeError, match="once"):
        await worker.run()
    with pytest.raises(ValueError, match="registered twice: compose"):
        make_worker(client, compose, compose)
