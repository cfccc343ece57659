"""JobService over the wire: each call reaches its room, and bad input stops at the door (reliability §4)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.transport.calls import WORKER_ID, complete, refusal, refusal_in
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID, task_token

from perdure_api.v1 import job_service_pb2 as pb
from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_engine.core import limits
from perdure_engine.core.errors import Code, not_found
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.intents import (
    CancelJob,
    CompleteJobs,
    CreateJobs,
    JobCompleted,
    RescheduleJob,
    ResumeJob,
)
from perdure_engine.core.jobs.model import JobRun, JobSpec, JobState, JobStatus
from perdure_engine.core.jobs.replies import (
    EndedJob,
    JobAnswered,
    JobDescription,
    JobInfo,
    JobsAnswered,
    JobsEnded,
)
from perdure_engine.core.tasks import TaskKind
from perdure_engine.ports.history import HandedJobTask
from perdure_engine.ports.matching import PollAnswer

INVALID = Code.INVALID_ARGUMENT
REQUEST_ID = "123e4567-e89b-12d3-a456-426614174000"
RAW_ID = (2).to_bytes(4, "big") + bytes(range(12))
JOB_ID = uuid_text(RAW_ID)
TOO_MUCH = bytes(limits.PAYLOAD_BYTES_MAX + 1)
PICKLE = b"cos\nsystem\n(S'true'\ntR."

METHODS = [method.name for method in pb.DESCRIPTOR.services_by_name["JobService"].methods]


def create(*jobs: Any, **changes: Any) -> pb.CreateJobsRequest:
    fields: dict[str, Any] = {"namespace": "default", "request_id": REQUEST_ID, "jobs": jobs}
    return pb.CreateJobsRequest(**{**fields, **changes})


async def still_serves(served: Served) -> None:
    """Nothing of the bad call reached a room, and a good one does."""
    assert not served.room.touched
    (made,) = (await served.jobs.CreateJobs(create({"task_name": "mail"}))).jobs
    assert made.created


# ---- calls that are right


async def test_jobs_are_made_and_each_answered(served: Served) -> None:
    answer = await served.jobs.CreateJobs(
        create({"task_name": "mail"}, {"task_name": ""}, {"task_name": "mail"}, identity="me")
    )

    first, second, third = answer.jobs
    ((_, intent),) = served.history.jobs
    assert isinstance(intent, CreateJobs)
    assert [first.job_id, third.job_id] == [uuid_text(job.job_id) for job in intent.jobs]
    assert (first.created, first.status) == (True, pb.JOB_STATUS_PENDING)
    refused = refusal_in(second.error)
    assert (refused.code, refused.field) == (INVALID, "task_name")
    assert intent.jobs[0].spec.identity == "me"


async def test_ten_thousand_jobs_in_one_call(served: Served) -> None:
    jobs = [{"task_name": "mail"}] * limits.JOBS_OF_CALL_MAX
    answer = await served.jobs.CreateJobs(create(*jobs))

    assert len({one.job_id for one in answer.jobs}) == limits.JOBS_OF_CALL_MAX
    refused = await refusal(served.jobs.CreateJobs(create(*jobs, {"task_name": "mail"})))
    assert (refused.code, refused.field) == (INVALID, "jobs")


async def test_a_job_is_described(served: Served) -> None:
    info = JobInfo(
        *(RAW_ID, NAMESPACE_ID, "mail", "mails", "ada", "", "", "", JobStatus.COMPLETED, 1, 3),
        *(1, 2, 3, JobSpec(b"input"), JobState()),
    )
    served.history.answer = lambda _: JobDescription(info, b"result")

    found = await served.jobs.GetJob(pb.GetJobRequest(namespace="default", job_id=JOB_ID))
    assert (found.job.info.job_id, found.job.input, found.job.result) == (
        JOB_ID,
        b"input",
        b"result",
    )


async def test_a_wait_for_jobs(served: Served) -> None:
    served.history.answer = lambda _: JobsEnded([EndedJob(RAW_ID, JobStatus.COMPLETED, b"r")])
    ask = pb.GetJobResultsRequest(namespace="default", job_ids=[JOB_ID], timeout_ms=1_000)
    now = pb.GetJobResultsRequest(namespace="default", job_ids=[JOB_ID])

    (waited,) = (await served.jobs.GetJobResults(ask)).results
    (unknown,) = (await served.jobs.GetJobResults(now)).results
    assert (waited.job_id, waited.status, waited.result) == (JOB_ID, 4, b"r")
    assert refusal_in(unknown.error).reason == "JOB_NOT_FOUND"


async def test_acts_on_one_job(served: Served) -> None:
    target: dict[str, Any] = {"namespace": "default", "job_id": JOB_ID, "request_id": REQUEST_ID}
    cancelled = await served.jobs.CancelJob(pb.CancelJobRequest(**target, reason="why"))
    await served.jobs.RescheduleJob(pb.RescheduleJobRequest(**target, due_time_us=7))
    served.history.answer = lambda _: JobAnswered(JobStatus.POISONED)
    resumed = await served.jobs.ResumeJob(pb.ResumeJobRequest(**target, reason="mended"))

    assert cancelled.status == pb.JOB_STATUS_CANCELLED
    assert resumed.status == pb.JOB_STATUS_POISONED
    (_, cancel), (_, reschedule), (_, resume) = served.history.jobs
    assert isinstance(cancel, CancelJob)
    assert isinstance(reschedule, RescheduleJob)
    assert isinstance(resume, ResumeJob)
    assert (cancel.job_id, cancel.reason, reschedule.due_us) == (RAW_ID, "why", 7)
    assert (resume.job_id, resume.reason) == (RAW_ID, "mended")


async def test_lists_counts_redrives_batches_and_limits_are_served(served: Served) -> None:
    name = "default"
    assert not (await served.jobs.ListJobs(pb.ListJobsRequest(namespace=name))).jobs
    assert (await served.jobs.CountJobs(pb.CountJobsRequest(namespace=name))).count == 0
    redrive = pb.RedriveJobsRequest(namespace=name, request_id=REQUEST_ID)
    assert (await served.jobs.RedriveJobs(redrive)).count == 0
    batch = pb.GetJobBatchRequest(namespace=name, batch_id="b")
    assert (await refusal(served.jobs.GetJobBatch(batch))).reason == "BATCH_NOT_FOUND"
    limit = pb.SetQueueLimitRequest(namespace=name, task_queue="mails", rate_per_s=2)
    await served.jobs.SetQueueLimit(limit)
    (row,) = await served.room.operations.list_queue_limits()
    assert (row.queue, row.rate_per_s) == ("mails", 2.0)


async def test_workers_get_jobs_and_say_what_became_of_them(served: Served) -> None:
    token = task_token(TaskKind.JOB, scheduled_event_id=0)
    job = JobRun(RAW_ID, NAMESPACE_ID, "mail", "mails", 1, JobSpec(b"input"))
    served.matching.answers = [PollAnswer([], [], [HandedJobTask(token, job, 5)])]
    late = not_found("TASK", "late")
    served.history.answer = lambda _: JobsAnswered([(1, late)])

    poll = wpb.PollTasksRequest(
        namespace="default", task_queue="mails", worker_id=WORKER_ID, max_activity_tasks=5
    )
    (task,) = (await served.workers.PollTasks(poll)).job_tasks
    done = wpb.TaskCompletion(token=task.token, activity_success={"result": b"r"})  # type: ignore[arg-type]  # the stubs know no dicts
    answer = await served.workers.CompleteTasks(complete(done, done, identity="w@host"))

    assert (task.job_id, task.task_name, task.input) == (RAW_ID, "mail", b"input")
    outcomes = [JobCompleted(token, b"r")] * 2
    assert served.history.jobs == [
        (token.shard_id, CompleteJobs(token.shard_id, outcomes, "w@host"))
    ]
    (failure,) = answer.failures
    assert (failure.index, refusal_in(failure.error).code) == (1, Code.NOT_FOUND)


# ---- bad input


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("raw", [b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xff\xfe"])
async def test_b1_b2_bytes_that_are_no_message(served: Served, method: str, raw: bytes) -> None:
    call: Any = served.channel.unary_unary(f"/perdure_api.v1.JobService/{method}")
    refused = await refusal(call(raw))

    assert (refused.code, refused.reason) == (INVALID, "UNDECODABLE_MESSAGE")
    await still_serves(served)


@pytest.mark.parametrize("method", METHODS)
async def test_b13_an_unknown_namespace(served: Served, method: str) -> None:
    request: Any = getattr(pb, f"{method}Request")
    refused = await refusal(getattr(served.jobs, method)(request(namespace="nowhere")))

    assert refused.reason == "NAMESPACE_NOT_FOUND"
    await still_serves(served)


@pytest.mark.parametrize(
    ("row", "job", "field"),
    [
        ("B3", {"task_name": "a\0b"}, "task_name"),
        ("B3", {"task_name": "m", "user_id": "a\u202eb"}, "user_id"),
        ("B4", {"task_name": "x" * 501}, "task_name"),
        ("B5", {"task_name": "m", "task_queue": "__x"}, "task_queue"),
        ("B7", {"task_name": "m", "input": TOO_MUCH}, "input"),
        ("B25", {"task_name": "m", "timeout_ms": -1}, "timeout_ms"),
        (
            "B25",
            {"task_name": "m", "concurrency": {"key": "c", "rate_per_s": float("nan")}},
            "concurrency.rate_per_s",
        ),
        (
            "B27",
            {"task_name": "m", "retry_policy": {"backoff_coefficient": 0.1}},
            "retry_policy.backoff_coefficient",
        ),
        ("B28", {"task_name": "m", "due_time_us": 253_402_300_800_000_000}, "due_time_us"),
        ("B28", {"task_name": "m", "due_time_us": 5, "expire_time_us": 5}, "expire_time_us"),
    ],
)
async def test_bad_jobs(served: Served, row: str, job: dict[str, Any], field: str) -> None:
    (made,) = (await served.jobs.CreateJobs(create(job))).jobs
    refused = refusal_in(made.error)

    assert (refused.code, refused.field) == (INVALID, field)
    assert not made.job_id
    await still_serves(served)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"request_id": ""}, "request_id"),
        ({"request_id": "x" * 36}, "request_id"),
        ({"identity": "a\0b"}, "identity"),
        ({"batch": {"batch_id": ""}}, "batch.batch_id"),
        ({"batch": {"batch_id": "b", "callback": {"task_name": ""}}}, "batch.callback.task_name"),
    ],
)
async def test_bad_calls(served: Served, changes: dict[str, Any], field: str) -> None:
    refused = await refusal(served.jobs.CreateJobs(create({"task_name": "m"}, **changes)))

    assert (refused.code, refused.field) == (INVALID, field)
    await still_serves(served)


async def test_b6_a_message_over_the_limit(served: Served) -> None:
    large = {"task_name": "m", "input": bytes(limits.PAYLOAD_BYTES_MAX)}
    refused = await refusal(served.jobs.CreateJobs(create(large, large, large)))

    assert refused.code == Code.RESOURCE_EXHAUSTED
    await still_serves(served)


async def test_b6_the_largest_good_message_passes(served: Served) -> None:
    large = {"task_name": "m", "input": bytes(limits.PAYLOAD_BYTES_MAX)}
    made = (await served.jobs.CreateJobs(create(large, large))).jobs

    assert all(one.created for one in made)


@pytest.mark.parametrize(
    "job_ids", [[], ["x"], [JOB_ID, ""], [JOB_ID] * (limits.JOB_RESULTS_OF_CALL_MAX + 1)]
)
async def test_b4_bad_ids_of_waits(served: Served, job_ids: list[str]) -> None:
    ask = pb.GetJobResultsRequest(namespace="default", job_ids=job_ids, timeout_ms=5)

    assert (await refusal(served.jobs.GetJobResults(ask))).code == INVALID
    await still_serves(served)


@pytest.mark.parametrize("token", [b"random", b"\0" * 90, PICKLE])
async def test_b20_page_tokens_that_are_not_ours(served: Served, token: bytes) -> None:
    """Bug report 66 among them."""
    ask = pb.ListJobsRequest(namespace="default", page_token=token)
    refused = await refusal(served.jobs.ListJobs(ask))

    assert (refused.code, refused.field) == (INVALID, "page_token")


async def test_bug_report_66_a_pickle_is_bytes_like_any_others(served: Served) -> None:
    """As input, as header, as a schedule's input: it is stored as it came, and nobody opens it."""
    job = pb.NewJob(task_name="t", input=PICKLE, header=PICKLE)
    assert (await served.jobs.CreateJobs(create(job))).jobs[0].created

    ((_, intent),) = served.history.jobs
    assert isinstance(intent, CreateJobs)
    assert (intent.jobs[0].spec.input, intent.jobs[0].spec.header) == (PICKLE, PICKLE)


async def test_b16_b17_tokens_of_jobs_that_are_not_ours(served: Served) -> None:
    """And the outcome beside them is taken."""
    sealer = served.room.sealer
    good = sealer.seal_task(task_token(TaskKind.JOB))
    foreign = sealer.seal_task(task_token(TaskKind.JOB, OTHER_NAMESPACE_ID))
    edited = good[:-1] + bytes([good[-1] ^ 1])
    bad = [b"", b"random bytes", bytes(90), foreign, edited]
    outcomes = [
        wpb.TaskCompletion(token=one, activity_success={"result": b"r"})  # type: ignore[arg-type]  # the stubs know no dicts
        for one in (*bad, good)
    ]

    answer = await served.workers.CompleteTasks(complete(*outcomes))

    assert [failure.index for failure in answer.failures] == [0, 1, 2, 3, 4]
    assert {refusal_in(failure.error).code for failure in answer.failures} == {INVALID}
    ((_, intent),) = served.history.jobs
    assert len(intent.outcomes) == 1


async def test_b18_the_token_of_a_job_that_is_over(served: Served) -> None:
    served.history.answer = lambda _: JobsAnswered([(0, not_found("TASK", "over"))])
    sealed = served.room.sealer.seal_task(task_token(TaskKind.JOB))
    done = wpb.TaskCompletion(token=sealed, activity_success={"result": b"r"})  # type: ignore[arg-type]  # likewise

    (failure,) = (await served.workers.CompleteTasks(complete(done))).failures
    assert refusal_in(failure.error).reason == "TASK_NOT_FOUND"
