"""`/schedules`: what a request asks of the handlers, and what is told of schedules."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from tests.unit.transport.rest.conftest import Api

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.jobs.model import JobSpec
from perdure_engine.core.schedules.intents import (
    Backfilled,
    BackfillSchedule,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    PauseSchedule,
    ScheduleDescription,
    ScheduleInfo,
    ScheduleSaved,
    Slot,
    SlotsActed,
    TriggerSchedule,
    UpdateSchedule,
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
from perdure_engine.transport.http.rest.bodies import schedules as bodies
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.schedules import schedule_body, schedule_of

US = 1_800_000_000_000_000
TIME = "2027-01-15T08:00:00Z"
SLOT = Slot(US, SlotOutcome.FIRED, US + 1, job_id="j1")
PLAIN: dict[str, Any] = {
    "spec": {"cron": ["0 10 * * *"]},
    "action": {"job": {"task_id": "send_email"}},
}
FULL: dict[str, Any] = {
    "spec": {
        "cron": ["0 10 * * *"],
        "intervals": [{"every": 60, "phase": 2.5}],
        "calendars": [{"hour": [{"start": 9, "end": 17, "step": 2}], "comment": "office"}],
        "dates": [TIME],
        "exclude": [{"month": [{"start": 12}], "day_of_month": [{"start": 25}]}],
        "start_time": TIME,
        "end_time": "2028-01-15T08:00:00Z",
        "jitter": 1.5,
        "timezone": "Europe/Brussels",
        "gap": "SKIP",
        "repeat": "BOTH",
    },
    "action": {
        "workflow": {
            "workflow_id": "report",
            "workflow_type": "Report",
            "task_queue": "reports",
            "args": [1, {"a": None}],
            "run_timeout": 60,
            "memo": {"note": "daily"},
            "search_attributes": {"Region": {"type": "KEYWORD", "value": "eu"}},
            "static_summary": "the report",
        }
    },
    "policies": {
        "overlap": "BUFFER_ONE",
        "catch_up_window": 3600,
        "catch_up": "LAST",
        "catch_up_most": 5,
        "pause_on_failure": True,
    },
    "paused": True,
    "note": "not yet",
    "remaining_actions": 3,
}


@pytest.fixture(autouse=True)
def saved(api: Api) -> None:
    """Schedules are saved; their next time is `US`, their conflict token 7."""

    def answer(intent: Any) -> Any:
        match intent:
            case TriggerSchedule():
                return SlotsActed([SLOT])
            case BackfillSchedule():
                return Backfilled([US], [US + 60_000_000])
            case DescribeSchedule():
                return described(Schedule(ScheduleSpec(cron=("@daily",)), ACTION))
            case _:
                return ScheduleSaved(7, US, [SLOT])

    api.history.answer = answer


ACTION = JobAction("send_email", "mail", JobSpec(input=payloads.from_parameters({"to": "a"})))


def described(schedule: Schedule) -> ScheduleDescription:
    info = ScheduleInfo(
        "s", "ada", False, "", US, 0, US, US, SlotOutcome.SKIPPED, "send_email", schedule
    )
    return ScheduleDescription(info, 7, [SLOT])


def last(api: Api) -> Any:
    return api.history.scheduled[-1][1]


async def test_a_schedule_carries_all_that_it_says(api: Api) -> None:
    response = await api.post(
        "/schedules",
        {**FULL, "schedule_id": "s", "user_id": "ada", "trigger_immediately": True},
    )

    assert response.status_code == 201
    assert response.headers["etag"] == '"7"'
    assert response.headers["location"] == "/schedules/s"
    assert response.json()["next_time"] == TIME
    intent = last(api)
    assert isinstance(intent, CreateSchedule)
    assert (intent.schedule_id, intent.user_id, intent.trigger_immediately) == ("s", "ada", True)
    schedule = intent.schedule
    assert schedule.spec == ScheduleSpec(
        cron=("0 10 * * *",),
        intervals=(IntervalSpec(60_000, 2_500),),
        calendars=(CalendarSpec(hour=(CalendarRange(9, 17, 2),), comment="office"),),
        dates_us=(US,),
        exclude=(CalendarSpec(month=(CalendarRange(12),), day_of_month=(CalendarRange(25),)),),
        start_us=US,
        end_us=US + 365 * 86_400_000_000,
        jitter_ms=1_500,
        timezone="Europe/Brussels",
        gap=GapPolicy.SKIP,
        repeat=RepeatPolicy.BOTH,
    )
    assert schedule.policies == SchedulePolicies(
        OverlapPolicy.BUFFER_ONE, 3_600_000, CatchUpPolicy.LAST, 5, True
    )
    assert (schedule.paused, schedule.note, schedule.remaining_actions) == (True, "not yet", 3)
    assert isinstance(schedule.action, WorkflowAction)
    start = schedule.action.start
    assert (schedule.action.workflow_id, start.workflow_type) == ("report", "Report")
    assert start.input == payloads.from_values([1, {"a": None}])
    assert (start.workflow_id, start.run_id, start.request_id) == ("", b"", b"")


async def test_a_schedule_that_says_little_has_the_defaults(api: Api) -> None:
    await api.post("/schedules", {**PLAIN, "schedule_id": "s"})

    schedule = last(api).schedule
    assert schedule.spec == ScheduleSpec(cron=("0 10 * * *",))
    assert schedule.policies == SchedulePolicies()
    assert schedule.remaining_actions is None
    assert schedule.action.task_name == "send_email"


@pytest.mark.parametrize("sent", [FULL, PLAIN])
def test_what_is_told_of_a_schedule_can_be_sent_back(sent: dict[str, Any]) -> None:
    schedule = schedule_of(msgspec.convert(sent, bodies.Schedule))
    told = msgspec.json.encode(schedule_body(schedule))

    assert schedule_of(msgspec.json.decode(told, type=bodies.Schedule)) == schedule


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"schedule_id": ""}, "schedule_id"),
        ({"spec": {}}, "spec.cron"),
        ({"spec": {"cron": ["0 10 * *"]}}, "spec.cron[0]"),
        ({"spec": {"cron": ["0 10 * * *"], "timezone": "Mars"}}, "spec.timezone"),
        ({"spec": {"intervals": [{"every": 0.5}]}}, "spec.intervals[0].every"),
        ({"spec": {"crom": []}}, "spec.crom"),
        ({"action": {}}, "action"),
        ({"action": {**PLAIN["action"], **FULL["action"]}}, "action"),
        ({"action": {"job": {"task_id": "__x"}}}, "action.job.task_id"),
        ({"action": {"job": {"task_id": "x", "schedule": "@daily"}}}, "action.job.schedule"),
        (
            {"action": {"workflow": {"workflow_type": "T", "task_queue": "__q"}}},
            "action.workflow.task_queue",
        ),
        ({"policies": {"catch_up_window": 1}}, "policies.catch_up_window"),
        ({"policies": {"overlap": "NONE"}}, "policies.overlap"),
        ({"remaining_actions": -1}, "remaining_actions"),
        ({"remaining_actions": 2**63}, "remaining_actions"),
    ],
)
async def test_a_schedule_that_is_wrong_is_refused_by_its_field(
    api: Api, changes: dict[str, Any], field: str
) -> None:
    response = await api.post("/schedules", {**PLAIN, "schedule_id": "s", **changes})

    assert response.status_code == 400, response.text
    assert response.json()["field"] == field
    assert not api.room.touched


@pytest.mark.parametrize(("if_match", "conflict_token"), [(None, 0), ('"7"', 7), ("*", 0)])
async def test_a_schedule_is_changed_as_a_whole_if_it_is_the_one_that_was_seen(
    api: Api, if_match: str | None, conflict_token: int
) -> None:
    headers = {} if if_match is None else {"if-match": if_match}

    response = await api.http.put("/schedules/s", json=PLAIN, headers=headers)

    assert (response.status_code, response.headers["etag"]) == (200, '"7"')
    assert response.json()["firing"][0]["job_id"] == "j1"
    intent = last(api)
    assert isinstance(intent, UpdateSchedule)
    assert (intent.schedule_id, intent.conflict_token) == ("s", conflict_token)


async def test_a_change_of_something_else_is_412(api: Api) -> None:
    api.history.answer = lambda _: Rejected(Code.ABORTED, "SCHEDULE_CHANGED", "it has changed")

    changed = await api.http.put("/schedules/s", json=PLAIN, headers={"if-match": '"6"'})
    wrong = await api.http.put("/schedules/s", json=PLAIN, headers={"if-match": "6"})

    assert changed.status_code == 412
    assert (wrong.status_code, wrong.json()["field"]) == (400, "if-match")


async def test_a_schedule_shows_what_it_is_and_what_it_did(api: Api) -> None:
    response = await api.get("/schedules/s")

    told = response.json()
    assert response.headers["etag"] == '"7"'
    assert told["info"]["last_outcome"] == "SKIPPED"
    assert "update_time" not in told["info"]
    assert told["schedule"]["action"]["job"]["parameters"] == {"to": "a"}
    assert told["schedule"]["action"]["workflow"] is None
    assert told["next_times"][0] == TIME
    assert len(told["next_times"]) == 10
    assert told["open"] == [
        {
            "nominal_time": TIME,
            "outcome": "FIRED",
            "acted_time": "2027-01-15T08:00:00.000001Z",
            "job_id": "j1",
            "detail": "",
            "manual": False,
        }
    ]


async def test_a_schedule_is_deleted_with_a_reason(api: Api) -> None:
    response = await api.http.delete("/schedules/s?reason=enough")

    assert response.status_code == 200
    intent = last(api)
    assert isinstance(intent, DeleteSchedule)
    assert intent.reason == "enough"


@pytest.mark.parametrize(("verb", "paused"), [("pause", True), ("unpause", False)])
async def test_a_schedule_is_paused_and_unpaused_with_a_note(
    api: Api, verb: str, paused: bool
) -> None:
    response = await api.post(f"/schedules/s:{verb}", {"note": "provider down"})

    assert response.json()["next_time"] == TIME
    intent = last(api)
    assert isinstance(intent, PauseSchedule)
    assert (intent.paused, intent.note) == (paused, "provider down")


@pytest.mark.parametrize(
    ("sent", "overlap"), [(None, None), ({"overlap": "ALLOW_ALL"}, OverlapPolicy.ALLOW_ALL)]
)
async def test_a_schedule_is_triggered(api: Api, sent: Any, overlap: OverlapPolicy | None) -> None:
    response = await api.post("/schedules/s:trigger", sent)

    assert response.json()["slot"]["outcome"] == "FIRED"
    intent = last(api)
    assert isinstance(intent, TriggerSchedule)
    assert intent.overlap is overlap


async def test_a_span_is_caught_up_with(api: Api) -> None:
    span = {"start_time": TIME, "end_time": "2027-01-16T08:00:00Z", "dry_run": True}

    response = await api.post("/schedules/s:backfill", span)

    assert response.json() == {"nominal_times": [TIME], "fired_before": ["2027-01-15T08:01:00Z"]}
    intent = last(api)
    assert isinstance(intent, BackfillSchedule)
    assert (intent.from_us, intent.to_us, intent.dry_run) == (US, US + 86_400_000_000, True)


async def test_a_span_that_ends_before_it_begins_is_refused(api: Api) -> None:
    span = {"start_time": TIME, "end_time": "2026-01-16T08:00:00Z"}

    problem = (await api.post("/schedules/s:backfill", span)).json()

    assert problem["field"] == "end_time"
    assert "_us" not in problem["detail"]


async def test_a_preview_needs_no_schedule(api: Api) -> None:
    spec = {"cron": ["30 2 * * *"], "timezone": "America/New_York"}

    response = await api.post(
        "/schedules:preview",
        {"spec": spec, "after": "2027-03-13T12:00:00-05:00", "count": 2},
    )

    assert response.json()["times"] == ["2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z"]
    assert response.json()["description"]
    assert not api.room.touched


async def test_schedules_and_slots_are_listed(api: Api) -> None:
    empty = await api.get("/schedules?id_prefix=a&user_id=ada&limit=5")
    unknown = await api.get(f"/schedules/s/slots?outcome=FIRED&start_time={TIME}")

    assert empty.json() == {"schedules": []}
    assert (unknown.status_code, unknown.json()["status"]) == (404, 404)


@pytest.mark.parametrize(
    ("of", "enumeration"),
    [
        (bodies.OutcomeChoice, SlotOutcome),
        (bodies.Overlap, OverlapPolicy),
        (get_type_hints(bodies.Spec)["gap"], GapPolicy),
        (get_type_hints(bodies.Spec)["repeat"], RepeatPolicy),
        (get_type_hints(bodies.Policies)["catch_up"], CatchUpPolicy),
    ],
)
def test_choices_are_those_of_the_engine(of: Any, enumeration: Any) -> None:
    assert set(get_args(of)) == set(enumeration.__members__)
