"""Schedules on the wire: what goes comes back as it was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import job, workflow
from perdure._client.schedule_actions import read_action, wire_action
from perdure._wire.schedule_messages import (
    schedule_from_message,
    schedule_to_message,
    spec_from_message,
    spec_to_message,
)
from perdure.common import (
    AutoUpgradeVersioningOverride,
    PinnedVersioningOverride,
    Priority,
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkerDeploymentVersion,
)
from perdure.converter import DataConverter, Payload
from perdure.errors import PayloadEncodeError, RPCError, RPCStatusCode
from perdure.schedule import (
    Schedule,
    ScheduleAction,
    ScheduleActionStartJob,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleCatchUpPolicy,
    ScheduleGapPolicy,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleRepeatPolicy,
    ScheduleSpec,
    ScheduleState,
)
from perdure_api.v1 import schedule_service_pb2 as pb

CONVERTER = DataConverter.default.payload_converter
AMOUNT = SearchAttributePair(SearchAttributeKey.for_int("Amount"), 7)


@workflow.defn
class Report:
    @workflow.run
    async def run(self, kind: str) -> None: ...


@job.defn
async def send(to: str, subject: str) -> None: ...


def there_and_back(schedule: Schedule) -> Schedule:
    message = schedule_to_message(schedule, wire_action(schedule.action, CONVERTER))
    return schedule_from_message(pb.Schedule.FromString(message.SerializeToString()), read_action)


# ---- any schedule

ranges = st.builds(ScheduleRange, st.integers(0, 59), st.integers(0, 59), st.integers(0, 60))
range_lists = st.lists(ranges, max_size=3).map(tuple)
calendars = st.builds(
    ScheduleCalendarSpec,
    second=range_lists,
    minute=range_lists,
    hour=range_lists,
    day_of_month=range_lists,
    month=range_lists,
    year=range_lists,
    day_of_week=range_lists,
    comment=st.none() | st.text(min_size=1, max_size=5),
)
milliseconds = st.integers(1, 10**9).map(lambda ms: timedelta(milliseconds=ms))
instants = st.datetimes(
    min_value=datetime(1970, 1, 1, 0, 0, 1), max_value=datetime(2999, 1, 1)
).map(lambda naive: naive.replace(tzinfo=UTC))
specs = st.builds(
    ScheduleSpec,
    calendars=st.lists(calendars, max_size=2),
    intervals=st.lists(
        st.builds(ScheduleIntervalSpec, milliseconds, st.none() | milliseconds), max_size=2
    ),
    cron_expressions=st.lists(st.text(max_size=9), max_size=2),
    skip=st.lists(calendars, max_size=2),
    start_at=st.none() | instants,
    end_at=st.none() | instants,
    jitter=st.none() | milliseconds,
    time_zone_name=st.none() | st.sampled_from(["Europe/Berlin", "UTC"]),
    dates=st.lists(instants, max_size=3),
    seconds_first=st.booleans(),
    gap=st.sampled_from(ScheduleGapPolicy),
    repeat=st.sampled_from(ScheduleRepeatPolicy),
)
policies = st.builds(
    SchedulePolicy,
    overlap=st.sampled_from(ScheduleOverlapPolicy),
    catchup_window=st.none() | milliseconds,
    pause_on_failure=st.booleans(),
    catchup=st.sampled_from(ScheduleCatchUpPolicy),
    catchup_most=st.none() | st.integers(1, 1_000),
)
states = st.builds(
    ScheduleState,
    note=st.none() | st.text(min_size=1, max_size=9),
    paused=st.booleans(),
    limited_actions=st.booleans(),
    remaining_actions=st.integers(0, 10**6),
)
payloads = st.builds(Payload, st.just("json/plain"), st.just(b"1"))
retries = st.none() | st.builds(
    RetryPolicy,
    initial_interval=milliseconds,
    maximum_attempts=st.integers(0, 9),
    non_retryable_error_types=st.none() | st.just(("Bad",)),
)
options: dict[str, Any] = {
    "args": st.lists(payloads, max_size=2),
    "retry_policy": retries,
    "priority": st.builds(Priority, priority_key=st.none() | st.integers(1, 5)),
    "headers": st.none() | st.just({"trace": Payload("json/plain", b"2")}),
}
jobs = st.builds(
    ScheduleActionStartJob,
    st.text(min_size=1, max_size=9),
    queue=st.text(min_size=1, max_size=9),
    user_id=st.text(max_size=9),
    timeout=st.none() | milliseconds,
    heartbeat_timeout=st.none() | milliseconds,
    **options,
)
overrides = st.sampled_from(
    [
        None,
        AutoUpgradeVersioningOverride(),
        PinnedVersioningOverride(WorkerDeploymentVersion("d", "b")),
    ]
)
workflows = st.builds(
    ScheduleActionStartWorkflow,
    st.text(min_size=1, max_size=9),
    id=st.text(max_size=9),
    task_queue=st.text(min_size=1, max_size=9),
    execution_timeout=st.none() | milliseconds,
    run_timeout=st.none() | milliseconds,
    task_timeout=st.none() | milliseconds,
    memo=st.none() | st.just({"kind": Payload("json/plain", b'"x"')}),
    typed_search_attributes=st.sampled_from(
        [TypedSearchAttributes.empty, TypedSearchAttributes([AMOUNT])]
    ),
    static_summary=st.none() | payloads,
    static_details=st.none() | payloads,
    versioning_override=overrides,
    **options,
)
schedules = st.builds(Schedule, jobs | workflows, specs, policies, states)


@given(schedules)
def test_any_schedule_comes_back_as_it_went(schedule: Schedule) -> None:
    assert there_and_back(schedule) == schedule


@given(specs)
def test_so_do_the_times_alone(spec: ScheduleSpec) -> None:
    assert spec_from_message(spec_to_message(spec)) == spec


# ---- what travels


def test_values_are_converted_once_and_payloads_never() -> None:
    action = ScheduleActionStartWorkflow(
        Report.run, "daily", id="report", task_queue="q", memo={"a": 1}, static_summary="s"
    )

    back = there_and_back(Schedule(action, ScheduleSpec())).action

    assert isinstance(back, ScheduleActionStartWorkflow)
    assert back.workflow == "Report"
    assert [CONVERTER.from_payload(one) for one in back.args] == ["daily"]
    assert back.memo == {"a": CONVERTER.to_payload(1)}
    assert back.static_summary == CONVERTER.to_payload("s")
    assert there_and_back(Schedule(back, ScheduleSpec())).action == back


def test_a_job_is_named_by_its_function_and_has_the_default_queue() -> None:
    action = ScheduleActionStartJob(send, "ada@example.org", "Hello")

    message = schedule_to_message(
        Schedule(action, ScheduleSpec()), wire_action(action, CONVERTER)
    ).action.job

    assert (message.task_name, message.task_queue) == ("send", "default")
    told = {field.name for field, _ in message.ListFields()}
    assert told == {"task_name", "task_queue", "input"}, "the rest is the engine's default"


def test_nothing_of_a_start_travels_that_each_slot_has_of_its_own() -> None:
    action = ScheduleActionStartWorkflow("Report", id="report", task_queue="q")

    message = schedule_to_message(
        Schedule(action, ScheduleSpec()), wire_action(action, CONVERTER)
    ).action.workflow

    assert message.workflow_id == "report"
    assert {field.name for field, _ in message.start.ListFields()} == {
        "workflow_type",
        "task_queue",
    }


def test_a_naive_instant_is_taken_as_utc() -> None:
    message = spec_to_message(ScheduleSpec(dates=[datetime(1970, 1, 1, 0, 0, 1)]))

    assert list(message.dates_us) == [1_000_000]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (ScheduleRange(5), (5, 5, 1)),
        (ScheduleRange(5, 3), (5, 5, 1)),
        (ScheduleRange(1, 9, 0), (1, 9, 1)),
        (ScheduleRange(1, 9, 2), (1, 9, 2)),
    ],
)
def test_a_range_may_leave_out_its_end_and_its_step(
    given: ScheduleRange, meant: tuple[int, int, int]
) -> None:
    assert (given.start, given.end, given.step) == meant


# ---- mistakes


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ScheduleActionStartWorkflow("W"), TypeError, "task_queue is missing"),  # type: ignore[call-overload]  # that is it
        (lambda: ScheduleActionStartWorkflow("W", task_queue="q", ids="w"), TypeError, "'ids'"),  # type: ignore[call-overload]  # that is it
        (lambda: ScheduleActionStartWorkflow("W", 1, args=[1], task_queue="q"), ValueError, "both"),
        (lambda: ScheduleActionStartJob("t", run_at=1), TypeError, "'run_at'"),  # type: ignore[call-overload]  # that is it
        (lambda: ScheduleActionStartJob("t", 1, args=[1]), ValueError, "both"),
        (lambda: ScheduleActionStartJob(repr, 1), TypeError, "repr"),
    ],
)
def test_a_mistake_in_an_action_is_told(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_what_is_no_action_and_what_cannot_travel_is_refused() -> None:
    with pytest.raises(TypeError, match="not an action"):
        wire_action(ScheduleAction(), CONVERTER)
    with pytest.raises(PayloadEncodeError):
        wire_action(ScheduleActionStartJob("t", object()), CONVERTER)


@pytest.mark.parametrize(
    "message",
    [
        pb.Schedule(policies=pb.SchedulePolicies(overlap=99), action={"job": {}}),  # type: ignore[arg-type]  # of a newer engine
        pb.Schedule(spec=pb.ScheduleSpec(gap=99), action={"job": {}}),  # type: ignore[arg-type]  # of a newer engine
        pb.Schedule(),
    ],
)
def test_what_a_newer_engine_has_is_not_taken_for_something_else(message: pb.Schedule) -> None:
    with pytest.raises(RPCError) as raised:
        schedule_from_message(message, read_action)

    assert raised.value.status is RPCStatusCode.UNIMPLEMENTED
