"""Schedules between messages and the model: what goes comes back, and what cannot be read is refused by its field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.frontend.fakes import NAMESPACE_ID

from perdure_api.v1 import schedule_service_pb2 as pb
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import StartWorkflow
from perdure_engine.core.jobs.model import JobSpec
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.schedules.intents import (
    Backfilled,
    ScheduleInfo,
    ScheduleSaved,
    Slot,
    SlotsActed,
)
from perdure_engine.core.schedules.model import (
    CalendarRange,
    CalendarSpec,
    CatchUpPolicy,
    GapPolicy,
    IntervalSpec,
    JobAction,
    OverlapPolicy,
    RepeatPolicy,
    Schedule,
    SchedulePolicies,
    ScheduleSpec,
    SlotOutcome,
    WorkflowAction,
)
from perdure_engine.core.search_attributes import AttributeType, SearchAttribute
from perdure_engine.core.versions import Behavior, Versioning
from perdure_engine.frontend.handlers.describe_schedule import DescribedSchedule
from perdure_engine.frontend.handlers.list_schedule_slots import SlotsPage
from perdure_engine.frontend.handlers.list_schedules import ListedSchedule, SchedulesPage
from perdure_engine.frontend.handlers.preview_schedule import Preview
from perdure_engine.transport.grpc.convert import schedule_intents as intents
from perdure_engine.transport.grpc.convert import schedule_replies as replies

REQUEST_ID = "123e4567-e89b-12d3-a456-426614174000"
REQUEST_BYTES = bytes.fromhex(REQUEST_ID.replace("-", ""))

# ---- any schedule

numbers = st.integers(0, 2**31 - 1)
durations = st.integers(0, 10**12)
ranges = st.lists(
    st.builds(CalendarRange, numbers, numbers, st.integers(1, 2**31 - 1)), max_size=2
).map(tuple)
calendars = st.lists(
    st.builds(
        CalendarSpec,
        second=ranges,
        minute=ranges,
        hour=ranges,
        day_of_month=ranges,
        month=ranges,
        day_of_week=ranges,
        year=ranges,
        comment=st.text(max_size=9),
    ),
    max_size=2,
).map(tuple)
specs = st.builds(
    ScheduleSpec,
    cron=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    intervals=st.lists(st.builds(IntervalSpec, durations, durations), max_size=2).map(tuple),
    calendars=calendars,
    dates_us=st.lists(durations, max_size=3).map(tuple),
    exclude=calendars,
    start_us=durations,
    end_us=durations,
    jitter_ms=durations,
    timezone=st.sampled_from(["UTC", "Europe/Berlin"]),
    seconds_first=st.booleans(),
    gap=st.sampled_from(GapPolicy),
    repeat=st.sampled_from(RepeatPolicy),
)
retries = st.builds(
    RetryPolicy,
    initial_interval_ms=st.integers(1, 10**6),
    backoff_coefficient=st.sampled_from([1.0, 1.5]),
    maximum_interval_ms=durations,
    maximum_attempts=st.integers(0, 9),
    non_retryable_error_types=st.sampled_from([(), ("Bad",)]),
)
names = st.text(min_size=1, max_size=9)
jobs = st.builds(
    JobAction,
    names,
    names,
    st.builds(
        JobSpec,
        input=st.binary(max_size=9),
        header=st.binary(max_size=9),
        retry=retries,
        timeout_ms=durations,
        heartbeat_timeout_ms=durations,
    ),
    st.integers(1, 5),
    st.text(max_size=9),
)
workflows = st.builds(
    WorkflowAction,
    st.text(max_size=9),
    st.builds(
        StartWorkflow,
        namespace_id=st.just(b""),
        workflow_id=st.just(""),
        run_id=st.just(b""),
        request_id=st.just(b""),
        body_hash=st.just(b""),
        workflow_type=names,
        task_queue=names,
        input=st.binary(max_size=9),
        header=st.binary(max_size=9),
        memo=st.binary(max_size=9),
        execution_timeout_ms=durations,
        run_timeout_ms=durations,
        task_timeout_ms=st.integers(1, 120_000),
        retry_policy=st.none() | retries,
        identity=st.text(max_size=9),
        priority=st.integers(1, 5),
        static_summary=st.binary(max_size=9),
        static_details=st.binary(max_size=9),
        search_attributes=st.sampled_from(
            [(), (SearchAttribute("Region", AttributeType.KEYWORD, "eu"),)]
        ),
        versioning_override=st.sampled_from([None, Versioning(Behavior.PINNED, "d", "b")]),
    ),
)
policies = st.builds(
    SchedulePolicies,
    overlap=st.sampled_from(OverlapPolicy),
    catch_up_window_ms=st.integers(1, 10**12),
    catch_up=st.sampled_from(CatchUpPolicy),
    catch_up_most=st.integers(1, 1_000),
    pause_on_failure=st.booleans(),
)
schedules = st.builds(
    Schedule,
    specs,
    jobs | workflows,
    policies,
    paused=st.booleans(),
    note=st.text(max_size=9),
    remaining_actions=st.none() | st.integers(0, 2**62),
)


@given(schedules)
def test_any_schedule_comes_back_as_it_went(schedule: Schedule) -> None:
    message = pb.Schedule(**replies.schedule_fields(schedule))

    assert intents.schedule_of("schedule", pb.Schedule.FromString(message.SerializeToString())) == (
        schedule
    )


# ---- what is not said


def message(**changes: Any) -> pb.Schedule:
    action = {"job": {"task_name": "report"}}
    return pb.Schedule(**{"spec": {"cron": ["@daily"]}, "action": action, **changes})


def test_what_is_not_said_takes_its_default() -> None:
    assert intents.schedule_of("schedule", message()) == Schedule(
        ScheduleSpec(cron=("@daily",)), JobAction("report", "default", JobSpec())
    )


def test_a_workflow_takes_its_defaults_too() -> None:
    start = {"workflow_type": "Report", "task_queue": "q"}

    found = intents.schedule_of("schedule", message(action={"workflow": {"start": start}}))

    assert isinstance(found.action, WorkflowAction)
    assert found.action.workflow_id == ""
    assert (found.action.start.task_timeout_ms, found.action.start.priority) == (10_000, 3)


def test_a_limit_of_none_is_not_a_limit_of_zero() -> None:
    assert intents.schedule_of("s", message()).remaining_actions is None
    assert intents.schedule_of("s", message(limited=True)).remaining_actions == 0


JOB_OF_ITS_OWN = "schedule.action.job"
START_OF_ITS_OWN = "schedule.action.workflow.start"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"action": {}}, "schedule.action"),
        ({"remaining_actions": 1}, "schedule.remaining_actions"),
        ({"spec": {"gap": 9}}, "schedule.spec.gap"),
        ({"spec": {"repeat": 9}}, "schedule.spec.repeat"),
        ({"policies": {"overlap": 9}}, "schedule.policies.overlap"),
        ({"policies": {"catch_up": 9}}, "schedule.policies.catch_up"),
        ({"action": {"job": {"due_time_us": 1}}}, f"{JOB_OF_ITS_OWN}.due_time_us"),
        ({"action": {"job": {"delay_ms": 1}}}, f"{JOB_OF_ITS_OWN}.delay_ms"),
        ({"action": {"job": {"idempotency_key": "k"}}}, f"{JOB_OF_ITS_OWN}.idempotency_key"),
        ({"action": {"job": {"expire_time_us": 1}}}, f"{JOB_OF_ITS_OWN}.expire_time_us"),
        (
            {"action": {"job": {"unique_scope": 9, "unique_key": "k"}}},
            f"{JOB_OF_ITS_OWN}.unique_scope",
        ),
        *(
            ({"action": {"workflow": {"start": {name: REQUEST_ID}}}}, f"{START_OF_ITS_OWN}.{name}")
            for name in ("namespace", "workflow_id", "request_id", "run_id")
        ),
        (
            {"action": {"workflow": {"start": {"id_reuse_policy": 9}}}},
            f"{START_OF_ITS_OWN}.id_reuse_policy",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_field(changes: Any, field: str) -> None:
    request = pb.CreateScheduleRequest(request_id=REQUEST_ID, schedule=message(**changes))

    with pytest.raises(Rejected) as refused:
        intents.create_schedule(request, NAMESPACE_ID)

    assert (refused.value.code, refused.value.field) == (Code.INVALID_ARGUMENT, field)


def test_a_policy_or_an_outcome_of_a_newer_client_is_refused() -> None:
    trigger: Any = pb.TriggerScheduleRequest
    with pytest.raises(Rejected, match="overlap"):
        intents.trigger_schedule(trigger(request_id=REQUEST_ID, overlap=9), NAMESPACE_ID)
    slots: Any = pb.ListScheduleSlotsRequest
    with pytest.raises(Rejected, match=r"outcomes\[1\]"):
        intents.list_schedule_slots(slots(outcomes=[2, 99]), NAMESPACE_ID)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (intents.create_schedule, pb.CreateScheduleRequest),
        (intents.update_schedule, pb.UpdateScheduleRequest),
        (intents.delete_schedule, pb.DeleteScheduleRequest),
        (intents.pause_schedule, pb.PauseScheduleRequest),
        (intents.unpause_schedule, pb.UnpauseScheduleRequest),
        (intents.trigger_schedule, pb.TriggerScheduleRequest),
        (intents.backfill_schedule, pb.BackfillScheduleRequest),
    ],
)
def test_every_change_needs_a_request_id_and_says_who_asks(make: Any, kind: Any) -> None:
    fields: dict[str, Any] = {"schedule_id": "nightly", "identity": "ada"}
    if "schedule" in kind.DESCRIPTOR.fields_by_name:
        fields["schedule"] = message()

    intent = make(kind(**fields, request_id=REQUEST_ID), NAMESPACE_ID)

    assert (intent.namespace_id, intent.schedule_id) == (NAMESPACE_ID, "nightly")
    assert (intent.request_id, intent.identity) == (REQUEST_BYTES, "ada")
    with pytest.raises(Rejected, match="request_id"):
        make(kind(**fields), NAMESPACE_ID)


def test_pause_and_unpause_are_one_intent() -> None:
    paused = intents.pause_schedule(
        pb.PauseScheduleRequest(request_id=REQUEST_ID, note="why"), NAMESPACE_ID
    )
    unpaused = intents.unpause_schedule(
        pb.UnpauseScheduleRequest(request_id=REQUEST_ID), NAMESPACE_ID
    )

    assert (paused.paused, paused.note) == (True, "why")
    assert (unpaused.paused, unpaused.note) == (False, "")


# ---- answers

SLOT = Slot(7, SlotOutcome.FIRED, 8, workflow_id="w", run_id="r", detail="d", manual=True)
SLOT_MESSAGE: Any = pb.ScheduleSlot(
    nominal_time_us=7,
    outcome=pb.SLOT_OUTCOME_FIRED,
    acted_time_us=8,
    workflow_id="w",
    run_id="r",
    detail="d",
    manual=True,
)
SCHEDULE = Schedule(ScheduleSpec(cron=("@daily",)), JobAction("report", "default", JobSpec()))
INFO = ScheduleInfo("s", "ada", True, "why", 1, 2, 3, 4, SlotOutcome.MISSED, "report", SCHEDULE)
INFO_MESSAGE: Any = pb.ScheduleInfo(
    schedule_id="s",
    user_id="ada",
    paused=True,
    note="why",
    create_time_us=1,
    update_time_us=2,
    next_time_us=3,
    last_nominal_time_us=4,
    last_outcome=pb.SLOT_OUTCOME_MISSED,
    action_name="report",
    description="Every day",
)
SAVED = ScheduleSaved(5, 6, [SLOT])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            replies.created(SAVED),
            pb.CreateScheduleResponse(conflict_token=5, next_time_us=6),
        ),
        (
            replies.updated(SAVED),
            pb.UpdateScheduleResponse(conflict_token=5, next_time_us=6, firing=[SLOT_MESSAGE]),
        ),
        (replies.deleted(SAVED), pb.DeleteScheduleResponse(firing=[SLOT_MESSAGE])),
        (replies.paused(SAVED), pb.PauseScheduleResponse(firing=[SLOT_MESSAGE])),
        (replies.unpaused(SAVED), pb.UnpauseScheduleResponse(next_time_us=6)),
        (
            replies.triggered(SlotsActed([SLOT])),
            pb.TriggerScheduleResponse(slot=SLOT_MESSAGE),
        ),
        (
            replies.backfilled(Backfilled([1], [2, 3])),
            pb.BackfillScheduleResponse(nominal_times_us=[1], fired_before_us=[2, 3]),
        ),
        (
            replies.previewed(Preview([1], "d", "v")),
            pb.PreviewScheduleResponse(times_us=[1], description="d", tzdata_version="v"),
        ),
        (
            replies.listed(SchedulesPage([ListedSchedule(INFO, "Every day")], b"t")),
            pb.ListSchedulesResponse(schedules=[INFO_MESSAGE], next_page_token=b"t"),
        ),
        (
            replies.listed_slots(SlotsPage([SLOT], b"t")),
            pb.ListScheduleSlotsResponse(slots=[SLOT_MESSAGE], next_page_token=b"t"),
        ),
        (
            replies.described(
                DescribedSchedule(
                    info=INFO,
                    conflict_token=5,
                    description="Every day",
                    next_times_us=[3, 4],
                    recent=[SLOT],
                    open=[SLOT],
                    tzdata_version="v",
                )
            ),
            pb.DescribeScheduleResponse(
                schedule=replies.schedule_fields(SCHEDULE),
                info=INFO_MESSAGE,
                conflict_token=5,
                next_times_us=[3, 4],
                recent=[SLOT_MESSAGE],
                open=[SLOT_MESSAGE],
                tzdata_version="v",
            ),
        ),
    ],
)
def test_answers_say_everything(answer: Any, told: Any) -> None:
    assert answer == told
