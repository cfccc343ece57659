"""CompleteTasks: what workers made of their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from perdure_engine.core import limits
from perdure_engine.core.errors import Rejected
from perdure_engine.core.events import WorkflowTaskFailedCause
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import (
    CancelActivity,
    CompleteActivity,
    CompleteWorkflowTask,
    CrashTask,
    FailActivity,
    FailWorkflowTask,
    HandOverActivity,
    HeartbeatActivity,
    WorkerIntent,
)
from perdure_engine.core.jobs.intents import (
    CompleteJobs,
    JobCanceled,
    JobCompleted,
    JobFailed,
    JobOutcome,
)
from perdure_engine.core.jobs.replies import JobReply, JobsAnswered
from perdure_engine.core.replies import QueryAnswer, Reply, WentAhead
from perdure_engine.core.tokens import QueryToken
from perdure_engine.core.versions import Behavior
from perdure_engine.frontend import checks
from perdure_engine.frontend.commands import check_command
from perdure_engine.frontend.frontend import Frontend


class Settled(NamedTuple):
    """Of a list of completions, by their index."""

    failures: list[tuple[int, BaseException]]  # why it was not taken
    went_ahead: list[int]  # what was done ahead counts


class Completion(msgspec.Struct, frozen=True):
    """`intent` is None when only queries are answered.

    `refused` is what the worker is told besides.
    """

    intent: WorkerIntent | None
    answers: list[tuple[QueryToken, QueryAnswer]]
    refused: Rejected | None = None


Said = Completion | JobOutcome | Rejected
"""Of one task: what became of it, or why that could not be read."""


async def complete_tasks(frontend: Frontend, said: Sequence[Said], identity: str = "") -> Settled:
    """Answered when all of it is saved. `identity`: who says it, of jobs.

    All are submitted before anything is awaited, so that one commit can carry them. Queries are
    answered after the completion they came with was accepted: their callers see nothing that is not
    saved.
    """
    cron_fault = frontend.cron.fault
    failures: list[tuple[int, BaseException]] = []
    waiting: list[tuple[int, Completion, asyncio.Future[Reply] | None]] = []
    jobs = _OutcomesOfJobs()
    for index, one in enumerate(said):
        try:
            if isinstance(one, Completion):
                checked = _checked(frontend, one, cron_fault)
                intent = checked.intent
                future = None if intent is None else frontend.history.complete(intent)
                waiting.append((index, checked, future))
            elif isinstance(one, Rejected):
                failures.append((index, one))
            else:
                _check_outcome(one)
                jobs.add(index, one)
        except Exception as error:
            failures.append((index, error))
    submitted = jobs.submit(frontend, identity)
    went_ahead: list[int] = []
    for index, completion, future in waiting:
        try:
            reply = await _settled(frontend, completion, future)
        except Exception as error:
            failures.append((index, error))
        else:
            if isinstance(reply, WentAhead):
                went_ahead.append(index)
    if submitted:
        failures += await jobs.refused(submitted)
    return Settled(failures, went_ahead)


async def _settled(
    frontend: Frontend, completion: Completion, future: asyncio.Future[Reply] | None
) -> Reply:
    """Raises what it was not taken for; when it was, its queries are answered."""
    reply = None if future is None else await future
    if completion.refused is not None:
        raise completion.refused
    for token, answer in completion.answers:
        frontend.history.answer_query(token, answer)
    return reply


class _OutcomesOfJobs:
    """By shard: thousands a second, so that there is one intent and one future for those of a shard."""

    __slots__ = ("_by_shard",)

    def __init__(self) -> None:
        self._by_shard: dict[int, tuple[list[int], list[JobOutcome]]] = {}

    def add(self, index: int, outcome: JobOutcome) -> None:
        shard_id = outcome.token.shard_id
        found = self._by_shard.get(shard_id)
        if found is None:
            found = self._by_shard[shard_id] = ([], [])
        found[0].append(index)
        found[1].append(outcome)

    def submit(self, frontend: Frontend, identity: str) -> list[asyncio.Future[JobReply]]:
        return [
            frontend.history.submit_job(shard_id, CompleteJobs(shard_id, outcomes, identity))
            for shard_id, (_, outcomes) in self._by_shard.items()
        ]

    async def refused(
        self, submitted: list[asyncio.Future[JobReply]]
    ) -> list[tuple[int, BaseException]]:
        found: list[tuple[int, BaseException]] = []
        replies = await asyncio.gather(*submitted, return_exceptions=True)
        for (indices, _), reply in zip(self._by_shard.values(), replies, strict=True):
            if isinstance(reply, BaseException):
                found += [(index, reply) for index in indices]
            else:
                assert isinstance(reply, JobsAnswered)
                found += [(indices[place], refusal) for place, refusal in reply.refused]
        return found


def _check_outcome(outcome: JobOutcome) -> None:
    if isinstance(outcome, JobCompleted):
        if len(outcome.result) > limits.PAYLOAD_BYTES_MAX:
            checks.size("activity_success.result", outcome.result)
    elif isinstance(outcome, JobFailed):
        checks.size("activity_failure.heartbeat_details", outcome.progress)
    elif isinstance(outcome, JobCanceled):
        checks.size("activity_cancellation.details", outcome.details)


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
    frontend: Frontend, completion: Completion, cron_fault: Callable[[str], str]
) -> Completion:
    match completion.intent:
        case CompleteWorkflowTask() as done:
            _require_not_retired(frontend, done)
            try:
                _check_commands(done, cron_fault)
            except Rejected as rejected:
                under = checks.under("workflow_task_success", rejected)
                return refuse_commands(done, under, completion.answers)
        case CompleteActivity(ahead=ahead) as completed if ahead is not None:
            _check_sizes(completed)
            try:
                _require_not_retired(frontend, ahead.completion)
                _check_commands(ahead.completion, cron_fault)
            except Rejected:
                # The result counts, and a task of its own says what is wrong with the rest.
                alone = msgspec.structs.replace(completed, ahead=None)
                completion = msgspec.structs.replace(completion, intent=alone)
        case None:
            pass
        case intent:
            _check_sizes(intent)
    for index, (_, answer) in enumerate(completion.answers):
        checks.size(f"query_results[{index}].result", answer.result)
    return completion


def _require_not_retired(frontend: Frontend, done: CompleteWorkflowTask) -> None:
    if done.behavior is Behavior.PINNED:
        frontend.deployments.require_not_retired(
            done.token.namespace_id, done.deployment_name, done.build_id
        )


def _check_commands(done: CompleteWorkflowTask, cron_fault: Callable[[str], str]) -> None:
    for index, command in enumerate(done.commands):
        check_command(index, command, cron_fault)


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
        case CompleteWorkflowTask() | FailWorkflowTask() | HeartbeatActivity() | CrashTask():
            pass
