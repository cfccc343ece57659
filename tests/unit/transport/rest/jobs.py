"""Jobs that the tests of `/jobs` share, and what history answers about them."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.frontend.fakes import NAMESPACE_ID
from tests.unit.transport.rest.conftest import Api

from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import job_id_of, recurring_job_id, uuid_text
from perdure_engine.core.jobs.model import Concurrency, JobFailure, JobSpec, JobState, JobStatus
from perdure_engine.core.jobs.replies import JobInfo
from perdure_engine.core.schedules.intents import (
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    ScheduleDescription,
    ScheduleInfo,
    ScheduleSaved,
)
from perdure_engine.core.schedules.model import JobAction, Schedule, ScheduleSpec
from perdure_engine.transport.http.rest.convert import payloads

US = 1_800_000_000_000_000
TIME = "2027-01-15T08:00:00Z"
RUN_ID = job_id_of(2, NAMESPACE_ID, "k", b"", 0)
RUN = uuid_text(RUN_ID)
RECURRING = uuid_text(recurring_job_id(NAMESPACE_ID, "key:k"))
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


ACTION = JobAction("send_email", "mail", JobSpec(input=payloads.from_parameters({"to": "a@b"})))


def saves(api: Api, *, repeated: bool = False) -> None:
    """Schedules are saved (or were before), and their next time is `US`."""
    plain = api.history.answer

    def answer(intent: Any) -> Any:
        if isinstance(intent, CreateSchedule | DeleteSchedule):
            return ScheduleSaved(1, US, [], repeated)
        return plain(intent)

    api.history.answer = answer


def describes(api: Api, action: Any, **changes: Any) -> None:
    schedule = Schedule(ScheduleSpec(cron=("0 10 * * *",)), action)
    info = ScheduleInfo(RECURRING, "ada", False, "", US, US, US, 0, None, "send_email", schedule)
    described = ScheduleDescription(msgspec.structs.replace(info, **changes), 3, [])

    def answer(intent: Any) -> Any:
        if isinstance(intent, DescribeSchedule):
            return described
        return ScheduleSaved(4, 0, [])

    api.history.answer = answer
