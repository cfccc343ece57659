"""What follows from an activity's result comes with it: over real gRPC and PostgreSQL, by hand and with the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from tests.channels import channel_to
from tests.engine_node import running_node
from tests.integration.server.by_hand import QUEUE, WORKER_ID, Hand, names
from tests.integration.server.calls import CALL_S, shown_on

from perdure import activity, workflow
from perdure.client import Client
from perdure.errors import RPCError, RPCStatusCode
from perdure.worker import Replayer, Worker
from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_api.v1 import worker_service_pb2_grpc
from perdure_engine.server.node import Node

CHARGE = wpb.ScheduleActivity(
    activity_type="charge", start_to_close_timeout_ms=60_000, activity_id="a"
)
DONE = wpb.Command(complete_workflow=wpb.CompleteWorkflow())


class ByHand(Hand):
    """A worker that has its runs in memory, and goes ahead."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        super().__init__(channel)
        self._raw: Any = worker_service_pb2_grpc.WorkerServiceStub(channel)

    async def begin(self, workflow_id: str) -> tuple[wpb.WorkflowTask, wpb.ActivityTask]:
        """A run whose first workflow task has asked for one activity: both tasks."""
        await self.start(workflow_id, "Order")
        (task,) = await self.poll()
        success = wpb.WorkflowTaskSuccess(
            commands=[wpb.Command(schedule_activity=CHARGE)], cached=True
        )
        await self.say(wpb.TaskCompletion(token=task.token, workflow_task_success=success))
        return task, await self.poll_activity()

    async def poll_activity(self) -> wpb.ActivityTask:
        request = wpb.PollTasksRequest(
            namespace="default",
            task_queue=QUEUE,
            worker_id=WORKER_ID,
            max_activity_tasks=1,
            timeout_ms=20_000,
        )
        answer = await self._raw.PollTasks(request, timeout=CALL_S)
        (task,) = answer.activity_tasks
        return task  # type: ignore[no-any-return]  # a message

    async def say(self, *completions: wpb.TaskCompletion) -> wpb.CompleteTasksResponse:
        request = wpb.CompleteTasksRequest(
            namespace="default", worker_id=WORKER_ID, completions=completions
        )
        return await self._raw.CompleteTasks(request, timeout=CALL_S)  # type: ignore[no-any-return]  # a message


@asynccontextmanager
async def by_hand(dsn: str) -> AsyncIterator[ByHand]:
    async with running_node(dsn) as node, channel_to(node.address) as channel:
        yield ByHand(channel)


def result(
    task: wpb.WorkflowTask, attempt: wpb.ActivityTask, *commands: wpb.Command, **changes: Any
) -> wpb.TaskCompletion:
    """Of the first activity, with what the workflow's code does next."""
    fields: dict[str, Any] = {
        "previous_started_event_id": task.started_event_id,
        # Completed, Scheduled; the attempt's Started and Completed; the next task's Scheduled
        "started_event_id": task.started_event_id + 6,
        "started_time_us": attempt.started_time_us,
        "success": wpb.WorkflowTaskSuccess(commands=commands, cached=True),
    }
    ahead = wpb.WorkflowTaskAhead(**(fields | changes))
    success = wpb.ActivitySuccess(result=b"", ahead=ahead)
    return wpb.TaskCompletion(token=attempt.token, activity_success=success)


TO_THE_RESULT = [
    "workflow_execution_started",
    "workflow_task_scheduled",
    "workflow_task_started",
    "workflow_task_completed",
    "activity_task_scheduled",
    "activity_task_started",
    "activity_task_completed",
    "workflow_task_scheduled",
]


async def test_what_was_done_ahead_is_saved_with_the_result(database_dsn: str) -> None:
    async with by_hand(database_dsn) as worker:
        task, attempt = await worker.begin("order")
        assert attempt.may_go_ahead
        answer = await worker.say(result(task, attempt, DONE))

        assert not answer.failures
        assert list(answer.went_ahead) == [0]
        assert names(await worker.history("order")) == [
            *TO_THE_RESULT,
            "workflow_task_started",
            "workflow_task_completed",
            "workflow_execution_completed",
        ]
        again = await worker.say(result(task, attempt, DONE))
        assert [failure.index for failure in again.failures] == [0], "invariant 30: once"
        assert not again.went_ahead


@pytest.mark.parametrize(
    ("commands", "changes"),
    [
        ([DONE], {"started_event_id": 99}),
        ([DONE], {"started_event_id": -(1 << 63), "started_time_us": (1 << 63) - 1}),
        ([DONE, DONE], {}),
        ([wpb.Command()], {}),
        ([wpb.Command(schedule_activity=wpb.ScheduleActivity(activity_id="b"))], {}),
        ([wpb.Command(start_timer=wpb.StartTimer(timer_id="t", start_to_fire_ms=-1))], {}),
    ],
)
async def test_b27_what_cannot_count_leaves_the_result_as_it_is(
    database_dsn: str, commands: list[wpb.Command], changes: dict[str, Any]
) -> None:
    """Another history, or commands that can never be carried out: the task comes as usual, and fails there."""
    async with by_hand(database_dsn) as worker:
        task, attempt = await worker.begin("order")
        answer = await worker.say(result(task, attempt, *commands, **changes))

        assert not answer.failures
        assert not answer.went_ahead
        assert names(await worker.history("order")) == TO_THE_RESULT
        (as_usual,) = await worker.poll()
        assert names(as_usual.events)[-4:] == [
            "activity_task_started",
            "activity_task_completed",
            "workflow_task_scheduled",
            "workflow_task_started",
        ]


# --- with the SDK ---------------------------------------------------------------------------------

MINUTE = timedelta(minutes=1)
effects: dict[str, list[int]] = {}


@activity.defn
async def note(name: str, number: int) -> int:
    effects.setdefault(name, []).append(number)
    return number


@workflow.defn
class Busy:
    """One activity after the other, while signals come; each signal runs one as well."""

    def __init__(self) -> None:
        self.signals = 0

    @workflow.signal
    async def more(self) -> None:
        self.signals += 1
        number = 1_000 + self.signals
        await workflow.execute_activity(
            note, args=[workflow.info().workflow_id, number], start_to_close_timeout=MINUTE
        )

    @workflow.query
    def seen(self) -> int:
        return self.signals

    @workflow.run
    async def run(self, count: int) -> int:
        total = 0
        for number in range(count):
            total += await workflow.execute_activity(
                note, args=[workflow.info().workflow_id, number], start_to_close_timeout=MINUTE
            )
        await workflow.wait_condition(workflow.all_handlers_finished)
        return total + self.signals


STEPS, SIGNALS = 60, 40


async def test_signals_and_queries_in_between(database_dsn: str) -> None:
    """Invariants 30, 41: whatever comes between a result and what was done ahead, each effect is there once, each
    signal was seen, and the history replays."""
    effects.clear()
    ids = [f"busy-{number}" for number in range(4)]
    async with (
        running_node(database_dsn) as node,
        await Client.connect(node.address) as client,
        Worker(client, task_queue="busy", workflows=[Busy], activities=[note]) as worker,
    ):
        handles = [
            await client.start_workflow(Busy.run, STEPS, id=id, task_queue="busy") for id in ids
        ]
        sent = await asyncio.gather(*[disturb(handle) for handle in handles])
        results = await asyncio.gather(*[handle.result() for handle in handles])
        histories = [await handle.fetch_history() for handle in handles]
        assert worker is not None
        assert await went_ahead(node) > 0

    steps = list(range(STEPS))
    for id, signals, got in zip(ids, sent, results, strict=True):
        assert got == sum(steps) + signals
        assert sorted(effects[id]) == [*steps, *range(1_001, 1_001 + signals)]
    for history in histories:
        times = [event.event_time for event in history.events]
        assert times == sorted(times), "invariant 7"
    for history in histories:
        await Replayer(workflows=[Busy]).replay_workflow(history)


async def went_ahead(node: Node) -> float:
    """How often it counted."""
    shown = await shown_on(node.http_address)
    return shown.get(("perdure_workflow_tasks_ahead_total", (("outcome", "counted"),)), 0.0)


instances: list[object] = []


@workflow.defn
class Steps:
    def __init__(self) -> None:
        instances.append(self)

    @workflow.run
    async def run(self, count: int) -> None:
        for number in range(count):
            await workflow.execute_activity(
                note, args=[workflow.info().workflow_id, number], start_to_close_timeout=MINUTE
            )


async def test_undisturbed_a_run_goes_ahead_step_by_step(database_dsn: str) -> None:
    """One object from the first step to the last: nothing was thrown away and done anew."""
    effects.clear()
    instances.clear()
    async with (
        running_node(database_dsn) as node,
        await Client.connect(node.address) as client,
        Worker(client, task_queue="steps", workflows=[Steps], activities=[note]),
    ):
        await client.execute_workflow(Steps.run, 20, id="steps", task_queue="steps")
        counted = await went_ahead(node)

    assert counted >= 15, "but for a machine that stands still for seconds: 20"
    assert effects["steps"] == list(range(20))
    assert len(instances) <= 1 + 20 - counted, "each that does not count costs a replay"


async def test_with_a_debugger_nobody_goes_ahead(database_dsn: str) -> None:
    """Nobody watches the code, which may stand still while a result waits for it."""
    effects.clear()
    async with (
        running_node(database_dsn) as node,
        await Client.connect(node.address) as client,
        Worker(client, task_queue="steps", workflows=[Steps], activities=[note], debug_mode=True),
    ):
        await client.execute_workflow(Steps.run, 5, id="steps", task_queue="steps")
        counted = await went_ahead(node)

    assert counted == 0
    assert effects["steps"] == list(range(5))


async def disturb(handle: Any) -> int:
    """Signals and queries one after the other. Returns how many signals the run took."""
    for sent in range(SIGNALS):
        try:
            await handle.signal(Busy.more)
            assert await handle.query(Busy.seen) >= sent + 1
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return sent  # it has closed
    return SIGNALS
