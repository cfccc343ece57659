"""`/jobs`: what a request asks of the handlers, and what is told of jobs (A1, A2, A4, A5, A17)."""

from __future__ import annotations

import uuid
from typing import Any, get_args, get_type_hints

import httpx
import msgspec
import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID, SHARDS
from tests.unit.transport.rest.conftest import Api

from perdure._definitions.parameters import is_object_of_parameters
from perdure._wire.payloads import payloads_from_bytes
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import job_id_of, recurring_job_id, shard_of_job, uuid_text
from perdure_engine.core.jobs.intents import CreatedJob, CreateJobs, RescheduleJob
from perdure_engine.core.jobs.model import (
    DEFAULT_JOB_RETRY,
    Concurrency,
    ConcurrencyPolicy,
    JobFailure,
    JobSpec,
    JobState,
    JobStatus,
    Unique,
    UniqueScope,
)
from perdure_engine.core.jobs.replies import JobDescription, JobInfo, JobsCreated
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.schedules.intents import (
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    ScheduleDescription,
    ScheduleInfo,
    ScheduleSaved,
)
from perdure_engine.core.schedules.model import (
    IntervalSpec,
    JobAction,
    Schedule,
    ScheduleSpec,
    WorkflowAction,
)
from perdure_engine.frontend.handlers.create_jobs import create_jobs
from perdure_engine.ports.rows import JobRunRow
from perdure_engine.store.codec import MsgpackCodec
from perdure_engine.transport.http.rest.bodies import jobs as bodies
from perdure_engine.transport.http.rest.bodies.workflows import WorkflowSettings
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.workflows import scheduled_workflow

US = 1_800_000_000_000_000
TIME = "2027-01-15T08:00:00Z"
NOW = "1970-01-01T00:00:02Z"  # of the fakes
RUN_ID = job_id_of(2, NAMESPACE_ID, "k", b"", 0)
RUN = uuid_text(RUN_ID)
RECURRING = uuid_text(recurring_job_id(NAMESPACE_ID, "key:k"))
# As row A4 of the requirements writes it.
A4 = (
    '{"task_id":"send_email","schedule":"0 10 * * *",'
    '"parameters":{"to":"…","subject":"Daily Report"}}'
).encode()


def saves(api: Api) -> None:
    """Schedules are saved, and their next time is `US`."""
    plain = api.history.answer

    def answer(intent: Any) -> Any:
        if isinstance(intent, CreateSchedule | DeleteSchedule):
            return ScheduleSaved(1, US, [])
        return plain(intent)

    api.history.answer = answer


def made(api: Api) -> Any:
    """The job of the last intent."""
    ((_, intent),) = api.history.jobs
    (job,) = intent.jobs
    return job


# ---- one job


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
        ({"schedule": "0 10 * * *", "expires_at": TIME}, "expires_at"),
        ({"schedule": TIME, "expires_at": TIME}, "expires_at"),
        ({"expires_at": "1970-01-01T00:00:01Z"}, "expires_at"),
        ({"expires_at": "2027-01-01T00:00:00"}, "expires_at"),
        ({"queue": "__own"}, "queue"),
        ({"user_id": "\u202e"}, "user_id"),
        ({"timeout": 0}, "timeout"),
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
    first = (await api.post("/jobs", body)).json()
    again = (await api.post("/jobs", body)).json()
    assert first == again
    assert first["job_id"] == RECURRING
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


# ---- many jobs


async def test_many_jobs_have_an_answer_each_in_their_order(api: Api) -> None:
    saves(api)

    response = await api.post(
        "/jobs:bulk",
        {
            "jobs": [
                {"task_id": "a", "parameters": {"n": 1}},
                {"task_id": "__a"},
                {"task_id": "r", "schedule": "@daily"},
                {"task_id": "a", "schedule": "nonsense"},
                {"task_id": "a", "parameters": {"n": 2}, "schedule": TIME},
            ]
        },
    )

    assert response.status_code == 200
    one, own, recurring, wrong, two = response.json()["jobs"]
    assert (one["next_run"], recurring["next_run"], two["next_run"]) == (NOW, TIME, TIME)
    assert (own["error"]["field"], wrong["error"]["field"]) == ("task_id", "schedule")
    assert own["error"]["status"] == 400
    assert "job_id" not in own
    jobs = [job for _, intent in api.history.jobs for job in intent.jobs]
    assert [uuid_text(job.job_id) for job in jobs] == [one["job_id"], two["job_id"]]


async def test_a_repeat_of_a_bulk_call_names_the_same_jobs(api: Api) -> None:
    saves(api)
    body = {"jobs": [{"task_id": "a"}, {"task_id": "r", "schedule": "@daily"}] * 3}
    key = {"idempotency-key": "import-7"}

    first = await api.post("/jobs:bulk", body, headers=key)
    again = await api.post("/jobs:bulk", body, headers=key)
    fresh = await api.post("/jobs:bulk", body)

    assert first.json() == again.json()
    assert len({one["job_id"] for one in first.json()["jobs"] + fresh.json()["jobs"]}) == 12
    hashes = [job.spec.body_hash for _, intent in api.history.jobs for job in intent.jobs]
    assert len(set(hashes)) == 1
    await api.post("/jobs:bulk", {"jobs": [{"task_id": "b"}]}, headers=key)
    assert api.history.jobs[-1][1].jobs[0].spec.body_hash != hashes[0]


async def test_options_that_are_the_same_are_looked_at_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes thousands of jobs cheap; the handler checks each object of options once."""
    seen: list[int] = []

    async def counted(frontend: Any, call: Any) -> Any:
        seen.append(len({id(asked.options) for asked in call.jobs}))
        return await create_jobs(frontend, call)

    monkeypatch.setattr("perdure_engine.transport.http.rest.making_jobs.create_jobs", counted)
    jobs = [{"task_id": "a", "parameters": {"n": number}} for number in range(1_000)]
    await api.post("/jobs:bulk", {"jobs": [*jobs, {"task_id": "b"}]})

    assert seen == [2]


async def test_a_failed_shard_is_told_for_its_jobs_alone(api: Api) -> None:
    plain = api.history.answer
    api.history.answer = lambda intent: (
        ValueError("secret") if intent.shard_id == 1 else plain(intent)
    )
    jobs = [{"task_id": "a", "idempotency_key": str(number)} for number in range(40)]

    answers = (await api.post("/jobs:bulk", {"jobs": jobs})).json()["jobs"]

    failed = [one["error"] for one in answers if "error" in one]
    assert 0 < len(failed) < 40
    assert {error["reason"] for error in failed} == {"INTERNAL"}
    assert "secret" not in str(answers)


async def test_recurring_jobs_of_a_call_are_told_although_the_others_failed(api: Api) -> None:
    saves(api)
    plain = api.history.answer
    full = Rejected(Code.RESOURCE_EXHAUSTED, "SHARD_FULL", "full", retry_after_ms=100)
    api.history.answer = lambda intent: full if isinstance(intent, CreateJobs) else plain(intent)
    jobs = [{"task_id": "a"}, {"task_id": "r", "schedule": "@daily"}]

    response = await api.post("/jobs:bulk", {"jobs": jobs})
    alone = await api.post("/jobs:bulk", {"jobs": jobs[:1]})

    once, recurring = response.json()["jobs"]
    assert once["error"]["reason"] == "SHARD_FULL"
    assert recurring["created"]
    assert alone.status_code == 429


async def test_a_batch_belongs_together_and_is_one_shards(api: Api) -> None:
    response = await api.post(
        "/jobs:bulk",
        {
            "jobs": [{"task_id": "a"}] * 3 + [{"task_id": "r", "schedule": "@daily"}],
            "batch": {"batch_id": "b1", "callback": {"task_id": "done"}, "more": True},
        },
    )

    *_, recurring = response.json()["jobs"]
    assert recurring["error"]["field"] == "schedule"
    ((_, intent),) = api.history.jobs
    assert isinstance(intent, CreateJobs)
    assert [job.batch_id for job in intent.jobs] == ["b1"] * 3
    assert intent.batch is not None
    assert intent.batch.callback is not None
    assert (intent.batch.callback.task_name, intent.batch.sealed) == ("done", False)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"jobs": [{"task_id": "a"}, {"task_id": 1}]}, "jobs[1].task_id"),
        ({"jobs": [{"task_id": "a", "no": 1}]}, "jobs[0].no"),
        ({"jobs": "a"}, "jobs"),
        ({}, "jobs"),
        ({"jobs": [], "batch": {"batch_id": ""}}, "batch.batch_id"),
        (
            {
                "jobs": [],
                "batch": {"batch_id": "b", "callback": {"task_id": "a", "schedule": TIME}},
            },
            "batch.callback.schedule",
        ),
        ({"jobs": [{"task_id": "a"}] * 10_001}, "jobs"),
    ],
)
async def test_a_call_that_is_wrong_makes_no_job(
    api: Api, body: dict[str, Any], field: str
) -> None:
    response = await api.post("/jobs:bulk", body)

    assert (response.status_code, response.json()["field"]) == (400, field)
    assert not api.room.touched


# ---- what is told


INFO = JobInfo(
    job_id=RUN_ID,
    namespace_id=NAMESPACE_ID,
    task_name="send_email",
    queue="mail",
    user_id="ada",
    schedule_id="",
    batch_id="b1",
    concurrency_key="c",
    status=JobStatus.RETRY,
    attempt=2,
    priority=3,
    created_us=US,
    scheduled_us=US,
    closed_us=0,
    spec=JobSpec(
        input=payloads.from_parameters({"to": "a@b"}),
        timeout_ms=30_000,
        concurrency=Concurrency("c", 2),
    ),
    state=JobState(
        due_us=US + 1_000_000,
        started_us=US,
        worker_identity="w@h",
        failures=(
            JobFailure(1, US, "w@h", Failure(FailureKind.APPLICATION, "no", type="SmtpError")),
        ),
        progress=payloads.from_values([7]),
    ),
)


async def test_a13_a_job_shows_its_attempts_and_what_failed(api: Api) -> None:
    api.history.answer = lambda _: JobDescription(INFO, b"")

    told = (await api.get(f"/jobs/{RUN}")).json()

    (failure,) = told.pop("failures")
    assert (failure["attempt"], failure["time"], failure["worker_identity"]) == (1, TIME, "w@h")
    assert failure["failure"]["application"] == {"type": "SmtpError"}
    assert told == {
        "job_id": RUN,
        "task_id": "send_email",
        "recurring": False,
        "queue": "mail",
        "status": "RETRY",
        "user_id": "ada",
        "priority": 3,
        "create_time": TIME,
        "parameters": {"to": "a@b"},
        "next_run": "2027-01-15T08:00:01Z",
        "timeout": 30,
        "retry": {
            "initial_interval": 1,
            "backoff_coefficient": 2,
            "maximum_interval": None,
            "maximum_attempts": 3,
            "non_retryable_error_types": [],
        },
        "unique_key": "",
        "concurrency": {"key": "c", "limit": 2, "policy": "QUEUE", "rate_per_s": 0},
        "schedule_id": "",
        "batch_id": "b1",
        "attempt": 2,
        "scheduled_time": TIME,
        "start_time": TIME,
        "worker_identity": "w@h",
        "cancel_requested": False,
        "reason": "",
        "progress": [7],
        "archived": False,
    }


async def test_a_job_of_the_sdk_shows_its_arguments_and_a_completed_one_its_result(
    api: Api,
) -> None:
    spec = msgspec.structs.replace(INFO.spec, input=payloads.from_values([1, "x"]))
    info = msgspec.structs.replace(
        INFO, status=JobStatus.COMPLETED, closed_us=US, spec=spec, state=JobState()
    )
    api.history.answer = lambda _: JobDescription(info, payloads.from_values([{"sent": True}]))

    told = (await api.get(f"/jobs/{RUN}")).json()

    assert told["args"] == [1, "x"]
    assert "parameters" not in told
    assert told["result"] == {"sent": True}
    assert told["close_time"] == TIME


def describes(api: Api, action: Any, **changes: Any) -> None:
    schedule = Schedule(ScheduleSpec(cron=("0 10 * * *",)), action)
    info = ScheduleInfo(RECURRING, "ada", False, "", US, US, US, 0, None, "send_email", schedule)
    described = ScheduleDescription(msgspec.structs.replace(info, **changes), 3, [])

    def answer(intent: Any) -> Any:
        if isinstance(intent, DescribeSchedule):
            return described
        return ScheduleSaved(4, 0, [])

    api.history.answer = answer


ACTION = JobAction("send_email", "mail", JobSpec(input=payloads.from_parameters({"to": "a@b"})))


@pytest.mark.parametrize(
    ("changes", "status"),
    [({}, "PENDING"), ({"paused": True}, "SUSPENDED"), ({"next_us": 0}, "COMPLETED")],
)
async def test_a7_a_recurring_job_shows_its_definition(
    api: Api, changes: dict[str, Any], status: str
) -> None:
    describes(api, ACTION, **changes)

    told = (await api.get(f"/jobs/{RECURRING}")).json()

    assert (told["job_id"], told["recurring"], told["status"]) == (RECURRING, True, status)
    assert told["parameters"] == {"to": "a@b"}
    assert "10:00" in told["schedule"]
    assert told.get("next_run") == (None if status == "COMPLETED" else TIME)


async def test_a_recurring_job_that_is_ended_is_a_schedule_that_is_deleted(api: Api) -> None:
    describes(api, ACTION)

    response = await api.http.delete(f"/jobs/{RECURRING}?reason=enough")

    assert response.json() == {"job_id": RECURRING, "status": "CANCELLED"}
    _, intent = api.history.scheduled[-1]
    assert isinstance(intent, DeleteSchedule)
    assert (intent.schedule_id, intent.reason) == (RECURRING, "enough")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_schedule_of_workflows_and_one_that_is_not_there_are_no_jobs(
    api: Api, method: str
) -> None:
    start = scheduled_workflow(WorkflowSettings(workflow_type="T", task_queue="q"))
    describes(api, WorkflowAction("", start))
    other = await api.http.request(method, f"/jobs/{RECURRING}")
    gone = Rejected(Code.NOT_FOUND, "SCHEDULE_NOT_FOUND", "gone")
    api.history.answer = lambda _: gone
    absent = await api.http.request(method, f"/jobs/{RECURRING}")

    for response in (other, absent):
        assert (response.status_code, response.json()["reason"]) == (404, "JOB_NOT_FOUND")
    assert not any(isinstance(one, DeleteSchedule) for _, one in api.history.scheduled)


async def test_a_job_is_cancelled_with_a_reason(api: Api) -> None:
    response = await api.http.delete(f"/jobs/{RUN}?reason=too%20late")

    assert response.json() == {"job_id": RUN, "status": "CANCELLED"}
    shard_id, intent = api.history.jobs[-1]
    assert (shard_id, intent.job_id, intent.reason) == (2, RUN_ID, "too late")


@pytest.mark.parametrize(("sent", "due_us"), [({}, 0), ({"schedule": TIME}, US)])
async def test_a_job_is_rescheduled(api: Api, sent: dict[str, Any], due_us: int) -> None:
    response = await api.post(f"/jobs/{RUN}:reschedule", sent)

    assert response.status_code == 204
    intent = api.history.jobs[-1][1]
    assert isinstance(intent, RescheduleJob)
    assert (intent.job_id, intent.due_us) == (RUN_ID, due_us)


async def test_a_recurring_job_is_rescheduled_as_the_schedule_that_it_is(api: Api) -> None:
    describes(api, ACTION)

    response = await api.post(f"/jobs/{RECURRING}:reschedule")

    assert (response.status_code, response.json()["reason"]) == (409, "JOB_RECURS")


@pytest.mark.parametrize(
    "job_id", ["x", "00000000-0000-0000-0000-00000000000", "%00", f"{RUN}:reschedule"]
)
async def test_what_can_be_no_id_is_not_found(api: Api, job_id: str) -> None:
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/runs"):
        response = await api.get(path)
        assert (response.status_code, response.json()["reason"]) == (404, "JOB_NOT_FOUND")
    assert not api.room.touched


# ---- lists


codec = MsgpackCodec()


def row(number: int, **changes: Any) -> JobRunRow:
    fields: dict[str, Any] = {
        "shard_id": number % SHARDS + 1,
        "job_id": number.to_bytes(16, "big"),
        "namespace_id": NAMESPACE_ID,
        "bucket": 1,
        "task_name": "t",
        "queue": "default",
        "queue_no": 1,
        "user_id": "ada",
        "schedule_id": "",
        "concurrency_key": "",
        "batch_id": "",
        "status": int(JobStatus.PENDING),
        "attempt": 1,
        "priority": 3,
        "created_us": US,
        "scheduled_us": US + number * 1_000_000,
        "closed_us": None,
        "task_id": 0,
        "start_no": 0,
        "spec": codec.encode_job_spec(JobSpec()),
        "state": codec.encode_job_state(JobState()),
        "result": b"",
        "version": 1,
    }
    return JobRunRow(**(fields | changes))


@pytest.fixture
def listed(api: Api) -> Api:
    """Five jobs of Ada's a second apart, the newest of them j5, and one of Bob's."""
    rows = [
        row(1),
        row(2, status=int(JobStatus.FAILED), task_name="other"),
        row(3, queue="mail"),
        row(4, schedule_id=RECURRING),
        row(5, batch_id="b1", status=int(JobStatus.COMPLETED), closed_us=US),
        row(6, user_id="bob"),
        row(7, namespace_id=OTHER_NAMESPACE_ID),
    ]
    for one in rows:
        api.room.operations.tables.job_runs.put(one)
    return api


def numbers(response: httpx.Response) -> list[int]:
    assert response.status_code == 200, response.text
    return [uuid.UUID(job["job_id"]).int for job in response.json()["jobs"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [6, 5, 4, 3, 2, 1]),
        ("user_id=ada", [5, 4, 3, 2, 1]),
        ("user_id=bob", [6]),
        ("user_id=nobody", []),
        ("status=FAILED", [2]),
        ("status=FAILED&status=COMPLETED", [5, 2]),
        ("start_time=2027-01-15T08:00:03Z", [6, 5, 4, 3]),
        ("end_time=2027-01-15T08:00:03Z", [2, 1]),
        ("end_time=1969-01-01T00:00:00Z", []),
        ("start_time=2027-01-15T09:00:02%2B01:00&end_time=2027-01-15T08:00:04Z", [3, 2]),
        ("task_id=other", [2]),
        ("queue=mail", [3]),
        (f"schedule_id={RECURRING}", [4]),
        ("batch_id=b1", [5]),
        ("oldest_first=true&user_id=ada", [1, 2, 3, 4, 5]),
        (
            "user_id=ada&status=PENDING&start_time=2027-01-15T08:00:02Z&end_time=2027-01-15T08:00:04Z",
            [3],
        ),
        ("user_id=&status=&start_time=&end_time=", [6, 5, 4, 3, 2, 1]),
    ],
)
async def test_a3_a5_each_filter_holds_alone_and_with_others(
    listed: Api, query: str, found: list[int]
) -> None:
    assert numbers(await listed.get(f"/jobs?{query}")) == found


@pytest.mark.parametrize("order", ["true", "false"])
async def test_a5_pages_bring_every_job_once(listed: Api, order: str) -> None:
    seen: list[int] = []
    token = ""
    while True:
        page = await listed.get(f"/jobs?limit=2&oldest_first={order}&page_token={token}")
        seen += numbers(page)
        token = page.json().get("next_page_token", "")
        if not token:
            break

    assert seen == ([1, 2, 3, 4, 5, 6] if order == "true" else [6, 5, 4, 3, 2, 1])


async def test_b20_a_token_of_another_list_is_refused(listed: Api) -> None:
    token = (await listed.get("/jobs?limit=2")).json()["next_page_token"]

    for other in ("user_id=ada", "namespace=other", "oldest_first=true"):
        response = await listed.get(f"/jobs?limit=2&{other}&page_token={token}")
        assert (response.status_code, response.json()["field"]) == (400, "page_token")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=DONE", "status[0]"),
        ("status=PENDING&status=4", "status[1]"),
        ("start_time=yesterday", "start_time"),
        ("start_time=null", "start_time"),
        ("start_time=1800000000", "start_time"),
        ("end_time=2027-01-15T08:00:03", "end_time"),
        ("user_id=%00", "user_id"),
        ("task_id=__x", "task_id"),
        ("oldest_first=maybe", "oldest_first"),
        ("oldest_first=1", "oldest_first"),
    ],
)
async def test_a_filter_that_is_wrong_is_refused_by_its_parameter(
    listed: Api, query: str, field: str
) -> None:
    response = await listed.get(f"/jobs?{query}")

    assert (response.status_code, response.json()["field"]) == (400, field)


async def test_an_entry_of_a_list_tells_when_and_what(listed: Api) -> None:
    (job,) = (await listed.get("/jobs?queue=mail")).json()["jobs"]

    assert job == {
        "job_id": str(uuid.UUID(int=3)),
        "task_id": "t",
        "queue": "mail",
        "status": "PENDING",
        "attempt": 1,
        "user_id": "ada",
        "schedule_id": "",
        "batch_id": "",
        "priority": 3,
        "create_time": TIME,
        "scheduled_time": "2027-01-15T08:00:03Z",
        "unique_key": "",
        "concurrency_key": "",
        "reason": "",
        "failure_type": "",
        "failure_message": "",
        "archived": False,
    }


async def test_a7_the_runs_of_a_recurring_job_are_those_of_its_schedule(listed: Api) -> None:
    describes(listed, ACTION)

    assert numbers(await listed.get(f"/jobs/{RECURRING}/runs")) == [4]
    assert numbers(await listed.get(f"/jobs/{RECURRING}/runs?status=FAILED")) == []


async def test_a_job_that_runs_once_is_its_only_run(api: Api) -> None:
    api.history.answer = lambda _: JobDescription(INFO, b"")

    assert numbers(await api.get(f"/jobs/{RUN}/runs")) == [uuid.UUID(RUN).int]
    assert numbers(await api.get(f"/jobs/{RUN}/runs?status=RETRY")) == [uuid.UUID(RUN).int]
    assert numbers(await api.get(f"/jobs/{RUN}/runs?status=FAILED")) == []


# ---- redrive


async def test_a18_failed_jobs_begin_anew_by_their_ids_or_by_a_filter(listed: Api) -> None:
    by_id = await listed.post("/jobs:redrive", {"job_ids": [RUN], "reason": "mended"})
    by_filter = await listed.post("/jobs:redrive", {"filter": {"user_id": "ada"}})
    counted = await listed.post("/jobs:redrive", {"filter": {}, "dry_run": True})

    assert [one.json() for one in (by_id, by_filter, counted)] == [{"count": 1}] * 3
    (_, one), (_, two) = listed.history.jobs
    assert (one.job_id, one.reason) == (RUN_ID, "mended")
    assert two.job_id == (2).to_bytes(16, "big")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "filter"),
        ({"job_ids": ["x"]}, "job_ids[0]"),
        ({"job_ids": [RUN], "filter": {"user_id": "a"}}, "filter"),
        ({"filter": {"task_id": "__x"}}, "filter.task_id"),
        ({"filter": {"status": ["FAILED"]}}, "filter.status"),
    ],
)
async def test_a_redrive_that_is_wrong_redrives_nothing(
    api: Api, body: dict[str, Any], field: str
) -> None:
    response = await api.post("/jobs:redrive", body)

    assert (response.status_code, response.json()["field"]) == (400, field)
    assert not api.room.touched


# ---- the contract


@pytest.mark.parametrize(
    ("of", "enumeration"),
    [
        (bodies.StatusChoice, JobStatus),
        (get_type_hints(bodies.JobSettings)["unique_scope"], UniqueScope),
        (get_type_hints(bodies.Concurrency)["policy"], ConcurrencyPolicy),
    ],
)
def test_choices_are_those_of_the_engine(of: Any, enumeration: Any) -> None:
    assert set(get_args(of)) == set(enumeration.__members__)
