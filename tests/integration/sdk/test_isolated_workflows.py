"""Workflow tasks that run alone, in real processes, against the fake engine."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.sdk import alone_code as code
from tests.integration.sdk.fake_engine import FakeEngine

from perdure import workflow
from perdure._wire.payloads import payloads_to_bytes
from perdure._worker.isolation import bootstrap, launcher
from perdure.client import Client, WorkflowHandle
from perdure.converter import PayloadConverter
from perdure.worker import SurgicalPool, Worker
from perdure_api.v1 import event_pb2
from perdure_api.v1 import worker_service_pb2 as worker_pb

QUEUE = "queue"
DEADLOCK = event_pb2.WORKFLOW_TASK_FAILED_CAUSE_DEADLOCK


@pytest.fixture(autouse=True)
def crashed_twice(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.runs.workflow_tasks_have_crashed = 2
    monkeypatch.syspath_prepend(Path(__file__).parents[3])  # "spawn" imports the code by its name


@workflow.defn(sandboxed=False)
class Collects:
    def __init__(self) -> None:
        self.got: list[str] = []

    @workflow.run
    async def run(self, wanted: int) -> list[Any]:
        await workflow.wait_condition(lambda: len(self.got) >= wanted)
        return [os.getpid(), *self.got]

    @workflow.signal
    def add(self, one: str) -> None:
        self.got.append(one)


def worker(client: Client, *workflows: type, **options: Any) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[*(workflows or (code.Alone, code.Dies))],
        activities=[code.local_pid],
        **{"graceful_shutdown_timeout": timedelta(), **options},
    )


async def start(client: Client, run: Any, arg: object) -> WorkflowHandle[Any, Any]:
    return await client.start_workflow(run, arg, id="alone", task_queue=QUEUE)


def workflow_value(value: str) -> bytes:
    return payloads_to_bytes(PayloadConverter().to_payloads([value]))


async def until_successes(engine: FakeEngine, count: int) -> None:
    await engine.until(lambda: len(engine.completions("workflow_task_success")) == count)


async def until_crash(engine: FakeEngine) -> worker_pb.TaskCrash:
    await engine.until(lambda: bool(engine.completions("task_crash")))
    crash: worker_pb.TaskCrash = engine.completions("task_crash")[0].task_crash
    return crash


async def test_a_task_with_a_local_activity(engine: FakeEngine, client: Client) -> None:
    async with worker(client):
        (pid,) = await (await start(client, code.Alone.run, 0)).result()
    assert pid != os.getpid()
    (success,) = engine.completions("workflow_task_success")
    assert not success.workflow_task_success.cached


async def test_each_task_alone_replays_a_history_that_comes_in_pages(
    engine: FakeEngine, client: Client
) -> None:
    engine.page_events = 2
    async with worker(client):
        handle = await start(client, code.Alone.run, 3)
        for count in range(1, 4):
            await until_successes(engine, count)
            await handle.signal(code.Alone.add, str(count))
        pid, *got = await handle.result()
    assert got == ["1", "2", "3"]
    assert pid != os.getpid()
    assert engine.requests["GetTaskHistory"]
    assert not engine.completions("workflow_task_failure")


async def test_where_nothing_can_run_alone_they_run_in_the_worker(
    engine: FakeEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the whole history, which the run in the worker's memory has most of."""
    monkeypatch.setattr(launcher, "main_script_can_be_imported", lambda: False)
    engine.page_events = 2
    async with worker(client, Collects):
        handle = await start(client, Collects.run, 3)
        for count in range(1, 4):
            await until_successes(engine, count)
            await handle.signal(Collects.add, str(count))
        assert await handle.result() == [os.getpid(), "1", "2", "3"]
    assert not engine.completions("workflow_task_failure")
    assert list(engine.requests["Goodbye"][0].released_tokens) == []


async def test_a_query_that_comes_with_a_task_is_answered(
    engine: FakeEngine, client: Client
) -> None:
    handle = await start(client, code.Alone.run, 0)
    run = engine.runs.by_workflow_id["alone"]
    query = worker_pb.TaskQuery(query_token=b"q", query_type="how_many")
    answer = engine.runs.ask(run, query)
    async with worker(client):
        await handle.result()
    assert b"0" in (await answer).result


async def test_an_update_is_taken_and_answered(engine: FakeEngine, client: Client) -> None:
    await start(client, code.Alone.run, 9)
    (run,) = engine.runs.by_run_id.values()
    one = workflow_value("one")
    run.updates.append(worker_pb.TaskUpdate(update_id="u", update_name="put", args=one))
    async with worker(client):
        await engine.until(lambda: bool(engine.completions("workflow_task_success")))
    (success,) = engine.completions("workflow_task_success")
    commands = [one.WhichOneof("command") for one in success.workflow_task_success.commands]
    assert [one for one in commands if "update" in one] == ["accept_update", "complete_update"]


@pytest.mark.parametrize(
    ("how", "message"),
    [("SIGSEGV", "killed by signal 11 (SIGSEGV)"), ("os._exit", "exit code 4")],
)
async def test_invariant_36_workflow_code_ends_its_process_and_no_other(
    engine: FakeEngine, client: Client, how: str, message: str
) -> None:
    async with worker(client, surgical=None):
        await start(client, code.Dies.run, how)
        crash = await until_crash(engine)
        engine.runs.workflow_tasks_have_crashed = 0
        await client.execute_workflow(code.Dies.run, "fine", id="other", task_queue=QUEUE)
    assert crash.message == message
    assert "workflow task of workflow Dies 'alone', attempt 1, events 1 to 3" in crash.report
    assert len(engine.completions("task_crash")) == 1


@pytest.mark.parametrize("how", ["spin", "block"])
async def test_code_that_keeps_the_loop_is_reported_and_ended(
    engine: FakeEngine, client: Client, how: str
) -> None:
    async with worker(client, surgical=None):
        await start(client, code.Dies.run, how)
        await engine.until(lambda: bool(engine.completions("workflow_task_failure")))
    failures = engine.completions("workflow_task_failure")
    assert {one.workflow_task_failure.cause for one in failures} == {DEADLOCK}
    assert "alone_code.py" in failures[0].workflow_task_failure.failure.stack_trace
    assert not engine.completions("task_crash")


async def test_steps_of_the_surgical_pool_are_traced(engine: FakeEngine, client: Client) -> None:
    engine.runs.workflow_tasks_have_crashed = 3
    async with worker(client, surgical=SurgicalPool()):
        await start(client, code.Dies.run, "SIGSEGV")
        crash = await until_crash(engine)
    assert "workflow: its code begins" in crash.report.partition("its steps")[2]


async def test_what_the_code_cannot_be_made_of_fails_the_task(
    engine: FakeEngine, client: Client
) -> None:
    async with worker(client):
        await client.start_workflow("Nobody", id="nobody", task_queue=QUEUE)
        await engine.until(lambda: bool(engine.completions("workflow_task_failure")))
    (failed,) = engine.completions("workflow_task_failure")
    assert failed.workflow_task_failure.cause == 5  # UNKNOWN_WORKFLOW_TYPE


async def test_a_worker_cannot_be_made_in_a_process_that_is_being_prepared(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Prepared:
        name = bootstrap.PROCESS_NAME

    monkeypatch.setattr("multiprocessing.current_process", Prepared)
    with pytest.raises(RuntimeError, match='if __name__ == "__main__"'):
        worker(client)
