"""Tasks in a worker's hand, towards the wire."""

from __future__ import annotations

from perdure_engine.core import limits
from perdure_engine.core.events import Event
from perdure_engine.core.ids import uuid_text
from perdure_engine.core.jobs.model import DEFAULT_JOB_RETRY
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.get_history import event_bytes
from perdure_engine.frontend.handlers.get_task_history import Rest, seal_rest
from perdure_engine.frontend.handlers.poll_tasks import give_back
from perdure_engine.ports.history import (
    HandedActivityTask,
    HandedJobTask,
    HandedWorkflowTask,
)
from perdure_engine.ports.matching import PollAnswer
from perdure_engine.transport.grpc.convert.events import event_fields
from perdure_engine.transport.grpc.convert.fields import Fields
from perdure_engine.transport.grpc.convert.retries import policy_fields

ENVELOPE_BYTES = 1_024  # of a task without its payloads and events: ids, names, token


def tasks_fields(frontend: Frontend, answer: PollAnswer) -> Fields:
    """The tasks of an answer to a poll or to completions.

    At most about 2 MiB. What does not fit is given back and no longer in `answer`.

    A history that does not fit comes in pages. The first task always goes: one that never fitted
    would never run.
    """
    room = limits.BATCH_MESSAGE_BYTES_MAX
    activity_tasks: list[Fields] = []
    for position, task in enumerate(answer.activity_tasks):
        needed = _activity_bytes(task)
        if needed > room and activity_tasks:
            give_back(frontend, PollAnswer([], answer.activity_tasks[position:]))
            del answer.activity_tasks[position:]
            break
        room -= needed
        activity_tasks.append(activity_task_fields(frontend, task))
    job_tasks: list[Fields] = []
    for position, job_task in enumerate(answer.job_tasks):
        spec = job_task.job.spec
        needed = len(spec.input) + len(spec.header) + len(job_task.job.progress) + ENVELOPE_BYTES
        if needed > room and (job_tasks or activity_tasks):
            give_back(frontend, PollAnswer([], [], answer.job_tasks[position:]))
            del answer.job_tasks[position:]
            break
        room -= needed
        job_tasks.append(job_task_fields(frontend, job_task))
    workflow_tasks: list[Fields] = []
    for position, workflow_task in enumerate(answer.workflow_tasks):
        if room < ENVELOPE_BYTES and (workflow_tasks or activity_tasks or job_tasks):
            give_back(frontend, PollAnswer(answer.workflow_tasks[position:], []))
            del answer.workflow_tasks[position:]
            break
        fields, used = workflow_task_fields(frontend, workflow_task, room - ENVELOPE_BYTES)
        room -= ENVELOPE_BYTES + used
        workflow_tasks.append(fields)
    return {
        "workflow_tasks": workflow_tasks,
        "activity_tasks": activity_tasks,
        "job_tasks": job_tasks,
    }


def activity_task_fields(frontend: Frontend, task: HandedActivityTask) -> Fields:
    scheduled = task.scheduled
    run_id = uuid_text(task.run_id)
    key_run_id = uuid_text(task.key_run_id) if task.key_run_id else run_id
    return {
        "token": frontend.sealer.seal_task(task.token),
        "workflow_id": task.workflow_id,
        "run_id": run_id,
        "workflow_type": task.workflow_type,
        "activity_id": scheduled.activity_id,
        "activity_type": scheduled.activity_type,
        "input": scheduled.input,
        "header": scheduled.header,
        "attempt": task.attempt,
        "scheduled_time_us": scheduled.time_us,
        "started_time_us": task.started_us,
        "schedule_to_close_timeout_ms": scheduled.schedule_to_close_timeout_ms,
        "start_to_close_timeout_ms": scheduled.start_to_close_timeout_ms,
        "heartbeat_timeout_ms": scheduled.heartbeat_timeout_ms,
        "heartbeat_details": task.progress,
        "retry_policy": policy_fields(scheduled.retry_policy),
        "idempotency_key": f"{key_run_id}:{scheduled.event_id}",
        "priority": scheduled.priority,
        "progress_version": task.progress_version,
        "version": scheduled.version,
        "crashes": task.crashes,
        "may_go_ahead": task.may_go_ahead,
    }


def job_task_fields(frontend: Frontend, task: HandedJobTask) -> Fields:
    """What has its default is left out: thousands a second, and each field has its price."""
    job = task.job
    spec = job.spec
    fields: Fields = {
        "token": frontend.sealer.seal_task(task.token),
        "job_id": job.job_id,
        "task_name": job.task_name,
        "input": spec.input,
        "attempt": job.attempt,
        "due_time_us": job.due_us,
        "started_time_us": task.started_us,
        "priority": job.priority,
        "create_time_us": job.created_us,
    }
    if spec.header:
        fields["header"] = spec.header
    if spec.timeout_ms:
        fields["timeout_ms"] = spec.timeout_ms
    if spec.heartbeat_timeout_ms:
        fields["heartbeat_timeout_ms"] = spec.heartbeat_timeout_ms
    if job.progress_version:
        fields["progress"] = job.progress
        fields["progress_version"] = job.progress_version
    if spec.retry is not DEFAULT_JOB_RETRY and spec.retry != DEFAULT_JOB_RETRY:
        fields["retry_policy"] = policy_fields(spec.retry)
    if job.schedule_id:
        fields["schedule_id"] = job.schedule_id
    if job.user_id:
        fields["user_id"] = job.user_id
    if job.crashes is not None:
        fields["crashes"] = job.crashes.count
    return fields


def workflow_task_fields(
    frontend: Frontend, task: HandedWorkflowTask, room: int
) -> tuple[Fields, int]:
    """The task with as much of its events as there is room for, and how much that took."""
    updates = sum(len(update.input) + len(update.header) for update in task.updates)
    events, next_page_token, used = _first_page(frontend, task, room - updates)
    used += updates
    token = task.token
    fields = {
        "token": b"" if token is None else frontend.sealer.seal_task(token),
        "workflow_id": task.workflow_id,
        "run_id": uuid_text(task.run_id),
        "workflow_type": task.workflow_type,
        "attempt": task.attempt,
        "previous_started_event_id": task.previous_started_event_id,
        "started_event_id": task.started_event_id,
        "events": [event_fields(event) for event in events],
        "next_page_token": next_page_token,
        "query_only": token is None,
        "task_timeout_ms": task.task_timeout_ms,
        "history_size_bytes": task.history_bytes,
        "suggest_continue_as_new": task.suggest_continue_as_new,
        "crashes": task.crashes,
    }
    if task.queries:
        fields["queries"] = [
            {
                "query_token": frontend.sealer.seal_query(query.token, task.namespace_id),
                "query_type": query.query_type,
                "args": query.args,
                "header": query.header,
            }
            for query in task.queries
        ]
        used += sum(len(query.args) + len(query.header) for query in task.queries)
    if task.updates:
        fields["updates"] = [
            {
                "update_id": update.update_id,
                "update_name": update.update_name,
                "args": update.input,
                "header": update.header,
                "identity": update.identity,
            }
            for update in task.updates
        ]
    return fields, used


def _first_page(
    frontend: Frontend, task: HandedWorkflowTask, room: int
) -> tuple[list[Event], bytes, int]:
    events, following, used = task.events, task.next_event_id, task.history_bytes
    # The whole history is a bound that costs nothing; only what may be too large is measured.
    if used > min(room, limits.TASK_HISTORY_PAGE_BYTES_MAX):
        events, used = _fitting(task.events, room)
        if len(events) < len(task.events):
            following = task.events[len(events)].event_id
    if not following:
        return events, b"", used
    tail = [event for event in _tail(task) if event.event_id >= following]
    to_event_id = tail[0].event_id - 1 if tail else task.started_event_id
    rest = Rest(task.shard_id, task.run_id, following, to_event_id, tail)
    return events, seal_rest(frontend, task.namespace_id, rest), used


def _fitting(events: list[Event], room: int) -> tuple[list[Event], int]:
    """As many as fit, and their size. None is fine: they come by the page token."""
    used = 0
    for index, event in enumerate(events):
        size = len(event_bytes(event))
        if used + size > room:
            return events[:index], used
        used += size
    return events, used


def _tail(task: HandedWorkflowTask) -> list[Event]:
    """The events that no store has yet. A complete hand-out may have them in `events` only."""
    if task.tail or task.token is None:
        return task.tail
    return task.events[-2 if not task.token.scheduled_event_id else -1 :]


def _activity_bytes(task: HandedActivityTask) -> int:
    scheduled = task.scheduled
    return len(scheduled.input) + len(scheduled.header) + len(task.progress) + ENVELOPE_BYTES
