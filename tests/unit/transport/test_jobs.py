"""Jobs on the wire: every field both ways, and what many have in common read once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, Room, task_token

from perdure_api.v1 import common_pb2, workflow_service_pb2
from perdure_api.v1 import job_service_pb2 as pb
from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.intents import (
    CreatedJob,
    JobCanceled,
    JobCompleted,
    JobFailed,
    SaveJobProgress,
)
from perdure_engine.core.jobs.memory import BatchState
from perdure_engine.core.jobs.model import (
    DEFAULT_JOB_RETRY,
    Concurrency,
    ConcurrencyPolicy,
    JobFailure,
    JobRun,
    JobSpec,
    JobState,
    JobStatus,
    Unique,
    UniqueScope,
)
from perdure_engine.core.jobs.replies import EndedJob, JobDescription, JobInfo
from perdure_engine.core.poison import Crashes
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.tasks import TaskKind
from perdure_engine.frontend.handlers.create_jobs import AskedBatch, CreateJobsCall
from perdure_engine.frontend.handlers.get_job_batch import JobBatchInfo
from perdure_engine.frontend.new_jobs import AskedJob, JobOptions
from perdure_engine.ports.history import HandedJobTask, WorkerRef
from perdure_engine.ports.jobs import JobFilter
from perdure_engine.ports.matching import PollAnswer
from perdure_engine.transport.grpc.convert import job_intents, job_replies
from perdure_engine.transport.grpc.convert.activity_intents import report_of
from perdure_engine.transport.grpc.convert.completions import completion_of
from perdure_engine.transport.grpc.convert.handed import tasks_fields
from perdure_engine.transport.grpc.errors import Errors

REQUEST_ID = "123e4567-e89b-12d3-a456-426614174000"
REQUEST_BYTES = bytes.fromhex(REQUEST_ID.replace("-", ""))
JOB_ID = bytes(range(16))
WORKER = WorkerRef(b"w" * 16, "w@host", "")
FAILURE = Failure(FailureKind.APPLICATION, "no", type="Gone")
JSON = common_pb2.Payloads(payloads=[{"encoding": "json/plain", "data": b"1"}])
SECRET = common_pb2.Payloads(payloads=[{"encoding": "binary/encrypted", "data": b"x"}])

FULL = {
    "task_name": "mail",
    "task_queue": "mails",
    "input": b"input",
    "header": b"header",
    "due_time_us": 11,
    "user_id": "ada",
    "timeout_ms": 12,
    "heartbeat_timeout_ms": 13,
    "retry_policy": {"initial_interval_ms": 14, "maximum_attempts": 15},
    "priority": 2,
    "idempotency_key": "i",
    "unique_key": "u",
    "unique_scope": pb.UNIQUE_SCOPE_PERIOD,
    "unique_period_ms": 16,
    "concurrency": {
        "key": "c",
        "limit": 17,
        "policy": pb.CONCURRENCY_POLICY_CANCEL_RUNNING,
        "rate_per_s": 1.5,
    },
    "expire_time_us": 18,
    "delay_ms": 19,
}


def converted(*jobs: Any, **changes: Any) -> CreateJobsCall:
    fields: dict[str, Any] = {"request_id": REQUEST_ID, "jobs": jobs, "identity": "me"}
    return job_intents.create_jobs(pb.CreateJobsRequest(**{**fields, **changes}), NAMESPACE_ID)


def test_every_field_of_a_new_job_is_read() -> None:
    assert FULL.keys() == {field.name for field in pb.NewJob.DESCRIPTOR.fields}
    call = converted(FULL)

    assert (call.namespace_id, call.request_id, call.identity) == (
        NAMESPACE_ID,
        REQUEST_BYTES,
        "me",
    )
    options = JobOptions(
        task_name="mail",
        queue="mails",
        header=b"header",
        due_us=11,
        user_id="ada",
        timeout_ms=12,
        heartbeat_timeout_ms=13,
        retry=RetryPolicy(14, 2.0, 0, 15),
        priority=2,
        idempotency_key="i",
        unique=Unique("u", UniqueScope.PERIOD, 16),
        concurrency=Concurrency("c", 17, ConcurrencyPolicy.CANCEL_RUNNING, 1.5),
        expire_us=18,
        delay_ms=19,
    )
    assert call.jobs == [AskedJob(options, b"input")]
    assert call.batch is None


def test_what_is_not_set_has_its_default() -> None:
    call = converted({"task_name": "mail", "unique_key": "u", "concurrency": {"key": "c"}})

    expected = JobOptions(
        task_name="mail", unique=Unique("u", UniqueScope.ACTIVE), concurrency=Concurrency("c")
    )
    assert call.jobs == [AskedJob(expected)]
    assert expected.retry is DEFAULT_JOB_RETRY
    assert (expected.queue, expected.priority) == ("default", 3)


def test_options_that_are_the_same_are_read_once() -> None:
    same = {"task_name": "mail", "retry_policy": {"maximum_attempts": 5}}
    call = converted(
        *({**same, "input": b"%d" % number} for number in range(3)), {"task_name": "x"}
    )

    first, second, third, other = (one for one in call.jobs if isinstance(one, AskedJob))
    assert first.options is second.options is third.options
    assert other.options is not first.options
    assert [one.input for one in (first, second, third)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"unique_key": "u", "unique_scope": 99}, "unique_scope"),
        ({"unique_scope": pb.UNIQUE_SCOPE_ACTIVE}, "unique_key"),
        ({"unique_period_ms": 5}, "unique_key"),
        ({"concurrency": {"key": "c", "policy": 99}}, "concurrency.policy"),
    ],
)
def test_what_cannot_be_read_is_that_jobs_own_affair(changes: Any, field: str) -> None:
    refused, fine = converted({"task_name": "mail", **changes}, {"task_name": "mail"}).jobs

    assert isinstance(refused, Rejected)
    assert refused.field == field
    assert isinstance(fine, AskedJob)
    with pytest.raises(Rejected):
        converted(batch={"batch_id": "b", "callback": {"task_name": "mail", **changes}})


@pytest.mark.parametrize("request_id", ["", "x", REQUEST_ID + "0"])
def test_a_call_needs_its_request_id(request_id: str) -> None:
    with pytest.raises(Rejected) as caught:
        converted(FULL, request_id=request_id)
    assert caught.value.field == "request_id"


def test_b55_the_body_of_a_call_is_told_by_a_hash() -> None:
    same, other = converted(FULL), converted({**FULL, "input": b"another"})

    assert same.body == converted(FULL).body
    assert same.body != other.body
    assert len(same.body) == 8


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (JSON.SerializeToString(), None),
        (SECRET.SerializeToString(), b"1"),
        (b"", None),
        (b"\xff\xff", None),
    ],
)
def test_encrypted_input_does_not_tell_a_repeat_from_another_job(
    given: bytes, told: bytes | None
) -> None:
    (asked,) = converted({"task_name": "mail", "idempotency_key": "i", "input": given}).jobs

    assert isinstance(asked, AskedJob)
    assert (asked.input, asked.told) == (given, told)


def test_a_batch() -> None:
    call = converted(batch={"batch_id": "b", "callback": {"task_name": "done"}, "more": True})
    sealed = converted(batch={"batch_id": "b"})

    callback = JobOptions(task_name="done")
    assert call.batch == AskedBatch("b", callback, sealed=False)
    assert sealed.batch == AskedBatch("b", None, sealed=True)


def test_a_list_and_a_redrive() -> None:
    fields: dict[str, Any] = {
        "user_id": "ada",
        "statuses": [5, 6],
        "task_name": "mail",
        "task_queue": "mails",
        "schedule_id": "s",
        "batch_id": "b",
        "start_time_us": 1,
        "end_time_us": 2,
        "failure_type": "Gone",
    }
    assert fields.keys() == {field.name for field in pb.JobFilter.DESCRIPTOR.fields}
    where = JobFilter(NAMESPACE_ID, "ada", (5, 6), "mail", "mails", "s", "b", 1, 2)

    asked = job_intents.list_jobs(
        pb.ListJobsRequest(filter=fields, page_size=7, page_token=b"t", oldest_first=True),  # type: ignore[arg-type]  # the stubs know no dicts
        NAMESPACE_ID,
    )
    redrive = job_intents.redrive_jobs(
        pb.RedriveJobsRequest(
            job_ids=["a"],
            filter=fields,  # type: ignore[arg-type]  # likewise
            dry_run=True,
            identity="op",
            reason="why",
            request_id=REQUEST_ID,
        ),
        NAMESPACE_ID,
    )

    assert (asked.where, asked.failure_type) == (where, "Gone")
    assert (asked.page_size, asked.page_token, asked.oldest_first) == (7, b"t", True)
    assert (redrive.where, redrive.failure_type, redrive.job_ids) == (where, "Gone", ["a"])
    assert (redrive.dry_run, redrive.identity, redrive.reason) == (True, "op", "why")
    assert redrive.request_id == REQUEST_BYTES


# ---- answers


CRASHES = Crashes(2, 45, (), Failure(FailureKind.WORKER_LOST, "killed", "stacks"))


def errors() -> Errors:
    return Errors(Room().ids)


def info(**changes: Any) -> JobInfo:
    found = JobInfo(
        job_id=JOB_ID,
        namespace_id=NAMESPACE_ID,
        task_name="mail",
        queue="mails",
        user_id="ada",
        schedule_id="s",
        batch_id="b",
        concurrency_key="c",
        status=JobStatus.RETRY,
        attempt=2,
        priority=1,
        created_us=21,
        scheduled_us=22,
        closed_us=23,
        spec=JobSpec(
            b"input",
            b"header",
            RetryPolicy(14),
            31,
            32,
            "i",
            unique=Unique("u"),
            concurrency=Concurrency("c", 4, ConcurrencyPolicy.CANCEL_NEWEST, 2.0),
            expire_us=33,
        ),
        state=JobState(
            due_us=41,
            started_us=42,
            worker_identity="w",
            failures=(JobFailure(1, 43, "w1", FAILURE),),
            progress=b"progress",
            cancel_us=44,
            reason="why",
            crashes=CRASHES,
        ),
    )
    return msgspec.structs.replace(found, **changes)


def test_every_field_of_a_listed_job_is_said() -> None:
    """But that it is archived: it is not."""
    message = pb.JobInfo(**job_replies.info_fields(info(), 40))

    assert {field.name for field in pb.JobInfo.DESCRIPTOR.fields} == {
        "archived",
        *[field.name for field, _ in message.ListFields()],
    }
    assert message.job_id == uuid_text(JOB_ID)
    assert (message.status, message.attempt, message.priority) == (pb.JOB_STATUS_RETRY, 2, 1)
    assert (message.create_time_us, message.scheduled_time_us, message.close_time_us) == (
        21,
        22,
        23,
    )
    assert (message.next_attempt_time_us, message.start_time_us) == (41, 42)
    assert (message.unique_key, message.concurrency_key, message.idempotency_key) == ("u", "c", "i")
    assert (message.failure_type, message.failure_message, message.reason) == ("Gone", "no", "why")
    assert (message.crashes, message.first_crash_time_us) == (2, 45)


@pytest.mark.parametrize(
    ("status", "now_us", "told"),
    [
        (JobStatus.PENDING, 40, 41),
        (JobStatus.PENDING, 41, 0),
        (JobStatus.RETRY, 99, 41),
        (JobStatus.POISONED, 40, 41),
        (JobStatus.POISONED, 41, 0),
        (JobStatus.SUSPENDED, 40, 0),
        (JobStatus.IN_PROGRESS, 40, 0),
        (JobStatus.COMPLETED, 40, 0),
    ],
)
def test_when_a_job_that_waits_has_its_turn(status: JobStatus, now_us: int, told: int) -> None:
    assert job_replies.info_fields(info(status=status), now_us)["next_attempt_time_us"] == told


def test_a_listed_failures_message_is_cut() -> None:
    failed = (JobFailure(1, 1, "", Failure(FailureKind.APPLICATION, "é" * 5_000)),)
    fields = job_replies.info_fields(info(state=JobState(failures=failed)), 0)

    assert fields["failure_message"] == "é" * 500


def test_every_field_of_a_description_is_said() -> None:
    message = job_replies.details_message(JobDescription(info(), b"result"), 0)

    assert {field.name for field in pb.JobDetails.DESCRIPTOR.fields} == {
        field.name for field, _ in message.ListFields()
    }
    assert (message.input, message.result, message.progress) == (b"input", b"result", b"progress")
    assert (message.timeout_ms, message.expire_time_us, message.worker_identity) == (31, 33, "w")
    assert message.retry_policy.initial_interval_ms == 14
    assert message.concurrency.policy == pb.CONCURRENCY_POLICY_CANCEL_NEWEST
    (failed,) = message.failures
    assert (failed.attempt, failed.time_us, failed.identity) == (1, 43, "w1")
    assert failed.failure.application.type == "Gone"
    assert (message.last_crash.message, message.last_crash.stack_trace) == ("killed", "stacks")


def test_of_many_large_failures_the_last_ones_are_shown() -> None:
    large = Failure(
        FailureKind.APPLICATION, "no", details=bytes(limits.JOB_FAILURES_BYTES_MAX // 3)
    )
    failures = tuple(JobFailure(number, 1, "", large) for number in range(1, 6))
    enormous = JobFailure(9, 1, "", Failure(FailureKind.APPLICATION, "no", details=bytes(2**21)))

    def attempts(*failed: JobFailure) -> list[int]:
        described = JobDescription(info(state=JobState(failures=failed)), b"")
        return [one.attempt for one in job_replies.details_message(described, 0).failures]

    assert attempts(*failures) == [4, 5]
    assert attempts(*failures, enormous) == [9]


def test_what_was_made_and_what_was_refused() -> None:
    refused = invalid("task_name", "is empty")
    made = [CreatedJob(JOB_ID, True, JobStatus.PENDING), refused, refused]
    first, second, third = job_replies.created(made, errors()).jobs

    assert (first.job_id, first.created, first.status) == (uuid_text(JOB_ID), True, 1)
    assert not first.error
    assert second.error == third.error != b""
    assert not second.job_id


def test_results() -> None:
    ended = [
        EndedJob(JOB_ID, JobStatus.FAILED, b"", FAILURE, "why"),
        EndedJob(JOB_ID, JobStatus.COMPLETED, b"result"),
        EndedJob(JOB_ID, None),
    ]
    failed, completed, unknown = job_replies.results(
        job_replies.result(one, errors()) for one in ended
    ).results

    assert (failed.job_id, failed.status, failed.reason) == (uuid_text(JOB_ID), 5, "why")
    assert failed.failure.application.type == "Gone"
    assert (completed.result, completed.HasField("failure")) == (b"result", False)
    assert (unknown.status, bool(unknown.error)) == (0, True)


def test_results_that_do_not_fit_into_a_message_are_left_for_the_next_call() -> None:
    large = EndedJob(JOB_ID, JobStatus.COMPLETED, bytes(limits.PAYLOAD_BYTES_MAX))

    message = job_replies.result(large, errors())
    assert len(job_replies.results([message, message]).results) == 1


def test_counts_and_batches() -> None:
    counted = job_replies.counted([(4, 7), (5, 1)])
    state = BatchState(1, 2, 3, 4, callback_job_id=JOB_ID)
    batch = job_replies.batch_message(JobBatchInfo("b", 15, 5, True, state))

    assert counted.count == 8
    assert [(one.status, one.count) for one in counted.by_status] == [(4, 7), (5, 1)]
    assert batch == pb.GetJobBatchResponse(
        batch_id="b",
        total=15,
        open=5,
        completed=1,
        failed=2,
        cancelled=3,
        skipped=4,
        sealed=True,
        callback_job_id=uuid_text(JOB_ID),
    )


# ---- workers


def handed(size: int = 10, spec: JobSpec | None = None, **changes: Any) -> HandedJobTask:
    job = JobRun(JOB_ID, NAMESPACE_ID, "mail", "mails", 1, spec or JobSpec(bytes(size)), **changes)
    return HandedJobTask(task_token(TaskKind.JOB), job, 51)


def poll_response(room: Room, answer: PollAnswer) -> wpb.PollTasksResponse:
    return wpb.PollTasksResponse(**tasks_fields(room.frontend, answer))


def test_every_field_of_a_job_in_a_workers_hand_is_said() -> None:
    room = Room()
    spec = JobSpec(b"input", b"header", RetryPolicy(14), 31, 32)
    task = handed(
        spec=spec,
        attempt=2,
        priority=1,
        created_us=61,
        due_us=62,
        progress=b"progress",
        progress_version=63,
        schedule_id="s",
        user_id="ada",
        crashes=CRASHES,
    )
    (message,) = poll_response(room, PollAnswer([], [], [task])).job_tasks

    assert {field.name for field in wpb.JobTask.DESCRIPTOR.fields} == {
        field.name for field, _ in message.ListFields()
    }
    assert room.sealer.open_task("token", message.token, NAMESPACE_ID) == task.token
    assert (message.job_id, message.task_name, message.input) == (JOB_ID, "mail", b"input")
    assert (message.attempt, message.priority, message.timeout_ms) == (2, 1, 31)
    assert (message.create_time_us, message.due_time_us, message.started_time_us) == (61, 62, 51)
    assert (message.progress, message.progress_version) == (b"progress", 63)
    assert message.retry_policy.initial_interval_ms == 14
    assert message.crashes == 2


def test_the_usual_retry_policy_is_not_said() -> None:
    equal = RetryPolicy(maximum_attempts=3)
    for spec in (JobSpec(), JobSpec(retry=equal)):
        (message,) = poll_response(Room(), PollAnswer([], [], [handed(spec=spec)])).job_tasks
        assert not message.HasField("retry_policy")


def test_jobs_that_do_not_fit_into_a_message_are_given_back() -> None:
    room = Room()
    tasks = [handed(limits.BATCH_MESSAGE_BYTES_MAX // 2) for _ in range(3)]
    answer = PollAnswer([], [], list(tasks))

    assert len(poll_response(room, answer).job_tasks) == 1
    assert room.history.undone == tasks[1:]
    assert answer.job_tasks == tasks[:1]


def outcome(room: Room, **fields: Any) -> Any:
    sealed = room.sealer.seal_task(task_token(TaskKind.JOB))
    message = wpb.TaskCompletion(token=sealed, **fields)
    return completion_of(message, room.sealer, NAMESPACE_ID, WORKER)


def test_outcomes_of_jobs() -> None:
    room, token = Room(), task_token(TaskKind.JOB)
    failure = {"message": "no", "application": {"type": "Gone"}}
    failed = outcome(
        room,
        activity_failure={"failure": failure, "heartbeat_details": b"p", "progress_version": 7},
    )

    assert outcome(room, activity_success={"result": b"r"}) == JobCompleted(token, b"r")
    assert outcome(room, activity_cancellation={"details": b"d"}) == JobCanceled(token, b"d")
    assert isinstance(failed, JobFailed)
    assert (failed.token, failed.progress, failed.progress_version) == (token, b"p", 7)
    assert (failed.failure.message, failed.failure.type) == ("no", "Gone")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"activity_async": {}}, "activity_async"),
        ({"workflow_task_success": {}}, "token"),
        ({"workflow_task_failure": {}}, "token"),
    ],
)
def test_what_a_job_cannot_end_with(fields: Any, field: str) -> None:
    with pytest.raises(Rejected) as caught:
        outcome(Room(), **fields)
    assert caught.value.field == field


def test_a_checkpoint_of_a_job() -> None:
    room, token = Room(), task_token(TaskKind.JOB)
    sealed = room.sealer.seal_task(token)
    beat = workflow_service_pb2.HeartbeatActivityRequest

    def report(message: Any) -> Any:
        return report_of(message, room.sealer, NAMESPACE_ID)

    found = report(beat(token=sealed, details=b"d", has_details=True, progress_version=7))
    assert found == SaveJobProgress(token.shard_id, token, b"d", 7)
    with pytest.raises(Rejected) as caught:
        report(beat(token=sealed))
    assert caught.value.field == "has_details"
    with pytest.raises(Rejected) as caught:
        report(workflow_service_pb2.CompleteActivityRequest(token=sealed))
    assert caught.value.field == "token"
