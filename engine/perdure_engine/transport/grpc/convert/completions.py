"""What workers say of their tasks: completions, heartbeats."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure_api.v1 import worker_service_pb2 as pb
from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected, invalid
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.fan_out import WakeRule
from perdure_engine.core.intents import (
    CancelActivity,
    CompleteActivity,
    CompleteWorkflowTask,
    CrashTask,
    FailActivity,
    FailWorkflowTask,
    HandOverActivity,
    WorkAhead,
    WorkerIntent,
)
from perdure_engine.core.jobs.intents import (
    JobCanceled,
    JobCompleted,
    JobCrashed,
    JobFailed,
    JobOutcome,
)
from perdure_engine.core.replies import QueryAnswer
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.tokens import QueryToken, TaskToken, token_of_task_ahead
from perdure_engine.frontend.checks import under
from perdure_engine.frontend.handlers.complete_tasks import Completion, refuse_commands
from perdure_engine.frontend.seal import Sealer
from perdure_engine.ports.history import HeldTask, WorkerRef
from perdure_engine.transport.grpc.convert.commands import commands_of
from perdure_engine.transport.grpc.convert.failures import cut, failure_of
from perdure_engine.transport.grpc.convert.versions import behavior_of

CAUSES = {int(cause): cause for cause in WorkflowTaskFailedCause}


def completion_of(
    message: pb.TaskCompletion, sealer: Sealer, namespace_id: bytes, worker: WorkerRef
) -> Completion | JobOutcome:
    """Raises INVALID_ARGUMENT when nothing of it can be taken."""
    which = message.WhichOneof("outcome")
    if which == "task_crash":
        return _crash(message, sealer.open_task("token", message.token, namespace_id), worker)
    if which is not None and which.startswith("activity"):
        token = sealer.open_task("token", message.token, namespace_id)
        if token.kind == TaskKind.JOB:
            return _of_job(which, message, token)
        if token.kind != TaskKind.ACTIVITY:
            raise _wrong_kind(which)
        answers = _answers(message.query_results, sealer, namespace_id)
        return Completion(_plain(which, message, token, worker), answers)
    answers = _answers(message.query_results, sealer, namespace_id)
    if which is None:
        if message.token or not answers:
            raise invalid("outcome", "is not set, or of a kind unknown to this version")
        return Completion(None, answers)
    token = sealer.open_task("token", message.token, namespace_id)
    if token.kind != TaskKind.WORKFLOW:
        raise _wrong_kind(which)
    if which == "workflow_task_success":
        return _workflow_task_success(message.workflow_task_success, token, worker, answers)
    return Completion(_plain(which, message, token, worker), answers)


def _crash(
    message: pb.TaskCompletion, token: TaskToken, worker: WorkerRef
) -> Completion | JobOutcome:
    crash = message.task_crash
    text = cut(crash.message, limits.FAILURE_MESSAGE_BYTES_MAX)
    report = cut(crash.report, limits.STACK_TRACE_BYTES_MAX)
    failure = Failure(FailureKind.WORKER_LOST, text, report, identity=worker.identity)
    if token.kind == TaskKind.JOB:
        return JobCrashed(token, failure)
    return Completion(CrashTask(token, failure, worker.identity), [])


def _wrong_kind(which: str) -> Rejected:
    return invalid("token", f"is not of a task that {which} can end")


def _of_job(which: str, message: pb.TaskCompletion, token: TaskToken) -> JobOutcome:
    match which:
        case "activity_success":
            return JobCompleted(token, message.activity_success.result)
        case "activity_failure":
            failed = message.activity_failure
            return JobFailed(
                token,
                failure_of(f"{which}.failure", failed.failure),
                failed.heartbeat_details,
                failed.progress_version,
            )
        case "activity_cancellation":
            return JobCanceled(token, message.activity_cancellation.details)
        case _:
            raise invalid(which, "is not for jobs: they cannot be completed from elsewhere")


def _workflow_task_success(
    message: pb.WorkflowTaskSuccess,
    token: TaskToken,
    worker: WorkerRef,
    answers: list[tuple[QueryToken, QueryAnswer]],
) -> Completion:
    done = _done(message, token, worker)
    try:
        done.commands.extend(commands_of(message.commands))
    except Rejected as rejected:
        return refuse_commands(done, under("workflow_task_success", rejected), answers)
    return Completion(done, answers)


def _done(
    message: pb.WorkflowTaskSuccess, token: TaskToken, worker: WorkerRef
) -> CompleteWorkflowTask:
    """Without its commands, which are read into it."""
    rules: tuple[WakeRule, ...] = ()
    if message.wake_rules:
        rules = tuple(
            WakeRule(list(rule.activity_ids), rule.ended, rule.completed, rule.failed)
            for rule in message.wake_rules
        )
    done = CompleteWorkflowTask(
        token,
        [],
        message.cached,
        worker.worker_id,
        worker.identity,
        worker.build_id,
        rules,
        message.force_new_task,
    )
    if worker.version:
        done = msgspec.structs.replace(
            done,
            deployment_name=worker.deployment_name,
            behavior=behavior_of("versioning_behavior", message.versioning_behavior),
        )
    return done


def _ahead(message: pb.ActivitySuccess, token: TaskToken, worker: WorkerRef) -> WorkAhead | None:
    """None: there is nothing, or nothing that could count."""
    if not message.HasField("ahead"):
        return None
    ahead = message.ahead
    of_task = token_of_task_ahead(token, ahead.started_event_id, ahead.started_time_us)
    try:
        done = _done(ahead.success, of_task, worker)
        done.commands.extend(commands_of(ahead.success.commands))
    except Rejected:
        return None
    return WorkAhead(done, ahead.previous_started_event_id, ahead.suggest_continue_as_new)


def _plain(
    which: str, message: pb.TaskCompletion, token: TaskToken, worker: WorkerRef
) -> WorkerIntent:
    identity = worker.identity
    match which:
        case "workflow_task_failure":
            failed = message.workflow_task_failure
            cause = CAUSES.get(failed.cause, WorkflowTaskFailedCause.UNSPECIFIED)
            failure = None
            if failed.HasField("failure"):
                failure = failure_of(f"{which}.failure", failed.failure)
            return FailWorkflowTask(token, cause, failure, identity)
        case "activity_success":
            success = message.activity_success
            return CompleteActivity(token, success.result, identity, _ahead(success, token, worker))
        case "activity_failure":
            failed_activity = message.activity_failure
            return FailActivity(
                token,
                failure_of(f"{which}.failure", failed_activity.failure),
                failed_activity.heartbeat_details,
                identity,
                failed_activity.progress_version,
            )
        case "activity_async":
            handed_over = message.activity_async
            return HandOverActivity(
                token, handed_over.heartbeat_details, identity, handed_over.progress_version
            )
        case _:
            assert which == "activity_cancellation"
            return CancelActivity(token, message.activity_cancellation.details, identity)


def _answers(
    messages: Sequence[pb.QueryResult], sealer: Sealer, namespace_id: bytes
) -> list[tuple[QueryToken, QueryAnswer]]:
    answers = []
    for index, message in enumerate(messages):
        field = f"query_results[{index}]"
        token = sealer.open_query(f"{field}.query_token", message.query_token, namespace_id)
        failure = None
        if message.HasField("failure"):
            failure = failure_of(f"{field}.failure", message.failure)
        answers.append((token, QueryAnswer(message.result, failure)))
    return answers


def held_of(messages: Sequence[pb.HeldTask], sealer: Sealer, namespace_id: bytes) -> list[HeldTask]:
    return [
        HeldTask(
            sealer.open_task(f"held[{index}].token", message.token, namespace_id),
            message.heartbeat_details if message.has_details else None,
            message.progress_version,
        )
        for index, message in enumerate(messages)
    ]
