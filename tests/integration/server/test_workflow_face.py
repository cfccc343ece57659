"""What workflow code can say and do, on a real node: patches, local activities, memo, details, dynamic handlers."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from tests.engine_node import running_node
from tests.integration.server.calls import until

from perdure import activity, workflow
from perdure.client import Client, WorkflowFailureError, WorkflowHandle, WorkflowHistory
from perdure.common import RawValue, RetryPolicy
from perdure.errors import ActivityError, ApplicationError, NondeterminismError, TimeoutError
from perdure.worker import Replayer, Worker

QUEUE = "face"
LIMIT = timedelta(seconds=20)
WAIT_S = 20.0


@pytest.fixture
async def client(database_dsn: str) -> AsyncIterator[Client]:
    async with running_node(database_dsn) as node, await Client.connect(node.address) as client:
        yield client


@asynccontextmanager
async def working(client: Client, *workflows: type, **options: Any) -> AsyncIterator[Worker]:
    async with Worker(client, task_queue=QUEUE, workflows=workflows, **options) as worker:
        yield worker


async def begin(client: Client, what: Any, *args: Any, **options: Any) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(
        what, args=list(args), id=f"w-{uuid.uuid4()}", task_queue=QUEUE, **options
    )


async def kinds(handle: WorkflowHandle[Any, Any]) -> list[str]:
    return [event.event_type async for event in handle.fetch_history_events()]


async def happened(handle: WorkflowHandle[Any, Any], kind: str, *, times: int = 1) -> None:
    """Returns when the history has so many events of that kind."""
    left = times
    async with asyncio.timeout(WAIT_S):
        async for event in handle.fetch_history_events(wait_new_event=True):
            left -= event.event_type == kind
            if not left:
                return
    raise AssertionError(f"it ended without {kind}")


# ---- local activities


class Desk:
    """Activities, and what the test has them do."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.infos: list[activity.Info] = []
        self.cancelled = asyncio.Event()

    @activity.defn
    async def look_up(self, key: str) -> str:
        self.infos.append(activity.info())
        return key.upper()

    @activity.defn
    def in_thread(self, key: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        self.infos.append(activity.info())
        return key * 2

    @activity.defn
    async def fail_twice(self) -> int:
        info = activity.info()
        self.infos.append(info)
        if info.attempt < 3:
            raise ApplicationError("not yet", type="NotYet")
        return info.attempt

    @activity.defn
    async def wait(self) -> str:
        self.infos.append(activity.info())
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "waited"

    @property
    def all(self) -> list[Any]:
        return [self.look_up, self.in_thread, self.fail_twice, self.wait]


@workflow.defn
class Locals:
    @workflow.run
    async def run(self, key: str) -> list[str]:
        both = await asyncio.gather(
            workflow.execute_local_activity_method(Desk.look_up, key, start_to_close_timeout=LIMIT),
            workflow.execute_local_activity_method(
                Desk.in_thread, key, start_to_close_timeout=LIMIT
            ),
        )
        await workflow.sleep(0.01)
        return list(both)


async def test_local_activities_run_inside_the_workflow_task(client: Client) -> None:
    desk = Desk()
    async with working(client, Locals, activities=desk.all):
        handle = await begin(client, Locals.run, "a")
        assert await handle.result() == ["A", "aa"]
        events = await kinds(handle)

    assert events.count("MarkerRecorded") == 2
    assert not any(name.startswith("Activity") for name in events)
    assert events[:4] == [
        "WorkflowExecutionStarted",
        "WorkflowTaskScheduled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
    ]
    assert {info.is_local for info in desk.infos} == {True}
    assert {info.workflow_id for info in desk.infos} == {handle.id}
    assert len({info.idempotency_key for info in desk.infos}) == 2


@workflow.defn
class Retrying:
    @workflow.run
    async def run(self, initial_s: float, threshold_s: float) -> int:
        return await workflow.execute_local_activity_method(
            Desk.fail_twice,
            start_to_close_timeout=LIMIT,
            retry_policy=RetryPolicy(
                initial_interval=timedelta(seconds=initial_s), backoff_coefficient=1
            ),
            local_retry_threshold=timedelta(seconds=threshold_s),
        )


@pytest.mark.parametrize(("threshold_s", "timers"), [(1, 0), (0.001, 2)])
async def test_a_local_activity_is_tried_again_inside_the_task_or_after_a_timer(
    client: Client, threshold_s: float, timers: int
) -> None:
    desk = Desk()
    async with working(client, Retrying, activities=desk.all):
        handle = await begin(client, Retrying.run, 0.01, threshold_s)
        assert await handle.result() == 3
        events = await kinds(handle)

    assert [info.attempt for info in desk.infos] == [1, 2, 3]
    assert events.count("TimerFired") == timers
    assert events.count("MarkerRecorded") == timers + 1


@workflow.defn
class Patient:
    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_local_activity_method(Desk.wait, start_to_close_timeout=LIMIT)

    @workflow.query
    def state(self) -> str:
        return "waiting"


async def test_a_task_that_waits_longer_than_its_timeout_is_kept_alive(client: Client) -> None:
    desk = Desk()
    async with working(client, Patient, activities=desk.all):
        handle = await begin(client, Patient.run, task_timeout=timedelta(seconds=1))
        await happened(handle, "WorkflowTaskCompleted", times=2)
        desk.go_on.set()
        assert await handle.result() == "waited"
        events = await kinds(handle)

    assert len(desk.infos) == 1, "it ran once, through all the tasks"
    assert "WorkflowTaskTimedOut" not in events
    assert events.count("MarkerRecorded") == 1


async def test_a_query_does_not_wait_for_the_local_activity(client: Client) -> None:
    desk = Desk()
    async with working(client, Patient, activities=desk.all):
        handle = await begin(client, Patient.run, task_timeout=timedelta(seconds=5))
        await until(lambda: desk.infos, WAIT_S, "the activity runs")
        assert await handle.query(Patient.state) == "waiting"
        desk.go_on.set()
        assert await handle.result() == "waited"

    assert len(desk.infos) == 1


async def test_a_worker_that_goes_leaves_the_local_activity_to_the_next(client: Client) -> None:
    """At least once: the first worker gives its workflow task back, the second runs it again."""
    first, second = Desk(), Desk()
    second.go_on.set()
    async with working(
        client, Patient, activities=first.all, graceful_shutdown_timeout=timedelta()
    ):
        handle = await begin(client, Patient.run)
        await until(lambda: first.infos, WAIT_S, "the activity runs")
    assert first.cancelled.is_set()
    async with working(client, Patient, activities=second.all):
        assert await handle.result() == "waited"

    assert len(second.infos) == 1


DOOMED = """
import asyncio, sys
from perdure.client import Client
from perdure.worker import Replayer, Worker
from tests.integration.server.test_workflow_face import Desk, Patient, QUEUE

async def main(address):
    async with await Client.connect(address) as client:
        desk = Desk()
        async with Worker(client, task_queue=QUEUE, workflows=[Patient], activities=desk.all):
            while not desk.infos:
                await asyncio.sleep(0.01)
            print("it runs", flush=True)
            await asyncio.Event().wait()

asyncio.run(main(sys.argv[1]))
"""


async def test_a_worker_that_is_killed_has_its_local_activity_run_again(
    database_dsn: str,
) -> None:
    """At least once: what has no marker is not known to have happened."""
    settings = {"history.lease_s": 3}
    async with (
        running_node(database_dsn, settings) as node,
        await Client.connect(node.address) as client,
    ):
        doomed = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", DOOMED, node.address),
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, os.getcwd()])),
            },
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert doomed.stdout is not None
            handle = await begin(client, Patient.run)
            assert await doomed.stdout.readline() == b"it runs\n"
        finally:
            doomed.kill()
            await doomed.wait()
        desk = Desk()
        desk.go_on.set()
        async with working(client, Patient, activities=desk.all):
            assert await handle.result() == "waited"

    assert len(desk.infos) == 1


async def test_a_terminated_run_stops_its_local_activity(client: Client) -> None:
    desk = Desk()
    async with working(client, Patient, activities=desk.all):
        handle = await begin(client, Patient.run)
        await until(lambda: desk.infos, WAIT_S, "the activity runs")
        await handle.terminate()
        async with asyncio.timeout(WAIT_S):
            await desk.cancelled.wait()


@workflow.defn
class Short:
    @workflow.run
    async def run(self) -> str:
        try:
            return await workflow.execute_local_activity_method(
                Desk.wait,
                start_to_close_timeout=timedelta(seconds=0.05),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        except ActivityError as error:
            cause = error.cause
            return f"{isinstance(cause, TimeoutError)} {cause}"


async def test_a_local_activity_that_takes_too_long_is_stopped(client: Client) -> None:
    desk = Desk()
    async with working(client, Short, activities=desk.all):
        handle = await begin(client, Short.run)
        assert await handle.result() == "True local activity START_TO_CLOSE timeout"

    assert desk.cancelled.is_set()


@workflow.defn
class Stopping:
    @workflow.run
    async def run(self) -> str:
        handle = workflow.start_local_activity_method(
            Desk.wait,
            start_to_close_timeout=LIMIT,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        await workflow.execute_local_activity_method(
            Desk.look_up, "a", start_to_close_timeout=LIMIT
        )
        handle.cancel()
        try:
            return await handle
        except ActivityError as error:
            return str(error.cause)


async def test_a_local_activity_is_cancelled_and_waited_for(client: Client) -> None:
    desk = Desk()
    async with working(client, Stopping, activities=desk.all):
        handle = await begin(client, Stopping.run)
        assert await handle.result() == "Cancelled"

    assert desk.cancelled.is_set()


# ---- versions


@workflow.defn(name="Versioned")
class First:
    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: self.gone_on)
        return "old"

    gone_on = False

    @workflow.signal
    def go_on(self) -> None:
        self.gone_on = True


@workflow.defn(name="Versioned")
class Second:
    gone_on = False

    @workflow.run
    async def run(self) -> str:
        new = workflow.patched("second")
        await workflow.wait_condition(lambda: self.gone_on)
        return "new" if new else "old"

    @workflow.signal
    def go_on(self) -> None:
        self.gone_on = True


async def test_a_patch_leaves_open_runs_on_the_old_way(client: Client) -> None:
    async with working(client, First):
        before = await begin(client, "Versioned")
        await happened(before, "WorkflowTaskCompleted")
    async with working(client, Second, max_cached_workflows=0):
        after = await begin(client, "Versioned")
        await before.signal("go_on")
        await after.signal("go_on")
        assert await before.result() == "old"
        assert await after.result() == "new"

    events = [event async for event in after.fetch_history_events()]
    (marker,) = [event for event in events if event.event_type == "MarkerRecorded"]
    assert marker.attributes["marker_name"] == "patch"
    assert "MarkerRecorded" not in await kinds(before)


async def test_a_deviation_fails_the_run_where_the_worker_says_so(client: Client) -> None:
    async with working(client, Second):
        handle = await begin(client, "Versioned")
        await happened(handle, "WorkflowTaskCompleted")
    async with working(client, First, workflow_failure_exception_types=[NondeterminismError]):
        await handle.signal("go_on")
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()

    assert "MarkerRecorded(marker_name='patch', marker_id='second')" in str(failed.value.cause)


# ---- what people see


@workflow.defn
class Telling:
    done = False

    @workflow.run
    async def run(self) -> dict[str, Any]:
        workflow.upsert_memo({"stage": "begun", "note": None})
        workflow.set_current_details("waits for the *word*")
        await workflow.sleep(0.01, summary="a short nap")
        await workflow.execute_activity(
            "look_up", "a", start_to_close_timeout=LIMIT, summary="look it up"
        )
        await workflow.wait_condition(lambda: self.done)
        return dict(workflow.memo())

    @workflow.signal(description="ends it")
    def finish(self) -> None:
        self.done = True


async def test_memo_summaries_details_and_stack_are_shown(client: Client) -> None:
    async with working(client, Telling, activities=Desk().all):
        handle = await begin(client, Telling.run, memo={"note": "gone", "owner": "me"})
        await happened(handle, "ActivityTaskCompleted")
        stack = await handle.query("__stack_trace")
        told = await handle.query("__perdure_workflow_metadata")
        expected = {"stage": "begun", "owner": "me"}
        assert (await handle.describe()).memo == expected
        listed = [one async for one in client.list_workflows()]
        await handle.signal("finish")
        assert await handle.result() == expected

    assert "Telling.run" in stack
    assert told["current_details"] == "waits for the *word*"
    assert told["definition"]["signal_definitions"] == [
        {"name": "finish", "description": "ends it"}
    ]
    assert [one.memo for one in listed] == [expected]
    summaries = {
        event.event_type: client.data_converter.payload_converter.from_payload(
            event.attributes["summary"]
        )
        async for event in handle.fetch_history_events()
        if "summary" in event.attributes
    }
    assert summaries == {"TimerStarted": "a short nap", "ActivityTaskScheduled": "look it up"}


# ---- dynamic


@workflow.defn(dynamic=True)
class Anything:
    @workflow.init
    def __init__(self, args: Sequence[RawValue]) -> None:
        read = workflow.payload_converter().from_payload
        self.said: list[Any] = [workflow.info().workflow_type]
        self.said += [read(one.payload) for one in args]

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> list[Any]:
        await workflow.wait_condition(lambda: "end" in self.said)
        return self.said

    @workflow.signal(dynamic=True)
    async def hear(self, name: str, args: Sequence[RawValue]) -> None:
        self.said += [name, *(workflow.payload_converter().from_payload(a.payload) for a in args)]

    @workflow.query(dynamic=True)
    def answer(self, name: str, args: Sequence[RawValue]) -> str:
        return f"{name} {len(args)}"


async def test_dynamic_workflows_and_handlers_take_what_nobody_else_does(client: Client) -> None:
    async with working(client, Anything, First):
        handle = await begin(client, "Whatever", 1, "two")
        assert await handle.query("how many", args=[1, 2, 3]) == "how many 3"
        await handle.signal("end", 3)
        assert await handle.result() == ["Whatever", 1, "two", "end", 3]
        known = await begin(client, "Versioned")
        await known.signal("go_on")
        assert await known.result() == "old"


async def test_a_worker_has_one_dynamic_workflow(client: Client) -> None:
    @workflow.defn(dynamic=True)
    class Other:
        @workflow.run
        async def run(self, args: Sequence[RawValue]) -> None: ...

    with pytest.raises(ValueError, match="at most one workflow can be dynamic"):
        Worker(client, task_queue=QUEUE, workflows=[Anything, Other])


async def replayed(handle: WorkflowHandle[Any, Any], *workflows: type) -> None:
    """The history goes to JSON and back, and replays."""
    history = WorkflowHistory.from_json(handle.id, (await handle.fetch_history()).to_json())
    await Replayer(workflows=workflows).replay_workflow(history)


async def test_what_the_code_said_replays_from_json(client: Client) -> None:
    desk = Desk()
    async with working(client, Locals, Retrying, Second, Telling, Anything, activities=desk.all):
        local = await begin(client, Locals.run, "a")
        retrying = await begin(client, Retrying.run, 0.01, 0.001)
        patched, telling = await begin(client, "Versioned"), await begin(client, Telling.run)
        anything = await begin(client, "Whatever")
        await patched.signal("go_on")
        await telling.signal("finish")
        await anything.signal("end")
        for handle in (local, retrying, patched, telling, anything):
            await handle.result()

    for handle in (local, retrying, patched, telling, anything):
        await replayed(handle, Locals, Retrying, Second, Telling, Anything)
    with pytest.raises(NondeterminismError):
        await replayed(patched, First)
