"""`/jobs`: make, list, look, move, end, go on, begin anew."""

from __future__ import annotations

from typing import Any

from perdure_api.v1 import job_service_pb2 as pb
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.ids import shard_of_job, uuid_text
from perdure_engine.core.jobs.model import JobStatus
from perdure_engine.core.schedules.intents import DeleteSchedule, DescribeSchedule
from perdure_engine.core.schedules.model import JobAction
from perdure_engine.frontend.checks import uuid_bytes
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.cancel_job import cancel_job
from perdure_engine.frontend.handlers.delete_schedule import delete_schedule
from perdure_engine.frontend.handlers.describe_schedule import (
    DescribedSchedule,
    describe_schedule,
)
from perdure_engine.frontend.handlers.get_job import get_job
from perdure_engine.frontend.handlers.list_jobs import (
    ListJobs,
    list_archived_jobs,
    list_jobs,
)
from perdure_engine.frontend.handlers.redrive_jobs import RedriveJobs, redrive_jobs
from perdure_engine.frontend.handlers.reschedule_job import reschedule_job
from perdure_engine.frontend.handlers.resume_job import resume_job
from perdure_engine.frontend.job_ids import unknown_job
from perdure_engine.ports.jobs import JobFilter
from perdure_engine.transport.grpc.convert import archived
from perdure_engine.transport.grpc.convert.job_replies import info_fields
from perdure_engine.transport.http.rest.bodies import jobs as bodies
from perdure_engine.transport.http.rest.convert import jobs as convert
from perdure_engine.transport.http.rest.convert.job_times import date_us
from perdure_engine.transport.http.rest.convert.times import instant_or_unset
from perdure_engine.transport.http.rest.convert.tokens import page_token, page_token_text
from perdure_engine.transport.http.rest.making_jobs import MadeJob, Outcome, make_jobs
from perdure_engine.transport.http.rest.operations import Answer, Call, Operation, Query
from perdure_engine.transport.http.rest.problems import Problem

NAMES = {
    "task_name": "task_id",
    "task_queue": "queue",
    "due_time": "schedule",
    "expire_time": "expires_at",
    "input": "parameters",
    # of the schedule that a recurring job is
    "schedule.spec": "schedule",
    "schedule.spec.cron[0]": "schedule",
    "schedule.spec.intervals[0].every": "schedule",
    "schedule.spec.timezone": "timezone",
    "schedule.action.job": "",
    "schedule.action.job.task_name": "task_id",
    "schedule.action.job.task_queue": "queue",
    "schedule.action.job.input": "parameters",
}
# Of lists, whose parameters are the filter, and of what has a filter among other things.
LIST_NAMES = {
    "filter": "",
    "filter.task_name": "task_id",
    "filter.task_queue": "queue",
}
FILTER_NAMES = {"filter.task_name": "filter.task_id", "filter.task_queue": "filter.queue"}


async def _create(call: Call[Query, bodies.NewJob]) -> Answer:
    body = call.body
    if call.idempotency_key:
        if body.idempotency_key not in ("", call.idempotency_key):
            raise invalid("idempotency_key", "is not that of the header Idempotency-Key")
        body.idempotency_key = call.idempotency_key
    (made,) = await make_jobs(call, [body])
    if isinstance(made, BaseException):
        raise made
    created = bodies.JobCreated(
        job_id=made.job_id,
        created=made.created,
        status=made.status.name,
        next_run=instant_or_unset(made.next_us),
    )
    return Answer(201 if made.created else 200, created, {"location": f"/jobs/{made.job_id}"})


async def _create_many(call: Call[Query, bodies.NewJobs]) -> Answer:
    # Of thousands of jobs most are due at the same time, or rejected alike.
    times: dict[int, Any] = {}
    told: dict[int, Problem] = {}

    def body(outcome: Outcome) -> bodies.JobAnswer:
        if isinstance(outcome, MadeJob):
            next_us = outcome.next_us
            if next_us not in times:
                times[next_us] = instant_or_unset(next_us)
            return bodies.JobAnswer(
                job_id=outcome.job_id,
                created=outcome.created,
                status=outcome.status.name,
                next_run=times[next_us],
            )
        problem = told.get(id(outcome))
        if problem is None:
            problem = told[id(outcome)] = call.problem(outcome)
        return bodies.JobAnswer(error=problem)

    outcomes = await make_jobs(call, call.body.jobs, call.body.batch)
    return Answer(body=bodies.JobsCreated(jobs=[body(one) for one in outcomes]))


async def _list(call: Call[bodies.JobsQuery, None]) -> Answer:
    query = call.query
    asked = ListJobs(
        where=convert.filter_of(query, call.namespace_id, query.status),
        failure_type=query.failure_type,
        page_size=query.limit,
        page_token=page_token(query.page_token),
        oldest_first=query.oldest_first,
        archived=query.archived,
    )
    return Answer(body=await _page(call.frontend, asked))


async def _page(frontend: Frontend, asked: ListJobs) -> bodies.JobList:
    if asked.archived:
        found = await list_archived_jobs(frontend, asked)
        infos, token = archived.job_infos(found.jobs), found.next_page_token
    else:
        page = await list_jobs(frontend, asked)
        now_us = frontend.db_now_us()
        infos = [pb.JobInfo(**info_fields(info, now_us)) for info in page.jobs]
        token = page.next_page_token
    return bodies.JobList(
        jobs=[convert.info_body(info) for info in infos], next_page_token=page_token_text(token)
    )


async def _get(call: Call[Query, None]) -> Answer:
    job_id, recurs = _kind(call)
    if recurs:
        found, action = await _recurring(call, job_id)
        return Answer(body=convert.recurring_body(found.info, action, found.description))
    return Answer(body=convert.job_body(await _details(call, job_id)))


async def _details(call: Call[Any, Any], job_id: str) -> pb.JobDetails:
    frontend = call.frontend
    told = await get_job(frontend, call.namespace_id, job_id)
    return archived.job_details(told, frontend.db_now_us())


async def _runs(call: Call[bodies.RunsQuery, None]) -> Answer:
    job_id, recurs = _kind(call)
    query = call.query
    statuses = convert.statuses_of(query.status)
    if recurs:
        await _recurring(call, job_id)
        asked = ListJobs(
            where=JobFilter(call.namespace_id, schedule_id=job_id, statuses=statuses),
            page_size=query.limit,
            page_token=page_token(query.page_token),
            archived=query.archived,
        )
        return Answer(body=await _page(call.frontend, asked))
    info = (await _details(call, job_id)).info
    fits = (not statuses or info.status in statuses) and (info.archived or not query.archived)
    return Answer(body=bodies.JobList(jobs=[convert.info_body(info)] if fits else []))


async def _cancel(call: Call[bodies.CancelQuery, None]) -> Answer:
    job_id, recurs = _kind(call)
    reason, request_id = call.query.reason, call.request_id()
    if recurs:
        await _recurring(call, job_id)
        intent = DeleteSchedule(
            namespace_id=call.namespace_id,
            schedule_id=job_id,
            request_id=request_id,
            reason=reason,
        )
        await delete_schedule(call.frontend, intent)
        status = JobStatus.CANCELLED
    else:
        status = await cancel_job(
            call.frontend, call.namespace_id, job_id, uuid_text(request_id), reason
        )
    return Answer(body=bodies.JobEnding(job_id=job_id, status=status.name))


async def _reschedule(call: Call[Query, bodies.Rescheduling]) -> Answer:
    job_id, body, frontend = await _once(call), call.body, call.frontend
    due_us = 0
    if body.schedule is not None:
        due_us = date_us(frontend.times, body.schedule, body.timezone)
    request_id = uuid_text(call.request_id())
    await reschedule_job(frontend, call.namespace_id, job_id, request_id, due_us, body.identity)
    return Answer(204)


async def _resume(call: Call[Query, bodies.Resuming]) -> Answer:
    job_id, body, frontend = await _once(call), call.body, call.frontend
    request_id = uuid_text(call.request_id())
    status = await resume_job(
        frontend, call.namespace_id, job_id, request_id, body.reason, body.identity
    )
    return Answer(body=bodies.JobResumed(job_id=job_id, status=status.name))


async def _once(call: Call[Any, Any]) -> str:
    """The id of a job that runs once. Raises NOT_FOUND; FAILED_PRECONDITION for a recurring one."""
    job_id, recurs = _kind(call)
    if not recurs:
        return job_id
    await _recurring(call, job_id)
    raise Rejected(
        Code.FAILED_PRECONDITION,
        "JOB_RECURS",
        "a recurring job is a schedule: change it by PUT /schedules/{schedule_id}",
    )


async def _redrive(call: Call[Query, bodies.Redriving]) -> Answer:
    body = call.body
    where = JobFilter(call.namespace_id)
    failure_type = ""
    if body.filter is not None:
        where = convert.filter_of(body.filter, call.namespace_id, body.filter.status)
        failure_type = body.filter.failure_type
    elif not body.job_ids:
        # All dead letters there are: not what somebody has left out by mistake.
        raise invalid("filter", "is required without job_ids; an empty one is all")
    count = await redrive_jobs(
        call.frontend,
        RedriveJobs(
            namespace_id=call.namespace_id,
            request_id=call.request_id(),
            job_ids=body.job_ids,
            where=where,
            failure_type=failure_type,
            dry_run=body.dry_run,
            identity=body.identity,
            reason=body.reason,
        ),
    )
    return Answer(body=bodies.Redriven(count=count))


def _kind(call: Call[Any, Any]) -> tuple[str, bool]:
    """The id as it is stored, and whether it is that of a recurring job. Raises NOT_FOUND for what can be none."""
    try:
        raw = uuid_bytes("job_id", call.path["job_id"])
    except Rejected:
        raise unknown_job() from None
    return uuid_text(raw), not 1 <= shard_of_job(raw) <= call.frontend.history.number_of_shards


async def _recurring(call: Call[Any, Any], job_id: str) -> tuple[DescribedSchedule, JobAction]:
    """Raises NOT_FOUND, also for a schedule of workflows."""
    intent = DescribeSchedule(namespace_id=call.namespace_id, schedule_id=job_id)
    try:
        found = await describe_schedule(call.frontend, intent)
    except Rejected as rejected:
        raise unknown_job() if rejected.code is Code.NOT_FOUND else rejected from None
    action = found.info.schedule.action
    if not isinstance(action, JobAction):
        raise unknown_job()
    return found, action


OPERATIONS = (
    Operation(
        method="POST",
        path="/jobs",
        name="create_job",
        summary="Make a job that runs now, at a time, or again and again. 200 and not 201: it was there.",
        perform=_create,
        body=bodies.NewJob,
        example={
            "task_id": "send_email",
            "schedule": "0 10 * * *",
            "parameters": {"to": "ada@example.org", "subject": "Daily Report"},
        },
        answers={201: bodies.JobCreated, 200: bodies.JobCreated},
        idempotent=True,
        names=NAMES,
    ),
    Operation(
        method="POST",
        path="/jobs:bulk",
        name="create_jobs",
        summary="Make up to 10,000 jobs, each with its own answer.",
        perform=_create_many,
        body=bodies.NewJobs,
        example={"jobs": [{"task_id": "send_email", "parameters": {"to": "ada@example.org"}}]},
        answers={200: bodies.JobsCreated},
        idempotent=True,
        names=NAMES,
    ),
    Operation(
        method="POST",
        path="/jobs:redrive",
        name="redrive_jobs",
        summary="Let failed, poisoned and suspended jobs begin anew, with all their attempts.",
        perform=_redrive,
        body=bodies.Redriving,
        answers={200: bodies.Redriven},
        idempotent=True,
        names=FILTER_NAMES,
    ),
    Operation(
        method="GET",
        path="/jobs",
        name="list_jobs",
        summary="Job runs by their scheduled time, newest first unless asked otherwise. Never stale.",
        perform=_list,
        query=bodies.JobsQuery,
        answers={200: bodies.JobList},
        names=LIST_NAMES,
    ),
    Operation(
        method="POST",
        path="/jobs/{job_id}:reschedule",
        name="reschedule_job",
        summary="Another time for a job that has not started.",
        perform=_reschedule,
        body=bodies.Rescheduling,
        body_required=False,
        answers={204: None},
        idempotent=True,
        names=NAMES,
    ),
    Operation(
        method="POST",
        path="/jobs/{job_id}:resume",
        name="resume_job",
        summary="Let a poisoned or suspended job run at once, in the surgical pool.",
        perform=_resume,
        body=bodies.Resuming,
        body_required=False,
        answers={200: bodies.JobResumed},
        idempotent=True,
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}",
        name="get_job",
        summary="All that is kept of a job.",
        perform=_get,
        answers={200: bodies.Job},
    ),
    Operation(
        method="DELETE",
        path="/jobs/{job_id}",
        name="cancel_job",
        summary="End a job that has not started, ask one that runs to stop, end a recurring one for good.",
        perform=_cancel,
        query=bodies.CancelQuery,
        answers={200: bodies.JobEnding},
        idempotent=True,
    ),
    Operation(
        method="GET",
        path="/jobs/{job_id}/runs",
        name="list_runs",
        summary="The runs of a job, the next one of a recurring job among them.",
        perform=_runs,
        query=bodies.RunsQuery,
        answers={200: bodies.JobList},
        names=LIST_NAMES,
    ),
)
