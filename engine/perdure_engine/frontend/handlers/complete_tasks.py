"""CompleteTasks: what workers made of their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from perdure_engine.core.errors import Rejected
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import (
    CancelActivity,
    CompleteActivity,
    CompleteWorkflowTask,
    FailActivity,
    FailWorkflowTask,
    HandOverActivity,
    HeartbeatActivity,
    WorkerIntent,
)
from perdure_engine.core.replies import QueryAnswer, Reply
from perdure_engine.core.tokens import QueryToken
from perdure_engine.core.versions import Behavior
from perdure_engine.frontend import checks
from perdure_engine.frontend.commands import check_command
from perdure_engine.frontend.frontend import Frontend


class Completion(msgspec.Struct, frozen=True):
    """`intent` is None when only queries are answered.

    `refused` is what the worker is told besides.
    """

    intent: WorkerIntent | None
    answers: list[tuple[QueryToken, QueryAnswer]]
    refused: Rejected | None = None


async def complete_tasks(
    frontend: Frontend, completions: Sequence[Completion | Rejected]
) -> list[tuple[int, BaseException]]:
    """Answered when all of it is saved, with the index and the error of each that was not taken.

    All are submitted before anything is awaited, so that one commit can carry them. Queries are
    answered after the completion they came with was accepted: their callers see nothing that is not
    saved.
    """
    cron_fault = frontend.cron.fault
    failures: list[tuple[int, BaseException]] = []
    waiting: list[tuple[int, Completion, asyncio.Future[Reply] | None]] = []
    for index, completion in enumerate(completions):
        try:
            checked = _checked(frontend, completion, cron_fault)
            intent = checked.intent
            future = None if intent is None else frontend.history.complete(intent)
        except Exception as error:
            failures.append((index, error))
        else:
            waiting.append((index, checked, future))
    for index, completion, future in waiting:
        try:
            if future is not None:
                await future
            if completion.refused is not None:
                raise completion.refused
        except Exception as error:
            failures.append((index, error))
        else:
            for token, answer in completion.answers:
                frontend.history.answer_query(token, answer)
    return failures


def refuse_commands(
    done: CompleteWorkflowTask, refused: Rejected, answers: list[tuple[QueryToken, QueryAnswer]]
) -> Completion:
    """Commands that can never be taken fail the task, with the cause in its history, and it runs
    again.

    Only telling the worker would leave the run to wait for the task's timeout, again and again.
    """
    failure = Failure(FailureKind.SERVER, refused.message)
    failed = FailWorkflowTask(
        done.token, WorkflowTaskFailedCause.BAD_COMMAND, failure, done.identity
    )
    return Completion(failed, answers, refused)


def _checked(
    frontend: Frontend, completion: Completion | Rejected, cron_fault: Callable[[str], str]
) -> Completion:
    if isinstance(completion, Rejected):
        raise completion
    match completion.intent:
        case CompleteWorkflowTask() as done:
            if done.behavior is Behavior.PINNED:
                frontend.deployments.require_not_retired(
                    done.token.namespace_id, done.deployment_name, done.build_id
                )
            try:
                for index, command in enumerate(done.commands):
                    check_command(index, command, cron_fault)
            except Rejected as rejected:
                under = checks.under("workflow_task_success", rejected)
                return refuse_commands(done, under, completion.answers)
        case None:
            pass
        case intent:
            _check_sizes(intent)
    for index, (_, answer) in enumerate(completion.answers):
        checks.size(f"query_results[{index}].result", answer.result)
    return completion


def _check_sizes(intent: WorkerIntent) -> None:
    match intent:
        case CompleteActivity(result=result):
            checks.size("activity_success.result", result)
        case FailActivity(progress=progress):
            checks.size("activity_failure.heartbeat_details", progress)
        case CancelActivity(details=details):
            checks.size("activity_cancellation.details", details)
        case HandOverActivity(progress=progress):
            checks.size("activity_async.heartbeat_details", progress)
        case CompleteWorkflowTask() | FailWorkflowTask() | HeartbeatActivity():
            pass
