"""ScheduleService over gRPC: each method finds its verb, and what is refused says why."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.transport.calls import REQUEST_ID, refusal
from tests.integration.transport.conftest import Served
from tests.unit.frontend.test_schedules import HOUR_US, SAVED, SCHEDULE, SLOT, describing, state

from perdure_api.v1 import schedule_service_pb2 as pb
from perdure_api.v1 import schedule_service_pb2_grpc
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.schedules.intents import (
    Backfilled,
    BackfillSchedule,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    PauseSchedule,
    SlotsActed,
    TriggerSchedule,
    UpdateSchedule,
)

SPEC = {"intervals": [{"every_ms": 3_600_000}]}
HOURLY = {"spec": SPEC, "action": {"job": {"task_name": "report"}}}
TARGET = {"namespace": "default", "schedule_id": "nightly"}
CHANGE = {**TARGET, "request_id": REQUEST_ID}
METHODS: list[tuple[str, dict[str, Any], Any, type | None, Any]] = [
    ("CreateSchedule", {**CHANGE, "schedule": HOURLY}, SAVED, CreateSchedule, "conflict_token"),
    ("UpdateSchedule", {**CHANGE, "schedule": HOURLY}, SAVED, UpdateSchedule, "conflict_token"),
    ("DescribeSchedule", TARGET, None, DescribeSchedule, "schedule"),
    ("DeleteSchedule", CHANGE, SAVED, DeleteSchedule, None),
    ("PauseSchedule", CHANGE, SAVED, PauseSchedule, None),
    ("UnpauseSchedule", CHANGE, SAVED, PauseSchedule, "next_time_us"),
    ("TriggerSchedule", CHANGE, SlotsActed([SLOT]), TriggerSchedule, "slot"),
    (
        "BackfillSchedule",
        {**CHANGE, "from_us": 1, "to_us": 2},
        Backfilled([1], []),
        BackfillSchedule,
        "nominal_times_us",
    ),
    ("ListSchedules", {"namespace": "default"}, None, None, None),
    ("PreviewSchedule", {"spec": SPEC}, None, None, "times_us"),
]


def request_of(method: str, fields: dict[str, Any]) -> Any:
    return getattr(pb, f"{method}Request")(**fields)


def call(served: Served, method: str, fields: dict[str, Any]) -> Any:
    stub: Any = schedule_service_pb2_grpc.ScheduleServiceStub(served.channel)
    return getattr(stub, method)(request_of(method, fields))


@pytest.mark.parametrize(
    ("method", "fields", "reply", "kind", "told"), METHODS, ids=[one[0] for one in METHODS]
)
async def test_each_method_finds_its_verb(
    served: Served, method: str, fields: dict[str, Any], reply: Any, kind: Any, told: Any
) -> None:
    found = reply or describing(SCHEDULE, state(next_us=HOUR_US))
    served.history.answer = lambda _: found

    answer = await call(served, method, fields)

    assert [type(intent) for _, intent in served.history.scheduled] == ([kind] if kind else [])
    if told:
        assert getattr(answer, told)


@pytest.mark.parametrize(
    ("method", "fields"), [(one[0], one[1]) for one in METHODS if "namespace" in one[1]]
)
async def test_b13_a_namespace_that_there_is_not(
    served: Served, method: str, fields: dict[str, Any]
) -> None:
    refused = await refusal(call(served, method, {**fields, "namespace": "elsewhere"}))

    assert (refused.code, refused.reason) == (Code.NOT_FOUND, "NAMESPACE_NOT_FOUND")
    assert not served.room.touched


async def test_a_refusal_names_the_field_within_the_schedule(served: Served) -> None:
    """B29."""
    wrong = {**HOURLY, "spec": {"cron": ["@daily", "10-5 * * * *"]}}

    refused = await refusal(call(served, "CreateSchedule", {**CHANGE, "schedule": wrong}))

    assert (refused.code, refused.field) == (Code.INVALID_ARGUMENT, "schedule.spec.cron[1]")
    assert not served.room.touched


async def test_what_the_shard_says_travels_whole(served: Served) -> None:
    served.history.answer = lambda _: Rejected(Code.ABORTED, "SCHEDULE_CHANGED", "another came")

    refused = await refusal(
        call(served, "UpdateSchedule", {**CHANGE, "schedule": HOURLY, "conflict_token": 3})
    )

    assert (refused.code, refused.reason) == (Code.ABORTED, "SCHEDULE_CHANGED")


async def test_slots_of_no_schedule_are_not_found(served: Served) -> None:
    refused = await refusal(call(served, "ListScheduleSlots", TARGET))

    assert (refused.code, refused.reason) == (Code.NOT_FOUND, "SCHEDULE_NOT_FOUND")
