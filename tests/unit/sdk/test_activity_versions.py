"""Which version of an activity a run schedules: that of its history, or the newest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, in_memory

from perdure import activity, workflow
from perdure._definitions import (
    ActivityRegistry,
    WorkflowDefinition,
    activity_definition,
    workflow_definition,
)
from perdure._replay.instance import WorkflowInstance
from perdure._replay.messages import ScheduleActivity
from perdure.converter import DataConverter

LIMIT = timedelta(seconds=10)


@activity.defn(name="weigh")
def weigh_1(parcel: str) -> int:
    return 1


@activity.defn(name="weigh", version=2)
def weigh_2(parcel: str) -> int:
    return 2


async def twice(what: Any) -> None:
    await workflow.execute_activity(what, "a", start_to_close_timeout=LIMIT)
    await workflow.execute_activity(what, "b", start_to_close_timeout=LIMIT)


@workflow.defn(name="Weighing")
class Before:
    @workflow.run
    async def run(self) -> None:
        await twice(weigh_1)


@workflow.defn(name="Weighing")
class After:
    @workflow.run
    async def run(self) -> None:
        await twice(weigh_2)


@workflow.defn
class ByName:
    @workflow.run
    async def run(self) -> None:
        await twice("weigh")


def version(commands: list[Any]) -> int:
    (command,) = commands
    assert isinstance(command, ScheduleActivity)
    return command.version


def deployed(cls: type, newest: dict[str, int]) -> Callable[[], WorkflowInstance]:
    definition: WorkflowDefinition = workflow_definition(cls)
    return lambda: WorkflowInstance(
        definition,
        namespace="default",
        data_converter=DataConverter.default,
        newest_activities=newest,
    )


def deploy(run: PocketEngine, instance: Callable[[], WorkflowInstance]) -> None:
    """The next workflow task goes to a worker with other code, with the whole history."""
    run.instance, run.sent = instance(), 0
    in_memory.append(run.instance)


def test_a_new_run_takes_the_version_of_the_function() -> None:
    assert version(PocketEngine(Before).task()) == 0
    run = PocketEngine(After)
    assert version(run.task()) == 2
    run.complete("1", 2)
    assert version(run.task()) == 2


def test_a_run_that_began_with_the_first_version_keeps_it_in_newer_code() -> None:
    run = PocketEngine(Before)
    run.task()
    run.complete("1", 1)
    deploy(run, deployed(After, {"weigh": 2}))

    assert version(run.task()) == 0


def test_a_run_that_began_with_the_second_version_keeps_it_in_older_code() -> None:
    run = PocketEngine(After)
    run.task()
    run.complete("1", 2)
    deploy(run, deployed(Before, {}))

    assert version(run.task()) == 2


def test_by_name_the_newest_that_the_worker_has() -> None:
    run = PocketEngine(ByName)
    deploy(run, deployed(ByName, {"weigh": 2}))
    assert version(run.task()) == 2
    run.complete("1", 2)
    deploy(run, deployed(ByName, {"weigh": 3}))
    assert version(run.task()) == 2

    assert version(PocketEngine(ByName).task()) == 0


# ---- what a worker registers


def test_the_newest_of_a_name_and_the_others() -> None:
    one, two = activity_definition(weigh_1), activity_definition(weigh_2)

    registry = ActivityRegistry([weigh_2, weigh_1])

    assert registry.newest == {"weigh": two}
    assert registry.others == {("weigh", 1): one}
    assert registry.versions == {"weigh": 2}
    with pytest.raises(ValueError, match="registered twice: weigh version 2"):
        ActivityRegistry([weigh_2, weigh_1, weigh_2])


@pytest.mark.parametrize("options", [{"version": 0}, {"version": 2, "dynamic": True}])
def test_what_is_no_version(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="a version counts from 1"):

        @activity.defn(**options)
        def odd(value: int) -> None: ...
