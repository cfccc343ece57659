"""`/jobs/{job_id}`: what is told of one job, recurring or not, and what ends or moves it (A4, A7, A13)."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from tests.unit.transport.rest.conftest import Api
from tests.unit.transport.rest.jobs import ACTION, INFO, RECURRING, RUN, RUN_ID, TIME, US, describes

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.jobs.intents import RescheduleJob, ResumeJob
from perdure_engine.core.jobs.model import (
    DEAD_LETTERS,
    ConcurrencyPolicy,
    JobState,
    JobStatus,
    UniqueScope,
)
from perdure_engine.core.jobs.replies import JobAnswered, JobDescription
from perdure_engine.core.poison import Crashes
from perdure_engine.core.schedules.intents import DeleteSchedule
from perdure_engine.core.schedules.model import WorkflowAction
from perdure_engine.transport.http.rest.bodies import jobs as bodies
from perdure_engine.transport.http.rest.bodies.workflows import WorkflowSettings
from perdure_engine.transport.http.rest.convert import payloads
from perdure_engine.transport.http.rest.convert.workflows import scheduled_workflow


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
        "crashes": 0,
        "archived": False,
    }


async def test_a_poisoned_job_shows_its_crashes_and_the_last_report(api: Api) -> None:
    report = Failure(FailureKind.WORKER_LOST, "killed by signal 11", "its stacks")
    state = JobState(due_us=US, reason="why", crashes=Crashes(3, US, (), report))
    info = msgspec.structs.replace(INFO, status=JobStatus.POISONED, state=state)
    api.history.answer = lambda _: JobDescription(info, b"")

    told = (await api.get(f"/jobs/{RUN}")).json()

    assert (told["status"], told["crashes"], told["reason"]) == ("POISONED", 3, "why")
    assert told["first_crash_time"] == TIME
    assert told["last_crash"]["message"] == "killed by signal 11"
    assert told["last_crash"]["stack_trace"] == "its stacks"


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


async def test_a_poisoned_job_is_resumed(api: Api) -> None:
    api.history.answer = lambda _: JobAnswered(JobStatus.POISONED)

    response = await api.post(f"/jobs/{RUN}:resume", {"reason": "mended", "identity": "op"})

    assert (response.status_code, response.json()) == (200, {"job_id": RUN, "status": "POISONED"})
    shard_id, intent = api.history.jobs[-1]
    assert isinstance(intent, ResumeJob)
    assert (shard_id, intent.job_id, intent.reason, intent.identity) == (2, RUN_ID, "mended", "op")


async def test_what_is_not_poisoned_is_not_resumed(api: Api) -> None:
    refused = Rejected(Code.FAILED_PRECONDITION, "JOB_NOT_POISONED", "no")
    api.history.answer = lambda _: refused

    response = await api.post(f"/jobs/{RUN}:resume")

    assert (response.status_code, response.json()["reason"]) == (409, "JOB_NOT_POISONED")


@pytest.mark.parametrize(("sent", "due_us"), [({}, 0), ({"schedule": TIME}, US)])
async def test_a_job_is_rescheduled(api: Api, sent: dict[str, Any], due_us: int) -> None:
    response = await api.post(f"/jobs/{RUN}:reschedule", sent)

    assert response.status_code == 204
    intent = api.history.jobs[-1][1]
    assert isinstance(intent, RescheduleJob)
    assert (intent.job_id, intent.due_us) == (RUN_ID, due_us)


@pytest.mark.parametrize("verb", ["reschedule", "resume"])
async def test_a_recurring_job_is_changed_as_the_schedule_that_it_is(api: Api, verb: str) -> None:
    describes(api, ACTION)

    response = await api.post(f"/jobs/{RECURRING}:{verb}")

    assert (response.status_code, response.json()["reason"]) == (409, "JOB_RECURS")


@pytest.mark.parametrize(
    "job_id", ["x", "00000000-0000-0000-0000-00000000000", "%00", f"{RUN}:reschedule"]
)
async def test_what_can_be_no_id_is_not_found(api: Api, job_id: str) -> None:
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/runs"):
        response = await api.get(path)
        assert (response.status_code, response.json()["reason"]) == (404, "JOB_NOT_FOUND")
    assert not api.room.touched


# ---- the contract


@pytest.mark.parametrize(
    ("of", "enumeration"),
    [
        (get_type_hints(bodies.JobSettings)["unique_scope"], UniqueScope),
        (get_type_hints(bodies.Concurrency)["policy"], ConcurrencyPolicy),
    ],
)
def test_choices_are_those_of_the_engine(of: Any, enumeration: Any) -> None:
    assert set(get_args(of)) == set(enumeration.__members__)


def test_lists_know_the_statuses_that_runs_have() -> None:
    assert set(get_args(bodies.StatusChoice)) == set(JobStatus.__members__)
    assert set(get_args(bodies.DeadLetter)) == {status.name for status in DEAD_LETTERS}
