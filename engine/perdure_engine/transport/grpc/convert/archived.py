"""Runs that have left the tables, towards the wire: from their rows and their histories."""

from __future__ import annotations

from perdure_api.v1 import event_pb2
from perdure_api.v1 import job_service_pb2 as job_pb
from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import replies
from perdure_engine.core.errors import Rejected
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.replies import EndedJob, JobDescription
from perdure_engine.core.status import Status
from perdure_engine.frontend.archived import refusals_of_archive
from perdure_engine.frontend.handlers.get_job_results import ArchivedEnd
from perdure_engine.ports.archive import ArchivedJob, ArchivedRun
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.transport.grpc.convert.closing_events import closing_event
from perdure_engine.transport.grpc.convert.job_replies import details_message, result
from perdure_engine.transport.grpc.convert.replies import described as described_now
from perdure_engine.transport.grpc.convert.replies import row_message
from perdure_engine.transport.grpc.errors import Errors
from perdure_engine.transport.json.events import event_from_json, is_of_type
from perdure_engine.transport.json.jobs import details_from_json, info_from_json


def archived_row_message(row: VisibilityRow) -> pb.WorkflowInfo:
    message = row_message(row)
    message.archived = True
    return message


def archived_events(texts: list[bytes]) -> list[event_pb2.HistoryEvent]:
    """Raises Rejected DATA_LOSS."""
    with refusals_of_archive():
        return [event_from_json(text) for text in texts]


def described(reply: replies.Description | ArchivedRun) -> pb.DescribeWorkflowResponse:
    """Raises Rejected DATA_LOSS."""
    if isinstance(reply, replies.Description):
        return described_now(reply)
    with refusals_of_archive():
        return _described(reply)


def closed(reply: replies.Closed | ArchivedRun) -> replies.Closed:
    """How the run ended. Raises Rejected DATA_LOSS."""
    if isinstance(reply, replies.Closed):
        return reply
    with refusals_of_archive():
        event = closing_event(event_from_json(reply.events[-1]))
    return replies.Closed(reply.row.run_id, Status(reply.row.status), event)


def job_details(job: JobDescription | ArchivedJob, now_us: int) -> job_pb.JobDetails:
    """Raises Rejected DATA_LOSS."""
    if isinstance(job, JobDescription):
        return details_message(job, now_us)
    with refusals_of_archive():
        return details_from_json(job.text)


def job_result(end: EndedJob | ArchivedEnd, errors: Errors) -> job_pb.JobResult:
    """What does not read back is an error of this job alone."""
    if isinstance(end, EndedJob):
        return result(end, errors)
    try:
        if isinstance(end.job, Rejected):
            raise end.job
        with refusals_of_archive():
            return _result(details_from_json(end.job.text))
    except Rejected as refusal:
        return job_pb.JobResult(job_id=uuid_text(end.job_id), error=errors.encoded(refusal))


def job_infos(jobs: list[ArchivedJob]) -> list[job_pb.JobInfo]:
    """Raises Rejected DATA_LOSS."""
    with refusals_of_archive():
        return [info_from_json(job.text) for job in jobs]


def _result(details: job_pb.JobDetails) -> job_pb.JobResult:
    info = details.info
    told = job_pb.JobResult(job_id=info.job_id, status=info.status, result=details.result)
    told.reason = info.reason
    if info.status in (job_pb.JOB_STATUS_FAILED, job_pb.JOB_STATUS_CANCELLED) and details.failures:
        told.failure.CopyFrom(details.failures[-1].failure)
    return told


def _described(run: ArchivedRun) -> pb.DescribeWorkflowResponse:
    """Nothing is pending any more."""
    started = event_from_json(run.events[0]).workflow_execution_started
    end = event_from_json(run.events[-1])
    closing = getattr(end, end.WhichOneof("attributes") or "", None)
    description = pb.DescribeWorkflowResponse(
        info=archived_row_message(run.row),
        execution_timeout_ms=started.execution_timeout_ms,
        run_timeout_ms=started.run_timeout_ms,
        task_timeout_ms=started.task_timeout_ms,
        cancel_requested=_last(run, "WorkflowExecutionCancelRequested") is not None,
        first_run_id=started.first_run_id,
        continued_from_run_id=started.continued_from_run_id,
        next_run_id=getattr(closing, "new_run_id", ""),
        attempt=started.attempt,
        cron_schedule=started.cron_schedule,
        execution_deadline_us=started.execution_deadline_us,
        static_summary=started.static_summary,
        static_details=started.static_details,
        parent_workflow_id=started.parent_workflow_id,
        parent_run_id=started.parent_run_id,
        root_workflow_id=started.root_workflow_id or run.row.workflow_id,
        root_run_id=started.root_run_id or uuid_text(run.row.run_id),
        original_run_id=started.original_run_id,
        reset_from_run_id=started.reset_from_run_id,
        reset_run_id=getattr(closing, "reset_run_id", ""),
    )
    changed = _last(run, "WorkflowExecutionOptionsUpdated")
    source = started if changed is None else changed.workflow_execution_options_updated
    if source.HasField("versioning_override"):
        description.versioning_override.CopyFrom(source.versioning_override)
    return description


def _last(run: ArchivedRun, event_type: str) -> event_pb2.HistoryEvent | None:
    for text in reversed(run.events):
        if is_of_type(text, event_type):
            return event_from_json(text)
    return None
