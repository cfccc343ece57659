"""What the code says of its run (memo, summaries), and which errors may end it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, payloads, value_of

from perdure import activity, workflow
from perdure._definitions import workflow_definition
from perdure._replay import messages as m
from perdure._replay.instance import WorkflowInstance
from perdure.converter import DataConverter, Payload
from perdure.errors import NondeterminismError, PayloadDecodeError

LIMIT = timedelta(seconds=10)


@activity.defn
async def work() -> None: ...


@workflow.defn
class Remembering:
    @workflow.run
    async def run(self) -> list[Any]:
        assert "note" in workflow.info().raw_memo
        workflow.upsert_memo({"stage": 1, "note": None, "new": [2]})
        workflow.upsert_memo({})
        await workflow.sleep(1)
        stage: int = workflow.memo_value("stage", type_hint=int)
        assert "new" in workflow.info().raw_memo
        return [dict(workflow.memo()), stage, workflow.memo_value("note", "none")]


def test_an_upsert_is_seen_at_once_and_again_on_replay() -> None:
    (note, owner) = payloads("a note", "me")
    run = PocketEngine(Remembering, memo={"note": note, "owner": owner})
    upsert, _ = run.task()
    assert isinstance(upsert, m.ModifyProperties)
    assert upsert.upserted_memo == dict(
        zip(("stage", "note", "new"), (*payloads(1), None, *payloads([2])), strict=True)
    )
    run.fire("1")

    (done,) = run.task()
    assert isinstance(done, m.CompleteWorkflow)
    assert value_of(done.result) == [{"owner": "me", "stage": 1, "new": [2]}, 1, "none"]
    assert isinstance(run.replay_all(), m.TaskSuccess)


@pytest.mark.parametrize("what", ["query", "condition"])
def test_who_may_not_change_the_memo(what: str) -> None:
    @workflow.defn
    class Meddling:
        @workflow.run
        async def run(self, what: str) -> None:
            await workflow.wait_condition(self.change if what == "condition" else lambda: False)

        def change(self) -> bool:
            workflow.upsert_memo({"a": 1})
            return True

        @workflow.query
        def ask(self) -> bool:
            return self.change()

    run = PocketEngine(Meddling, what)
    if what == "condition":
        assert "must not change" in run.failed_task().failure.message
        return
    run.task()
    failure = run.query("ask").failure
    assert failure is not None
    assert "must not change" in failure.message


def test_summaries_go_with_what_they_are_of_and_nothing_else() -> None:
    @workflow.defn
    class Telling:
        @workflow.run
        async def run(self) -> None:
            workflow.start_activity(work, start_to_close_timeout=LIMIT, summary="works")
            workflow.start_activity(work, start_to_close_timeout=LIMIT)
            await workflow.sleep(0, summary="no timer")
            await workflow.sleep(1, summary="naps")
            try:
                await workflow.wait_condition(lambda: False, timeout=2, timeout_summary="gives up")
            except TimeoutError:
                await workflow.sleep(3)

    def summaries(commands: list[m.Command]) -> list[str | None]:
        found: list[Payload | None] = [
            one.summary for one in commands if isinstance(one, m.ScheduleActivity | m.StartTimer)
        ]
        return [None if one is None else value_of([one]) for one in found]

    run = PocketEngine(Telling)
    assert summaries(run.task()) == ["works", None, "naps"]
    run.fire("1")
    assert summaries(run.task()) == ["gives up"]
    run.fire("2")
    assert summaries(run.task()) == [None]
    assert isinstance(run.replay_all(), m.TaskSuccess)


# ---- errors that may end the run


@workflow.defn(name="Flow")
class Before:
    @workflow.run
    async def run(self) -> None:
        await workflow.sleep(1)


@workflow.defn(name="Flow", failure_exception_types=[NondeterminismError])
class Strict:
    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(work, start_to_close_timeout=LIMIT)


def test_a_deviation_found_by_a_replay_ends_the_run_if_the_user_wants_it() -> None:
    run = PocketEngine(Before)
    run.task()
    run.fire("1")
    run.begin_task()

    (command,) = run.replay(Strict)
    assert isinstance(command, m.FailWorkflow)
    assert "history event 5 is TimerStarted" in command.failure.message


def test_a_query_never_ends_a_run() -> None:
    run = PocketEngine(Before)
    run.task()

    assert isinstance(run.replay_all(Strict), m.TaskFailure)


def test_a_worker_may_say_so_for_all_its_workflows() -> None:
    @workflow.defn
    class Reading:
        @workflow.run
        async def run(self) -> None:
            await workflow.wait_condition(lambda: False)

        @workflow.signal
        def take(self, number: int) -> None: ...

    run = PocketEngine(Reading)
    run.signal("take", "no number")
    run.begin_task()
    for types, kind in (((PayloadDecodeError,), m.TaskSuccess), ((), m.TaskFailure)):
        instance = WorkflowInstance(
            workflow_definition(Reading),
            namespace="default",
            data_converter=DataConverter.default,
            failure_exception_types=types,
        )
        outcome = instance.activate(run.message(run.events))
        instance.evict()
        assert isinstance(outcome, kind)
        if isinstance(outcome, m.TaskSuccess):
            assert names(outcome.commands)[0].startswith("FailWorkflow")
