"""Workers of the surgical pool, and what they say of a process that a task has taken down."""

from __future__ import annotations

import msgspec
from tests.integration.transport.calls import complete, poll, refusal, refusal_in
from tests.integration.transport.conftest import Served
from tests.unit.frontend.fakes import task_token
from tests.unit.transport.test_handed import activity_task, workflow_task

from perdure_api.v1 import worker_service_pb2 as wpb
from perdure_engine.core import limits
from perdure_engine.core.errors import Code
from perdure_engine.core.failures import FailureKind
from perdure_engine.core.intents import CrashTask
from perdure_engine.core.jobs.intents import CompleteJobs, JobCrashed
from perdure_engine.core.poison import SURGICAL
from perdure_engine.core.tasks import TaskKind
from perdure_engine.ports.matching import PollAnswer


async def test_a_poll_names_its_pool_and_hears_how_often_its_tasks_have_crashed(
    served: Served,
) -> None:
    isolated = msgspec.structs.replace(activity_task(), crashes=2)
    served.matching.answers = [PollAnswer([workflow_task(crashes=4)], [isolated])]

    tasks = await served.workers.PollTasks(poll(pool=SURGICAL, max_activity_tasks=1))

    assert served.matching.polls[0].worker.pool == SURGICAL
    assert [task.crashes for task in tasks.workflow_tasks] == [4]
    assert [task.crashes for task in tasks.activity_tasks] == [2]


async def test_a_pool_that_is_not_there_is_refused(served: Served) -> None:
    for call in (
        served.workers.PollTasks(poll(pool="emergency")),
        served.workers.CompleteTasks(complete(pool="emergency")),
    ):
        refused = await refusal(call)
        assert refused.code == Code.INVALID_ARGUMENT
        assert refused.field == "pool"
    assert served.matching.polls == []


async def test_a_crash_of_any_kind_of_run_s_task_reaches_history(served: Served) -> None:
    seal = served.room.sealer.seal_task
    crash = wpb.TaskCrash(message="killed by signal 11 (SIGSEGV)", report="rss 1.2 GiB\nstack ✓")
    kinds = (TaskKind.WORKFLOW, TaskKind.ACTIVITY)

    done = await served.workers.CompleteTasks(
        complete(
            *(wpb.TaskCompletion(token=seal(task_token(kind)), task_crash=crash) for kind in kinds),
            identity="w@host",
        )
    )

    assert not done.failures
    for kind, intent in zip(kinds, served.history.completed, strict=True):
        assert isinstance(intent, CrashTask)
        assert intent.token == task_token(kind)
        failure = intent.failure
        assert (failure.kind, failure.identity) == (FailureKind.WORKER_LOST, "w@host")
        assert (failure.message, failure.stack_trace) == (crash.message, crash.report)


async def test_a_job_s_crash_reaches_its_shard(served: Served) -> None:
    token = task_token(TaskKind.JOB)
    crash = wpb.TaskCrash(message="exit code 1", report="all there is")
    sealed = served.room.sealer.seal_task(token)

    await served.workers.CompleteTasks(
        complete(wpb.TaskCompletion(token=sealed, task_crash=crash), identity="w@host")
    )

    ((shard_id, intent),) = served.history.jobs
    assert shard_id == token.shard_id
    assert isinstance(intent, CompleteJobs)
    (outcome,) = intent.outcomes
    assert isinstance(outcome, JobCrashed)
    assert outcome.token == token
    failure = outcome.failure
    assert (failure.message, failure.stack_trace) == ("exit code 1", "all there is")
    assert (failure.kind, failure.identity) == (FailureKind.WORKER_LOST, "w@host")


async def test_a_report_is_cut_to_what_is_kept(served: Served) -> None:
    crash = wpb.TaskCrash(message="x" * 100_000, report="✓" * 100_000)
    token = served.room.sealer.seal_task(task_token(TaskKind.ACTIVITY))

    done = await served.workers.CompleteTasks(
        complete(wpb.TaskCompletion(token=token, task_crash=crash))
    )

    assert not done.failures
    (intent,) = served.history.completed
    assert isinstance(intent, CrashTask)
    assert len(intent.failure.message.encode()) <= limits.FAILURE_MESSAGE_BYTES_MAX
    assert 0 < len(intent.failure.stack_trace.encode()) <= limits.STACK_TRACE_BYTES_MAX


async def test_a_crash_without_a_token_of_ours_is_refused(served: Served) -> None:
    done = await served.workers.CompleteTasks(
        complete(wpb.TaskCompletion(token=b"made up", task_crash=wpb.TaskCrash(message="m")))
    )

    assert refusal_in(done.failures[0].error).code == Code.INVALID_ARGUMENT
    assert served.history.completed == []
