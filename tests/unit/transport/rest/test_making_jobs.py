"""`POST /jobs`: what a request asks of the handlers, and what became of the job (A1, A2, A4, A17, A20)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID
from tests.unit.transport.rest.conftest import Api
from tests.unit.transport.rest.jobs import RECURRING, RUN, RUN_ID, TIME, US, saves

from perdure._definitions.parameters import is_object_of_parameters
from perdure._wire.payloads import payloads_from_bytes
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.ids import recurring_job_id, shard_of_job, uuid_text
from perdure_engine.core.jobs.intents import CreatedJob, DescribeJob
from perdure_engine.core.jobs.model import (
    DEFAULT_JOB_RETRY,
    Concurrency,
    ConcurrencyPolicy,
    JobSpec,
    JobStatus,
    Unique,
    UniqueScope,
)
from perdure_engine.core.jobs.replies import JobsCreated
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.schedules.intents import CreateSchedule
from perdure_engine.core.schedules.model import IntervalSpec, JobAction, ScheduleSpec
from perdure_engine.transport.http.rest.convert import payloads

NOW = "1970-01-01T00:00:02Z"  # of the fakes
# As row A4 of the requirements writes it.
A4 = (
    '{"task_id":"send_email","schedule":"0 10 * * *",'
    '"parameters":{"to":"…","subject":"Daily Report"}}'
).encode()


def made(api: Api) -> Any:
    """The job of the last intent."""
    ((_, intent),) = api.history.jobs
    (job,) = intent.jobs
    return job


async def test_a4_the_example_works_byte_for_byte(api: Api) -> None:
    """A7: a recurring job is a definition, and its id is the schedule's."""
    saves(api)

    response = await api.post_raw("/jobs", A4)

    assert response.status_code == 201
    answer = response.json()
    assert answer["next_run"] == TIME
    assert answer["status"] == "PENDING"
    assert response.headers["location"] == f"/jobs/{answer['job_id']}"
    ((_, intent),) = api.history.scheduled
    assert isinstance(intent, CreateSchedule)
    assert intent.schedule_id == answer["job_id"]
    assert intent.schedule.spec == ScheduleSpec(cron=("0 10 * * *",))
    action = intent.schedule.action
    assert isinstance(action, JobAction)
    assert (action.task_name, action.queue) == ("send_email", "default")
    (payload,) = payloads_from_bytes(action.spec.input)
    assert is_object_of_parameters([payload])
    assert payload.data == '{"to":"…","subject":"Daily Report"}'.encode()


@pytest.mark.parametrize(
    ("schedule", "due_us", "next_run"),
    [
        (None, 0, NOW),
        (TIME, US, TIME),
        ({"type": "DATE", "expression": TIME}, US, TIME),
        ("2027-01-15T09:00:00+01:00", US, TIME),
        ("2027-01-15 08:00", US, TIME),
        ("2027-01-15t08:00:00.5z", US + 500_000, "2027-01-15T08:00:00.500000Z"),
        ("1969-01-01T00:00:00Z", 1, NOW),
    ],
)
async def test_a2_a_job_without_a_schedule_is_due_now_and_with_a_date_then(
    api: Api, schedule: Any, due_us: int, next_run: str
) -> None:
    response = await api.post("/jobs", {"task_id": "t", "schedule": schedule})

    assert response.status_code == 201
    assert response.json()["next_run"] == next_run
    assert response.json()["job_id"] == uuid_text(made(api).job_id)
    assert made(api).due_us == due_us


@pytest.mark.parametrize(
    ("date", "timezone", "next_run"),
    [
        ("2027-01-15T09:00:00", "Europe/Brussels", TIME),
        ("2027-01-15T13:45:00.25", "Asia/Kathmandu", "2027-01-15T08:00:00.250000Z"),
        ("2027-03-14T02:30:00", "America/New_York", "2027-03-14T07:00:00Z"),  # it is skipped there
        ("2027-11-07T01:30:00", "America/New_York", "2027-11-07T05:30:00Z"),  # it comes twice
        ("2027-01-15T09:00:00+01:00", "America/New_York", TIME),
    ],
)
async def test_a_date_without_an_offset_is_the_zones(
    api: Api, date: str, timezone: str, next_run: str
) -> None:
    body = {"task_id": "t", "schedule": date, "timezone": timezone}

    assert (await api.post("/jobs", body)).json()["next_run"] == next_run


@pytest.mark.parametrize(
    ("schedule", "spec"),
    [
        ({"type": "CRON", "expression": "@daily"}, ScheduleSpec(cron=("@daily",))),
        ({"type": "INTERVAL", "expression": "90"}, ScheduleSpec(intervals=(IntervalSpec(90_000),))),
        (
            {"type": "INTERVAL", "expression": "1h30m"},
            ScheduleSpec(intervals=(IntervalSpec(5_400_000),)),
        ),
    ],
)
async def test_a2_a_job_recurs_by_cron_or_interval(
    api: Api, schedule: Any, spec: ScheduleSpec
) -> None:
    saves(api)

    assert (await api.post("/jobs", {"task_id": "t", "schedule": schedule})).status_code == 201
    ((_, intent),) = api.history.scheduled
    assert isinstance(intent, CreateSchedule)
    assert intent.schedule.spec == spec


async def test_a_job_carries_all_that_it_says(api: Api) -> None:
    response = await api.post(
        "/jobs",
        {
            "task_id": "send_email",
            "schedule": TIME,
            "parameters": {"to": "a@b"},
            "user_id": "ada",
            "queue": "mail",
            "timeout": 30,
            "heartbeat_timeout": 2.5,
            "retry": {"maximum_attempts": 5, "initial_interval": 2, "maximum_interval": 60},
            "priority": 1,
            "idempotency_key": "k",
            "unique_key": "u",
            "unique_scope": "PERIOD",
            "unique_period": 60,
            "concurrency": {"key": "c", "limit": 2, "policy": "CANCEL_NEWEST", "rate_per_s": 1.5},
            "expires_at": "2027-01-15T09:00:00Z",
        },
    )

    assert response.status_code == 201
    job = made(api)
    spec = msgspec.structs.replace(job.spec, body_hash=b"")
    assert spec == JobSpec(
        input=payloads.from_parameters({"to": "a@b"}),
        retry=RetryPolicy(2_000, 2.0, 60_000, 5),
        timeout_ms=30_000,
        heartbeat_timeout_ms=2_500,
        idempotency_key="k",
        unique=Unique("u", UniqueScope.PERIOD, 60_000),
        concurrency=Concurrency("c", 2, ConcurrencyPolicy.CANCEL_NEWEST, 1.5),
        expire_us=US + 3_600_000_000,
    )
    assert (job.task_name, job.queue, job.user_id, job.priority) == ("send_email", "mail", "ada", 1)


async def test_a_job_that_says_nothing_has_three_attempts(api: Api) -> None:
    await api.post("/jobs", {"task_id": "t", "retry": {"initial_interval": 5}})

    assert made(api).spec.retry == RetryPolicy(5_000, maximum_attempts=3)
    assert DEFAULT_JOB_RETRY.maximum_attempts == 3


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task_id": ""}, "task_id"),
        ({"task_id": "a/b"}, "task_id"),
        ({"task_id": 1}, "task_id"),
        ({"parameters": [1]}, "parameters"),
        ({"schedule": "0 10 * *"}, "schedule"),
        ({"schedule": "2027-13-01T00:00:00"}, "schedule"),
        ({"schedule": "2027-01-01"}, "schedule"),
        ({"schedule": {"type": "DATE", "expression": "0 10 * * *"}}, "schedule"),
        ({"schedule": {"type": "INTERVAL", "expression": "0.5"}}, "schedule"),
        ({"schedule": {"type": "INTERVAL", "expression": "soon"}}, "schedule"),
        ({"schedule": {"type": "WEEKLY", "expression": "1"}}, "schedule.type"),
        ({"schedule": {"type": "CRON"}}, "schedule.expression"),
        ({"schedule": "* " * 200}, "schedule"),
        ({"schedule": "0 10 * * *", "timezone": "Mars/Olympus"}, "timezone"),
        ({"schedule": "2027-01-01T00:00:00", "timezone": "../../etc/passwd"}, "timezone"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"schedule": TIME, "timezone": "Mars/Olympus"}, "timezone"),
        (
            {
                "schedule": {"type": "INTERVAL", "expression": "60"},
                "timezone": "Mars/Olympus",
            },
            "timezone",
        ),
        ({"schedule": "0 10 * * *", "expires_at": TIME}, "expires_at"),
        ({"schedule": TIME, "expires_at": TIME}, "expires_at"),
        ({"expires_at": "2027-01-01T00:00:00"}, "expires_at"),
        ({"queue": "__own"}, "queue"),
        ({"user_id": "\u202e"}, "user_id"),
        ({"timeout": 0}, "timeout"),
        ({"expires_at": "9999-12-31T23:59:59-23:00"}, "body"),
        ({"timeout": 1e12}, "timeout"),
        ({"priority": 9}, "priority"),
        ({"retry": {"maximum_interval": 0.5}}, "retry.maximum_interval"),
        ({"unique_period": 5}, "unique_key"),
        ({"unique_key": "k", "unique_scope": "PERIOD"}, "unique_period"),
        ({"concurrency": {"key": "k", "limit": 0}}, "concurrency.limit"),
        ({"concurrency": {"limit": 1}}, "concurrency.key"),
        ({"schedule": "0 10 * * *", "queue": "__own"}, "queue"),
    ],
)
async def test_a_job_that_is_wrong_is_refused_by_its_field(
    api: Api, changes: dict[str, Any], field: str
) -> None:
    response = await api.post("/jobs", {"task_id": "t", **changes})

    assert response.status_code == 400, response.text
    assert response.json()["field"] == field
    assert not api.room.touched


async def test_a_job_that_would_have_expired_is_refused_by_its_field(api: Api) -> None:
    """Its shard is asked whether this is the repeat of a call that came in time, and makes nothing."""
    response = await api.post("/jobs", {"task_id": "t", "expires_at": "1970-01-01T00:00:01Z"})

    assert (response.status_code, response.json()["field"]) == (400, "expires_at")
    assert [type(intent) for _, intent in api.history.jobs] == [DescribeJob]


async def test_a17_the_header_and_the_field_are_one_key(api: Api) -> None:
    for sent, headers in (
        ({"task_id": "t", "idempotency_key": "k"}, {}),
        ({"task_id": "t"}, {"idempotency-key": "k"}),
        ({"task_id": "t", "idempotency_key": "k"}, {"idempotency-key": "k"}),
    ):
        assert (await api.post("/jobs", sent, headers=headers)).status_code == 201
    first, *others = [intent.jobs for _, intent in api.history.jobs]
    assert all(jobs == first for jobs in others)
    both = {"task_id": "t", "idempotency_key": "k"}
    response = await api.post("/jobs", both, headers={"idempotency-key": "other"})
    assert (response.status_code, response.json()["field"]) == (400, "idempotency_key")


async def test_a17_a_repeat_of_a_recurring_job_is_the_same_request_and_another_body_is_refused(
    api: Api,
) -> None:
    saves(api)
    body = {"task_id": "t", "schedule": "@daily", "idempotency_key": "k"}
    first = await api.post("/jobs", body)
    saves(api, repeated=True)
    again = await api.post("/jobs", body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() | {"created": False} == again.json()
    assert first.json()["job_id"] == RECURRING
    (_, one), (_, two) = api.history.scheduled
    assert one == two

    api.history.answer = lambda _: Rejected(Code.ALREADY_EXISTS, "SCHEDULE_EXISTS", "it exists")
    response = await api.post("/jobs", {**body, "parameters": {"n": 1}})
    assert (response.status_code, response.json()["reason"]) == (422, "REQUEST_ID_REUSED")
    _, other = api.history.scheduled[-1]
    assert isinstance(other, CreateSchedule)
    assert isinstance(one, CreateSchedule)
    assert (other.schedule_id, other.request_id == one.request_id) == (RECURRING, False)


async def test_a_job_that_was_there_is_200(api: Api) -> None:
    api.history.answer = lambda _: JobsCreated([CreatedJob(RUN_ID, False, JobStatus.COMPLETED)])

    response = await api.post("/jobs", {"task_id": "t", "unique_key": "u"})

    assert response.status_code == 200
    assert response.json() == {"job_id": RUN, "created": False, "status": "COMPLETED"}


async def test_a20_too_many_jobs_are_to_come_again_later(api: Api) -> None:
    full = Rejected(Code.RESOURCE_EXHAUSTED, "SHARD_FULL", "full", retry_after_ms=100)
    api.history.answer = lambda _: full

    response = await api.post("/jobs", {"task_id": "t"})

    assert (response.status_code, response.headers["retry-after"]) == (429, "1")


def test_the_id_of_a_recurring_job_is_never_that_of_a_run() -> None:
    for number in range(200):
        raw = recurring_job_id(NAMESPACE_ID, str(number))
        assert shard_of_job(raw) > 65_536
        assert (raw[6] >> 4, raw[8] >> 6) == (8, 2)
