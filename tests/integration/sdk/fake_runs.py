"""The state of the fake engine: runs, their histories and the tasks that wait. No faults, no time."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import deque
from dataclasses import dataclass, field

from perdure_api.v1 import common_pb2, event_pb2
from perdure_api.v1 import worker_service_pb2 as worker_pb
from perdure_api.v1 import workflow_service_pb2 as workflow_pb

COMPLETED = common_pb2.WORKFLOW_STATUS_COMPLETED
FAILED = common_pb2.WORKFLOW_STATUS_FAILED
CANCELED = common_pb2.WORKFLOW_STATUS_CANCELED
TERMINATED = common_pb2.WORKFLOW_STATUS_TERMINATED

ALONE_FROM, POISONED_FROM = 2, 3


@dataclass
class Attempt:
    run: Run
    scheduled: event_pb2.ActivityTaskScheduled
    scheduled_event_id: int
    number: int = 1
    heartbeat_details: bytes = b""
    crashes: int = 0


@dataclass
class Run:
    start: workflow_pb.StartWorkflowRequest
    run_id: str
    events: list[event_pb2.HistoryEvent] = field(default_factory=list)
    status: int = common_pb2.WORKFLOW_STATUS_RUNNING
    result: workflow_pb.WorkflowResult | None = None
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    task_is_waiting: bool = False
    started_event_id: int = 0
    previous_started_event_id: int = 0
    completed_event_id: int = 0
    buffered: list[dict[str, object]] = field(default_factory=list)
    sticky_worker: bytes = b""
    crashes: int = 0  # of its workflow task
    updates: list[worker_pb.TaskUpdate] = field(default_factory=list)  # with its first one
    queries: list[tuple[worker_pb.TaskQuery, asyncio.Future[worker_pb.QueryResult]]] = field(
        default_factory=list
    )

    def append(self, **attributes: object) -> event_pb2.HistoryEvent:
        event_id = len(self.events) + 1
        event = event_pb2.HistoryEvent(
            event_id=event_id, time_us=1_000_000 * event_id, **attributes
        )
        self.events.append(event)
        return event


def pool_of(one: Run | Attempt) -> str:
    return "surgical" if one.crashes >= POISONED_FROM else ""


class Runs:
    """Every change goes through here; `changed` is called when a task may have become ready."""

    def __init__(self) -> None:
        self.by_workflow_id: dict[str, Run] = {}
        self.by_run_id: dict[str, Run] = {}
        self.ready_runs: deque[Run] = deque()
        self.ready_attempts: deque[Attempt] = deque()
        self.started_tasks: dict[bytes, Run] = {}
        self.started_attempts: dict[bytes, Attempt] = {}
        self.answers: dict[str, tuple[str, bool]] = {}
        self.ready = asyncio.Event()
        # What tasks that are made from now on have behind them.
        self.attempts_have_crashed = 0
        self.workflow_tasks_have_crashed = 0
        self.attempts_may_go_ahead = False
        self._tokens = itertools.count(1)

    def start(self, request: workflow_pb.StartWorkflowRequest) -> tuple[str, bool]:
        run = Run(request, request.run_id or str(uuid.uuid4()))
        self.by_workflow_id[request.workflow_id] = run
        self.by_run_id[run.run_id] = run
        run.append(
            workflow_execution_started=event_pb2.WorkflowExecutionStarted(
                workflow_type=request.workflow_type,
                task_queue=request.task_queue,
                input=request.input,
                workflow_id=request.workflow_id,
                run_id=run.run_id,
                first_run_id=run.run_id,
                attempt=1,
                memo=request.memo,
            )
        )
        self.schedule(run)
        return run.run_id, True

    def find(self, workflow_id: str, run_id: str) -> Run | None:
        return self.by_run_id.get(run_id) if run_id else self.by_workflow_id.get(workflow_id)

    def schedule(self, run: Run) -> None:
        if run.task_is_waiting or run.started_event_id or run.closed.is_set():
            return
        run.task_is_waiting = True
        run.crashes = self.workflow_tasks_have_crashed
        run.append(workflow_task_scheduled=event_pb2.WorkflowTaskScheduled(attempt=1))
        self.ready_runs.append(run)
        self.ready.set()

    def happened(self, run: Run, **attributes: object) -> None:
        """An event from outside: numbered now, or after the task that is under way."""
        if run.closed.is_set():
            return
        if run.started_event_id:
            run.buffered.append(attributes)
            return
        run.append(**attributes)
        self.schedule(run)

    def close(self, run: Run, status: int, result: workflow_pb.WorkflowResult) -> None:
        run.status = status
        result.status = status
        result.run_id = run.run_id
        run.result = result
        run.closed.set()

    def take_workflow_task(self, worker_id: bytes, pool: str = "") -> worker_pb.WorkflowTask | None:
        for run in [one for one in self.ready_runs if pool_of(one) == pool]:
            self.ready_runs.remove(run)
            if run.queries and not run.task_is_waiting:
                return self._query_task(run)
            run.task_is_waiting = False
            if not run.closed.is_set():
                return self._workflow_task(run, worker_id)
        return None

    def _workflow_task(self, run: Run, worker_id: bytes) -> worker_pb.WorkflowTask:
        run.append(
            workflow_task_started=event_pb2.WorkflowTaskStarted(scheduled_event_id=len(run.events))
        )
        run.started_event_id = len(run.events)
        token = b"wft-%d" % next(self._tokens)
        self.started_tasks[token] = run
        alone = run.crashes >= ALONE_FROM
        is_sticky = not alone and bool(run.sticky_worker) and run.sticky_worker == worker_id
        first = run.previous_started_event_id if is_sticky else 0
        return worker_pb.WorkflowTask(
            token=token,
            workflow_id=run.start.workflow_id,
            run_id=run.run_id,
            workflow_type=run.start.workflow_type,
            attempt=1,
            previous_started_event_id=run.previous_started_event_id,
            started_event_id=run.started_event_id,
            events=run.events[first:],
            queries=[query for query, _ in run.queries],
            crashes=run.crashes,
            updates=run.updates,
        )

    def _query_task(self, run: Run) -> worker_pb.WorkflowTask:
        return worker_pb.WorkflowTask(
            workflow_id=run.start.workflow_id,
            run_id=run.run_id,
            workflow_type=run.start.workflow_type,
            attempt=1,
            previous_started_event_id=run.previous_started_event_id,
            started_event_id=len(run.events),
            events=() if run.sticky_worker else run.events,
            queries=[query for query, _ in run.queries],
            query_only=True,
        )

    def ask(self, run: Run, query: worker_pb.TaskQuery) -> asyncio.Future[worker_pb.QueryResult]:
        answer: asyncio.Future[worker_pb.QueryResult] = asyncio.get_running_loop().create_future()
        run.queries.append((query, answer))
        if not run.task_is_waiting and not run.started_event_id:
            self.ready_runs.append(run)
            self.ready.set()
        return answer

    def take_activity_task(self, pool: str = "") -> worker_pb.ActivityTask | None:
        attempt = next((one for one in self.ready_attempts if pool_of(one) == pool), None)
        if attempt is None:
            return None
        self.ready_attempts.remove(attempt)
        token = b"act-%d" % next(self._tokens)
        self.started_attempts[token] = attempt
        scheduled = attempt.scheduled
        return worker_pb.ActivityTask(
            token=token,
            workflow_id=attempt.run.start.workflow_id,
            run_id=attempt.run.run_id,
            workflow_type=attempt.run.start.workflow_type,
            activity_id=scheduled.activity_id,
            activity_type=scheduled.activity_type,
            input=scheduled.input,
            attempt=attempt.number,
            scheduled_time_us=1,
            started_time_us=2,
            heartbeat_details=attempt.heartbeat_details,
            idempotency_key=f"{attempt.run.run_id}/{scheduled.activity_id}",
            crashes=attempt.crashes,
            may_go_ahead=self.attempts_may_go_ahead,
        )

    def complete(self, completion: worker_pb.TaskCompletion, worker_id: bytes) -> bool:
        """False: too late."""
        outcome = completion.WhichOneof("outcome")
        self._answer_queries(completion)
        if outcome is None:
            return True
        if outcome == "task_crash":
            return self._crash(completion.token)
        if outcome.startswith("workflow"):
            run = self.started_tasks.pop(completion.token, None)
            if run is None:
                return False
            self._complete_workflow_task(run, completion, worker_id)
            return True
        attempt = self.started_attempts.pop(completion.token, None)
        if attempt is None:
            return False
        self._complete_attempt(attempt, completion)
        return True

    def _crash(self, token: bytes) -> bool:
        run = self.started_tasks.pop(token, None)
        attempt = self.started_attempts.pop(token, None)
        if run is not None:
            run.started_event_id, crashes = 0, run.crashes
            run.append(workflow_task_failed=event_pb2.WorkflowTaskFailed())
            self.schedule(run)
            run.crashes = crashes + 1
        elif attempt is not None:
            attempt.crashes += 1
            self.ready_attempts.append(attempt)
            self.ready.set()
        return run is not None or attempt is not None

    def _answer_queries(self, completion: worker_pb.TaskCompletion) -> None:
        results = {one.query_token: one for one in completion.query_results}
        for run in list(self.by_run_id.values()) if results else ():
            for query, answer in list(run.queries):
                if query.query_token in results and not answer.done():
                    answer.set_result(results[query.query_token])
                    run.queries.remove((query, answer))

    def _complete_workflow_task(
        self, run: Run, completion: worker_pb.TaskCompletion, worker_id: bytes
    ) -> None:
        started_event_id, run.started_event_id = run.started_event_id, 0
        if completion.WhichOneof("outcome") == "workflow_task_failure":
            run.sticky_worker = b""
            run.append(
                workflow_task_failed=event_pb2.WorkflowTaskFailed(
                    started_event_id=started_event_id,
                    cause=completion.workflow_task_failure.cause,
                    failure=completion.workflow_task_failure.failure,
                )
            )
        else:
            run.previous_started_event_id = started_event_id
            success = completion.workflow_task_success
            run.sticky_worker = worker_id if success.cached else b""
            event = run.append(
                workflow_task_completed=event_pb2.WorkflowTaskCompleted(
                    started_event_id=started_event_id
                )
            )
            for command in success.commands:
                self._apply(run, command, event.event_id)
        for attributes in run.buffered:
            run.append(**attributes)
        if run.buffered:
            run.buffered.clear()
            self.schedule(run)
        elif run.queries:
            self.ready_runs.append(run)
            self.ready.set()

    def _apply(self, run: Run, command: worker_pb.Command, completed_event_id: int) -> None:
        kind = command.WhichOneof("command")
        if kind == "schedule_activity":
            scheduled = event_pb2.ActivityTaskScheduled(
                activity_id=command.schedule_activity.activity_id,
                activity_type=command.schedule_activity.activity_type,
                input=command.schedule_activity.input,
                retry_policy=command.schedule_activity.retry_policy,
                workflow_task_completed_event_id=completed_event_id,
            )
            event = run.append(activity_task_scheduled=scheduled)
            attempt = Attempt(run, scheduled, event.event_id)
            attempt.crashes = self.attempts_have_crashed
            self.ready_attempts.append(attempt)
            self.ready.set()
        elif kind == "start_timer":
            run.append(
                timer_started=event_pb2.TimerStarted(
                    timer_id=command.start_timer.timer_id,
                    start_to_fire_ms=command.start_timer.start_to_fire_ms,
                )
            )
        elif kind == "request_cancel_activity":
            run.append(
                activity_task_cancel_requested=event_pb2.ActivityTaskCancelRequested(
                    scheduled_event_id=command.request_cancel_activity.scheduled_event_id
                )
            )
        elif kind == "complete_workflow":
            result = command.complete_workflow.result
            run.append(
                workflow_execution_completed=event_pb2.WorkflowExecutionCompleted(result=result)
            )
            self.close(run, COMPLETED, workflow_pb.WorkflowResult(result=result))
        elif kind == "fail_workflow":
            failure = command.fail_workflow.failure
            run.append(workflow_execution_failed=event_pb2.WorkflowExecutionFailed(failure=failure))
            self.close(run, FAILED, workflow_pb.WorkflowResult(failure=failure))
        elif kind == "cancel_workflow":
            run.append(workflow_execution_canceled=event_pb2.WorkflowExecutionCanceled())
            failure = common_pb2.Failure(
                message="canceled", canceled=common_pb2.CanceledFailureInfo()
            )
            self.close(run, CANCELED, workflow_pb.WorkflowResult(failure=failure))

    def _complete_attempt(self, attempt: Attempt, completion: worker_pb.TaskCompletion) -> None:
        run, scheduled_event_id = attempt.run, attempt.scheduled_event_id
        outcome = completion.WhichOneof("outcome")
        if outcome == "activity_success":
            self.happened(
                run,
                activity_task_completed=event_pb2.ActivityTaskCompleted(
                    result=completion.activity_success.result,
                    scheduled_event_id=scheduled_event_id,
                ),
            )
        elif outcome == "activity_cancellation":
            self.happened(
                run,
                activity_task_canceled=event_pb2.ActivityTaskCanceled(
                    details=completion.activity_cancellation.details,
                    scheduled_event_id=scheduled_event_id,
                ),
            )
        else:
            self._fail_attempt(attempt, completion.activity_failure)

    def _fail_attempt(self, attempt: Attempt, failed: worker_pb.ActivityFailure) -> None:
        limit = attempt.scheduled.retry_policy.maximum_attempts
        if failed.failure.application.non_retryable or attempt.number == limit:
            failure = common_pb2.Failure(
                message="activity failed",
                cause=failed.failure,
                activity=common_pb2.ActivityFailureInfo(
                    scheduled_event_id=attempt.scheduled_event_id,
                    activity_type=attempt.scheduled.activity_type,
                    activity_id=attempt.scheduled.activity_id,
                    retry_state=common_pb2.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED,
                ),
            )
            self.happened(
                attempt.run,
                activity_task_failed=event_pb2.ActivityTaskFailed(
                    failure=failure, scheduled_event_id=attempt.scheduled_event_id
                ),
            )
            return
        attempt.number += 1
        attempt.heartbeat_details = failed.heartbeat_details
        self.ready_attempts.append(attempt)
        self.ready.set()
