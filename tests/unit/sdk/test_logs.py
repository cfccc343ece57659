"""The loggers of workflows and activities: what they add, and how it is switched off."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine

from perdure import activity, workflow
from perdure.testing import ActivityEnvironment


@workflow.defn
class Speaking:
    @workflow.run
    async def run(self) -> None:
        workflow.logger.info("hello %s", "you")
        await workflow.sleep(1)
        workflow.logger.info("again")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    workflow.logger.workflow_info_on_message = True
    workflow.logger.workflow_info_on_extra = True
    workflow.logger.full_workflow_info_on_extra = False
    workflow.logger.log_during_replay = False
    activity.logger.activity_info_on_message = True
    activity.logger.activity_info_on_extra = True
    activity.logger.full_activity_info_on_extra = False


def speaking(caplog: pytest.LogCaptureFixture, **started: Any) -> PocketEngine:
    caplog.set_level(logging.INFO)
    run = PocketEngine(Speaking, started=started)
    run.task()
    return run


def test_a_workflow_says_who_it_is(caplog: pytest.LogCaptureFixture) -> None:
    speaking(caplog)

    (record,) = caplog.records
    assert record.getMessage().startswith("hello you ({'attempt': 1, 'namespace': 'default'")
    said = vars(record)["perdure_workflow"]
    assert said["workflow_id"] == "w-1"
    assert said["workflow_type"] == "Speaking"
    assert "workflow_info" not in vars(record)


def test_what_a_workflow_adds_can_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    workflow.logger.workflow_info_on_message = False
    workflow.logger.workflow_info_on_extra = False
    workflow.logger.full_workflow_info_on_extra = True
    speaking(caplog)

    (record,) = caplog.records
    assert record.getMessage() == "hello you"
    assert "perdure_workflow" not in vars(record)
    assert vars(record)["workflow_info"].workflow_id == "w-1"


def test_a_replay_can_be_made_to_speak(caplog: pytest.LogCaptureFixture) -> None:
    run = speaking(caplog)
    caplog.clear()
    run.replay_all()
    assert caplog.messages == []

    workflow.logger.log_during_replay = True
    run.replay_all()
    assert len(caplog.messages) == 1


def test_an_id_is_no_format(caplog: pytest.LogCaptureFixture) -> None:
    speaking(caplog, task_queue="100%s of %d")

    assert "100%s of %d" in caplog.messages[0]


def test_the_line_is_that_of_who_speaks(caplog: pytest.LogCaptureFixture) -> None:
    speaking(caplog)

    assert caplog.records[0].pathname == __file__
    assert caplog.records[0].funcName == "run"


async def test_an_activity_says_who_it_is_and_what_it_adds_can_be_chosen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    environment = ActivityEnvironment()
    environment.run(lambda: activity.logger.warning("one of %d", 2, extra={"mine": 1}))
    activity.logger.activity_info_on_message = False
    activity.logger.activity_info_on_extra = False
    activity.logger.full_activity_info_on_extra = True
    environment.run(lambda: activity.logger.warning("two"))

    first, second = caplog.records
    assert first.getMessage().startswith("one of 2 ({'activity_id'")
    assert vars(first)["perdure_activity"]["workflow_type"]
    assert vars(first)["mine"] == 1
    assert second.getMessage() == "two"
    assert "perdure_activity" not in vars(second)
    assert isinstance(vars(second)["activity_info"], activity.Info)


def test_handlers_are_given_to_the_logger_behind() -> None:
    assert workflow.logger.base_logger is logging.getLogger("perdure.workflow")
    assert activity.logger.base_logger is logging.getLogger("perdure.activity")


def test_fields_of_the_adapter_stay(caplog: pytest.LogCaptureFixture) -> None:
    own = workflow.LoggerAdapter(logging.getLogger("mine"), {"team": "orders"})
    own.warning("outside", extra={"mine": 1})
    own.warning("%s", "plain")

    assert caplog.messages == ["outside", "plain"]
