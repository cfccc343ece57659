"""`perdure job` and `perdure queue`, against a client that remembers what it was asked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from perdure._definitions.parameters import object_of_parameters
from perdure._failure_info import ApplicationInfo, FailureInfo
from perdure.cli.app import app
from perdure.client import (
    Client,
    JobCount,
    JobDescription,
    JobFailure,
    JobInfo,
    TaskQueueInfo,
    TaskQueueKindInfo,
)
from perdure.common import Priority, RawValue, RetryPolicy
from perdure.converter import DataConverter
from perdure.errors import (
    ApplicationError,
    JobCancelledError,
    JobFailedError,
    JobSkippedError,
    RPCError,
    RPCStatusCode,
)
from perdure.job import Concurrency, ConcurrencyPolicy, JobStatus, UniqueScope

CONVERTER = DataConverter.default.payload_converter
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
JOB_ID = "00000001-0000-8000-8000-000000000001"
EVIL = "mail-\x1b[31m\x1b]0;owned\x07\u202e1"
INFO: dict[str, Any] = {
    "id": JOB_ID,
    "task_name": "mail",
    "queue": "mails",
    "status": JobStatus.FAILED,
    "attempt": 3,
    "user_id": "ada",
    "schedule_id": "",
    "batch_id": "",
    "create_time": NOON,
    "scheduled_time": NOON,
    "next_attempt_time": None,
    "start_time": NOON,
    "close_time": NOON,
    "priority": 3,
    "idempotency_key": "",
    "unique_key": "",
    "concurrency_key": "",
    "reason": "",
    "failure_type": "Gone",
    "failure_message": EVIL,
}
DESCRIPTION = JobDescription(
    **INFO,
    args=["ada", 2],
    result=None,
    progress=[],
    failures=[
        JobFailure(
            attempt=1,
            time=NOON,
            worker_identity="w",
            failure=FailureInfo(message="disk full", source="", info=ApplicationInfo(type="Gone")),
        )
    ],
    timeout=timedelta(seconds=5),
    retry_policy=RetryPolicy(maximum_attempts=3),
    worker_identity="w",
    cancel_requested=False,
    expire_time=None,
    concurrency=None,
)


class FakeHandle:
    def __init__(self, jobs: FakeJobs, id: str) -> None:
        self.id = id
        self.created = jobs.created
        self._jobs = jobs

    async def result(self, **options: Any) -> Any:
        self._jobs.asked.append(("result", self.id, options))
        return self._jobs.answer({"sent": True})

    async def describe(self, **options: Any) -> JobDescription:
        self._jobs.asked.append(("describe", self.id))
        return self._jobs.answer(self._jobs.described)  # type: ignore[no-any-return]


class FakeJobs:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.error: Exception | None = None
        self.created = True
        self.described = DESCRIPTION
        self.found = [JobInfo(**{**INFO, "id": f"{JOB_ID[:-1]}{n}"}) for n in range(3)]

    def answer(self, value: Any) -> Any:
        if self.error is not None:
            raise self.error
        return value

    async def create(self, *args: Any, **options: Any) -> FakeHandle:
        options.pop("rpc_timeout")
        self.asked.append(("create", args, options))
        return self.answer(FakeHandle(self, JOB_ID))  # type: ignore[no-any-return]

    def get(self, id: str) -> FakeHandle:
        return FakeHandle(self, id)

    async def list(
        self, *, rpc_timeout: Any, limit: int | None = None, **filters: Any
    ) -> AsyncIterator[JobInfo]:
        self.asked.append(("list", {name: one for name, one in filters.items() if one}))
        for one in self.found[:limit]:
            yield one

    async def count(self, *, rpc_timeout: Any, **filters: Any) -> JobCount:
        self.asked.append(("count", {name: one for name, one in filters.items() if one}))
        return JobCount(7, {JobStatus.FAILED: 5, JobStatus.COMPLETED: 2})

    async def cancel(self, id: str, *, reason: str, rpc_timeout: Any) -> JobStatus:
        self.asked.append(("cancel", id, reason))
        return self.answer(JobStatus.CANCELLED)  # type: ignore[no-any-return]

    async def resume(self, id: str, *, reason: str, rpc_timeout: Any) -> JobStatus:
        self.asked.append(("resume", id, reason))
        return self.answer(JobStatus.POISONED)  # type: ignore[no-any-return]

    async def reschedule(self, id: str, run_at: datetime | None, *, rpc_timeout: Any) -> None:
        self.asked.append(("reschedule", id, run_at))

    async def redrive(self, ids: Any, *, rpc_timeout: Any, **options: Any) -> int:
        self.asked.append(("redrive", ids, options))
        return 4

    async def set_queue_limit(self, *args: Any, reason: str, rpc_timeout: Any) -> None:
        self.asked.append(("limit", *args, reason))


class FakeClient:
    def __init__(self) -> None:
        self.jobs = FakeJobs()
        self.core = SimpleNamespace(
            connection=SimpleNamespace(wait_ready=self._ready),
            decode_or_keep=CONVERTER.from_payload,
        )
        self.operator = self

    async def describe_task_queue(self, name: str, *, rpc_timeout: Any) -> TaskQueueInfo:
        self.jobs.asked.append(("queue", name))
        none = TaskQueueKindInfo(backlog_count=0, backlog_age=timedelta(0), pollers=1)
        some = TaskQueueKindInfo(backlog_count=12, backlog_age=timedelta(seconds=90), pollers=2)
        nodes = 3 if name == "spread" else 1
        return TaskQueueInfo(workflow=none, activity=none, job=some, node_id="n-1", nodes=nodes)

    async def close(self) -> None: ...

    async def _ready(self, _: float) -> None: ...


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> FakeJobs:
    client = FakeClient()

    async def connect(*_: Any, **__: Any) -> FakeClient:
        return client

    monkeypatch.setattr(Client, "connect", connect)
    return client.jobs


def run(*words: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=input)


# ---- create


def test_a_job_with_named_parameters(jobs: FakeJobs) -> None:
    found = run(
        *("job", "create", "mail", "-p", "to=ada@example.org", "-p", "copies=2"),
        *("-p", 'subject="quoted"', "-p", "tags=[1]"),
    )

    assert found.exit_code == 0
    assert found.stdout == f"{JOB_ID}\n"
    ((_, args, options),) = jobs.asked
    given = {"to": "ada@example.org", "copies": 2, "subject": "quoted", "tags": [1]}
    payload = object_of_parameters(CONVERTER.to_payload(given))
    assert (args, options["args"]) == (("mail",), [RawValue(payload)])


def test_a_job_with_everything(jobs: FakeJobs) -> None:
    run(
        *("job", "create", "mail", "-i", '"ada"', "-i", "2", "--queue", "mails"),
        *("--at", "2026-11-30T12:00:00Z", "--user", "u1", "--timeout", "5s"),
        *("--maximum-attempts", "7", "--priority", "1", "--idempotency-key", "i"),
        *("--unique-key", "u", "--unique-scope", "period", "--unique-period", "1m"),
        *("--concurrency-key", "c", "--concurrency-limit", "3"),
        *("--concurrency-policy", "cancel-newest", "--expires", "2026-11-30T13:00:00Z"),
    )

    ((_, _, options),) = jobs.asked
    assert {name: one for name, one in options.items() if one is not None} == {
        "args": ["ada", 2],
        "queue": "mails",
        "run_at": NOON,
        "user_id": "u1",
        "timeout": timedelta(seconds=5),
        "retry_policy": RetryPolicy(maximum_attempts=7),
        "priority": Priority(priority_key=1),
        "idempotency_key": "i",
        "unique_key": "u",
        "unique_scope": UniqueScope.PERIOD,
        "unique_period": timedelta(minutes=1),
        "concurrency": Concurrency(key="c", limit=3, policy=ConcurrencyPolicy.CANCEL_NEWEST),
        "expires_at": NOON + timedelta(hours=1),
    }


def test_a_job_as_json_and_one_that_was_there(jobs: FakeJobs) -> None:
    jobs.created = False
    as_json = run("job", "create", "mail", "--delay", "90s", "-o", "json")
    as_text = run("job", "create", "mail")

    assert json.loads(as_json.stdout) == {"job_id": JOB_ID, "created": False}
    assert as_text.stdout == f"{JOB_ID}\n"
    assert "there already" in as_text.stderr
    assert jobs.asked[0][2]["delay"] == timedelta(seconds=90)


def test_a_job_that_is_waited_for(jobs: FakeJobs) -> None:
    found = run("job", "create", "mail", "--wait")
    assert json.loads(found.stdout) == {"sent": True}


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("mail", "-p", "to"),
        ("mail", "-p", "=5"),
        ("mail", "-p", "to=x", "-i", "1"),
        ("mail", "-i", "x"),
        ("mail", "--at", "2h"),
        ("mail", "--at", "2026-11-30T12:00:00Z", "--delay", "1m"),
        ("mail", "--delay", "soon"),
        ("mail", "--priority", "6"),
        ("mail", "--unique-key", "u", "--unique-scope", "period"),
        ("mail", "--unique-key", "u", "--unique-period", "1m"),
        ("mail", "--concurrency-limit", "0"),
        ("mail", "--expires", "never"),
    ],
)
def test_mistakes_in_a_creation(jobs: FakeJobs, words: tuple[str, ...]) -> None:
    assert run("job", "create", *words).exit_code == 2
    assert jobs.asked == []


# ---- lists


def test_a_list_as_a_table_and_as_json(jobs: FakeJobs) -> None:
    table = run("job", "list", "--limit", "2")
    lines = run("job", "list", "-o", "json", "--limit", "0").stdout.splitlines()

    assert table.stdout.splitlines()[0].split() == [
        *("JOB", "TASK", "STATUS", "ATTEMPT", "SCHEDULED", "QUEUE")
    ]
    assert len(table.stdout.splitlines()) == 3
    assert "There are more than 2" in table.stderr
    assert [json.loads(line)["status"] for line in lines] == ["FAILED"] * 3


def test_every_status_that_jobs_have_is_offered(jobs: FakeJobs) -> None:
    for status in JobStatus:
        run("job", "list", "--status", status.name.lower().replace("_", "-"))
    refused = CliRunner().invoke(app, ["job", "list", "--status", "done"])

    assert jobs.asked == [("list", {"status": [status]}) for status in JobStatus]
    assert refused.exit_code == 2


def test_every_filter(jobs: FakeJobs) -> None:
    words = [
        *("--status", "failed", "--status", "in-progress", "--task", "mail", "--queue", "mails"),
        *("--user", "ada", "--schedule", "s", "--batch", "b", "--failure-type", "Gone"),
        *("--since", "2026-11-30T12:00:00Z", "--until", "2026-11-30T13:00:00Z"),
    ]
    run("job", "list", *words, "--oldest-first")
    run("job", "count", *words)

    filters = {
        "status": [JobStatus.FAILED, JobStatus.IN_PROGRESS],
        "task_name": "mail",
        "queue": "mails",
        "user_id": "ada",
        "schedule_id": "s",
        "batch_id": "b",
        "failure_type": "Gone",
        "scheduled_time_min": NOON,
        "scheduled_time_max": NOON + timedelta(hours=1),
    }
    assert jobs.asked == [("list", {**filters, "oldest_first": True}), ("count", filters)]


def test_counts(jobs: FakeJobs) -> None:
    assert json.loads(run("job", "count", "-o", "json").stdout) == {
        "count": 7,
        "by_status": {"FAILED": 5, "COMPLETED": 2},
    }
    assert [line.split() for line in run("job", "count").stdout.splitlines()][1:] == [
        ["FAILED", "5"],
        ["COMPLETED", "2"],
        ["all", "7"],
    ]


def test_dead_letters_say_why_and_obey_no_control_characters(jobs: FakeJobs) -> None:
    found = run("job", "dead-letters")

    dead = [JobStatus.FAILED, JobStatus.POISONED, JobStatus.SUSPENDED]
    assert jobs.asked == [("list", {"status": dead})]
    assert "Gone" in found.stdout
    assert "mail-1" in found.stdout
    assert "\x1b" not in found.stdout


def test_dead_letters_that_crash_their_workers_say_so(jobs: FakeJobs) -> None:
    told = "has crashed 3 times in a row"
    crashed = {"status": JobStatus.POISONED, "close_time": None, "failure_type": "", "reason": told}
    jobs.found = [JobInfo(**{**INFO, **crashed, "crashes": 3, "first_crash_time": NOON})]
    (line,) = run("job", "dead-letters", "--status", "poisoned").stdout.splitlines()[1:]
    (group,) = run("job", "dead-letters", "--summary", "-o", "json").stdout.splitlines()

    assert jobs.asked[0] == ("list", {"status": [JobStatus.POISONED]})
    assert ("POISONED" in line, told in line, "12:00" in line) == (True, True, True)
    told_as_json = json.loads(group)
    assert (told_as_json["status"], told_as_json["failure_message"]) == ("POISONED", told)


def test_dead_letters_by_function_and_failure(jobs: FakeJobs) -> None:
    jobs.found.append(JobInfo(**{**INFO, "failure_type": "TIMEOUT"}))
    lines = run("job", "dead-letters", "--summary", "-o", "json").stdout.splitlines()
    table = run("job", "dead-letters", "--summary").stdout.splitlines()

    counts = [(one["failure_type"], one["count"]) for one in map(json.loads, lines)]
    assert counts == [("Gone", 3), ("TIMEOUT", 1)]
    assert [line.split()[:4] for line in table[1:]] == [
        ["mail", "FAILED", "Gone", "3"],
        ["mail", "FAILED", "TIMEOUT", "1"],
    ]


# ---- one


def test_a_description(jobs: FakeJobs) -> None:
    as_json = json.loads(run("job", "describe", JOB_ID, "-o", "json").stdout)
    table = run("job", "describe", JOB_ID).stdout

    assert (as_json["args"], as_json["failures"][0]["attempt"]) == (["ada", 2], 1)
    assert "disk full" in table
    assert "attempt 1 failed" in table
    assert "batch id" not in table
    assert "crash" not in table


def test_a_description_of_what_crashes_its_workers(jobs: FakeJobs) -> None:
    report = FailureInfo(message="killed by signal 11", stack_trace="its stacks")
    jobs.described = dataclasses.replace(DESCRIPTION, crashes=2, last_crash=report)
    lines = [line.split() for line in run("job", "describe", JOB_ID).stdout.splitlines()]

    assert ["crashes", "2"] in lines
    assert ["last", "crash", "killed", "by", "signal", "11"] in lines
    assert ["crash", "report", "its", "stacks"] in lines


def test_a_result(jobs: FakeJobs) -> None:
    found = run("job", "result", JOB_ID, "--timeout", "5s")

    assert json.loads(found.stdout) == {"sent": True}
    assert jobs.asked == [("result", JOB_ID, {"rpc_timeout": timedelta(seconds=5)})]


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (JobFailedError(JOB_ID, cause=ApplicationError("full", type="Disk")), 4, "Disk: full"),
        (JobSkippedError(JOB_ID, reason="expired"), 4, "was skipped: expired"),
        (JobCancelledError(JOB_ID, reason="enough"), 6, "was cancelled: enough"),
        (RPCError("late", RPCStatusCode.DEADLINE_EXCEEDED), 5, "late"),
        (RPCError("no such job", RPCStatusCode.NOT_FOUND), 3, "no such job"),
        (RPCError("job_id: is no UUID", RPCStatusCode.INVALID_ARGUMENT), 2, "is no UUID"),
    ],
)
def test_how_a_result_ends(jobs: FakeJobs, error: Exception, code: int, told: str) -> None:
    jobs.error = error
    found = run("job", "result", JOB_ID)

    assert found.exit_code == code
    assert told in found.stderr
    assert found.stdout == ""


# ---- changes


def test_cancelling(jobs: FakeJobs) -> None:
    found = run("job", "cancel", JOB_ID, "--reason", "enough")

    assert jobs.asked == [("cancel", JOB_ID, "enough")]
    assert "is cancelled" in found.stderr
    jobs.error = RPCError("it has ended", RPCStatusCode.FAILED_PRECONDITION)
    assert run("job", "cancel", JOB_ID).exit_code == 1


def test_resuming(jobs: FakeJobs) -> None:
    found = run("job", "resume", JOB_ID, "--reason", "mended")

    assert jobs.asked == [("resume", JOB_ID, "mended")]
    assert "surgical pool" in found.stderr
    jobs.error = RPCError("it is not poisoned", RPCStatusCode.FAILED_PRECONDITION)
    assert run("job", "resume", JOB_ID).exit_code == 1


def test_another_time(jobs: FakeJobs) -> None:
    assert run("job", "reschedule", JOB_ID, "--at", "2026-11-30T12:00:00").exit_code == 0
    assert run("job", "reschedule", JOB_ID, "--now").exit_code == 0
    assert jobs.asked == [("reschedule", JOB_ID, NOON), ("reschedule", JOB_ID, None)]
    for words in ((), ("--at", "2h"), ("--now", "--at", "2026-11-30T12:00:00Z")):
        assert run("job", "reschedule", JOB_ID, *words).exit_code == 2


def test_redriving_asks_first(jobs: FakeJobs) -> None:
    words = ("job", "redrive", "--task", "mail", "--failure-type", "Gone")
    refused = run(*words, input="n\n")
    agreed = run(*words, "--reason", "mended", input="y\n")

    filters = {"task_name": "mail", "failure_type": "Gone"}
    assert refused.exit_code == 1
    assert agreed.exit_code == 0
    assert jobs.asked == [
        ("redrive", [], {**filters, "dry_run": True}),
        ("redrive", [], {**filters, "dry_run": True}),
        ("redrive", [], {**filters, "reason": "mended"}),
    ]
    assert "4 jobs begin anew" in agreed.stderr


def test_redriving_without_a_question(jobs: FakeJobs) -> None:
    assert json.loads(run("job", "redrive", JOB_ID, "-o", "json").stdout) == {"count": 4}
    assert json.loads(run("job", "redrive", "--all", "--dry-run").stdout) == 4
    run("job", "redrive", "--all", "--yes")
    run("job", "redrive", "--status", "suspended", "--yes")
    assert jobs.asked == [
        ("redrive", [JOB_ID], {"reason": ""}),
        ("redrive", [], {"dry_run": True}),
        ("redrive", [], {"reason": ""}),
        ("redrive", [], {"status": [JobStatus.SUSPENDED], "reason": ""}),
    ]


@pytest.mark.parametrize(
    "words", [(), (JOB_ID, "--all"), (JOB_ID, "--task", "mail"), ("--all", "--task", "mail")]
)
def test_redriving_needs_to_know_what(jobs: FakeJobs, words: tuple[str, ...]) -> None:
    assert run("job", "redrive", *words).exit_code == 2
    assert jobs.asked == []


# ---- queues


def test_a_queue(jobs: FakeJobs) -> None:
    as_json = json.loads(run("queue", "describe", "mails", "-o", "json").stdout)
    table = run("queue", "describe", "mails").stdout

    assert (as_json["name"], as_json["job"]["backlog_count"]) == ("mails", 12)
    assert as_json["job"]["backlog_age"] == 90.0
    assert "0:01:30" in table


def test_of_several_nodes_each_tells_its_own_and_says_so(jobs: FakeJobs) -> None:
    spread = run("queue", "describe", "spread")

    assert "process n-1, one of 3" in spread.stderr
    assert run("queue", "describe", "mails").stderr == ""
    assert json.loads(run("queue", "describe", "spread", "-o", "json").stdout)["nodes"] == 3


def test_limits(jobs: FakeJobs) -> None:
    run("queue", "limit", "mails", "2.5", "--reason", "too fast")
    run("queue", "limit", "mails", "none")

    assert jobs.asked == [("limit", "mails", 2.5, "too fast"), ("limit", "mails", None, "")]
    for rate in ("0", "-1", "nan", "inf", "fast"):
        assert run("queue", "limit", "mails", "--", rate).exit_code == 2
