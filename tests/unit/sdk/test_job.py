"""`perdure.job`: what its code knows, and how jobs are described before they are made."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import perdure.job
from perdure import activity, job
from perdure.common import Priority, RetryPolicy
from perdure.testing import ActivityEnvironment

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
INFO = job.Info(
    job_id="00000001-0000-8000-8000-000000000001",
    task_name="mail",
    queue="mails",
    namespace="default",
    attempt=2,
    idempotency_key="00000001-0000-8000-8000-000000000001",
    create_time=NOW,
    due_time=NOW,
    start_time=NOW,
    timeout=None,
    heartbeat_timeout=None,
    progress=[5],
    retry_policy=RetryPolicy(maximum_attempts=3),
    priority=Priority(priority_key=3),
    user_id="ada",
    schedule_id="",
    headers={},
)


@job.defn
async def mail(to: str, copies: int = 1) -> str:
    return f"{to} {copies} {job.info().attempt}"


@activity.defn(name="post")
def an_activity(to: str) -> int:
    return 1


def environment() -> ActivityEnvironment:
    found = ActivityEnvironment()
    found.info = replace(
        found.info,
        job=INFO,
        workflow_id=None,
        workflow_namespace=None,
        workflow_run_id=None,
        workflow_type=None,
    )
    return found


def test_the_decorator_is_the_activities() -> None:
    assert job.defn is activity.defn
    assert all(hasattr(perdure.job, name) for name in perdure.job.__all__)


async def test_the_code_of_a_job_knows_its_run() -> None:
    async def look() -> tuple[job.Info, bool, bool, str | None, str | None]:
        info = activity.info()
        return job.info(), job.in_job(), info.in_workflow, info.workflow_id, info.activity_run_id

    found, in_job, in_workflow, workflow_id, run_id = await environment().run(look)

    assert found is INFO
    assert (in_job, in_workflow, workflow_id, run_id) == (True, False, None, INFO.job_id)
    assert await environment().run(mail, "ada") == "ada 1 2"


async def test_elsewhere_there_is_no_job() -> None:
    async def look() -> tuple[bool, bool, str | None]:
        with pytest.raises(RuntimeError, match="not in a job"):
            job.info()
        return job.in_job(), activity.info().in_workflow, activity.info().activity_run_id

    assert await ActivityEnvironment().run(look) == (False, True, None)
    assert not job.in_job()
    with pytest.raises(RuntimeError, match="not in a job"):
        job.info()


def test_a_job_is_not_completed_from_elsewhere() -> None:
    with pytest.raises(RuntimeError, match="completed from elsewhere"):
        environment().run(activity.raise_complete_async)


def test_progress_is_told_as_an_activitys() -> None:
    told: list[tuple[object, ...]] = []
    found = environment()
    found.on_heartbeat = lambda *details: told.append(details)

    def work() -> None:
        job.heartbeat(1, "a")
        job.checkpoint_sync(2)

    found.run(work)
    assert told == [(1, "a"), (2,)]


def test_a_jobs_log_names_no_workflow(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        environment().run(lambda: job.logger.info("sent"))

    (record,) = caplog.records
    assert record.perdure_activity.keys() == {
        *("activity_id", "activity_type", "attempt", "namespace", "task_queue")
    }


def test_a_job_that_is_to_be_made() -> None:
    plain = job.new(mail, "ada", 2, queue="mails", delay=timedelta(minutes=1))
    by_list = job.new(an_activity, args=["ada"])
    by_name = job.new("mail", "ada", result_type=str)

    assert (plain.name, plain.args, plain.result_type) == ("mail", ("ada", 2), str)
    assert plain.options == {"queue": "mails", "delay": timedelta(minutes=1)}
    assert (by_list.name, by_list.args, by_list.result_type) == ("post", ["ada"], int)
    assert (by_name.name, by_name.args, by_name.result_type) == ("mail", ("ada",), str)


def test_only_what_is_decorated_can_be_a_job() -> None:
    with pytest.raises(TypeError, match=r"@activity\.defn"):
        job.new(len, "x")
