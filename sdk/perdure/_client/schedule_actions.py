"""What a schedule starts at each of its times, as its author says it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import (
    Any,
    Concatenate,
    ParamSpec,
    Required,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    assert_never,
    overload,
)

from perdure._client.options import NO_ARGUMENT, arguments
from perdure._definitions import ActivityDefinition, startable_workflow
from perdure._jobs import DEFAULT_QUEUE, JobOptions
from perdure._schedules.definition import ScheduleAction
from perdure._wire.calls import NO_HEADER, Start
from perdure._wire.policies import duration_from_ms, duration_to_ms
from perdure._wire.schedule_messages import ScheduledJob, ScheduledWorkflow, WireAction
from perdure.common import (
    Priority,
    RetryPolicy,
    TypedSearchAttributes,
    VersioningOverride,
    WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy,
)
from perdure.converter import Payload, PayloadConverter

S = TypeVar("S")
A = TypeVar("A")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


class ScheduledWorkflowOptions(TypedDict, total=False):
    """As the arguments of `start_workflow`."""

    id: str
    """Each run's id is this, "-" and the nominal time; the schedule's id unless given."""
    task_queue: Required[str]
    execution_timeout: timedelta | None
    run_timeout: timedelta | None
    task_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    memo: Mapping[str, Any] | None
    typed_search_attributes: TypedSearchAttributes
    static_summary: str | None
    static_details: str | None
    priority: Priority
    versioning_override: VersioningOverride | None
    headers: Mapping[str, Payload] | None
    """For interceptors of workers; never encoded."""


@dataclass(init=False)
class ScheduleActionStartWorkflow(ScheduleAction):
    """Starts a workflow: the run method of its class, or a name.

    The fields may be changed. Of a schedule that was described, `args`, the values of `memo` and
    the texts are `Payload`s. Raises ValueError for one argument and `args=`, TypeError for an option
    that is not there or is missing.
    """

    workflow: str
    args: Sequence[Any]
    id: str
    task_queue: str
    execution_timeout: timedelta | None
    run_timeout: timedelta | None
    task_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    memo: Mapping[str, Any] | None
    typed_search_attributes: TypedSearchAttributes
    static_summary: str | Payload | None
    static_details: str | Payload | None
    priority: Priority
    versioning_override: VersioningOverride | None
    headers: Mapping[str, Payload] | None

    @overload
    def __init__(
        self, workflow: Callable[[S], Awaitable[Any]], **options: Unpack[ScheduledWorkflowOptions]
    ) -> None: ...

    @overload
    def __init__(
        self,
        workflow: Callable[[S, A], Awaitable[Any]],
        arg: A,
        **options: Unpack[ScheduledWorkflowOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        workflow: Callable[Concatenate[S, P], Awaitable[Any]],
        *,
        args: Sequence[Any],
        **options: Unpack[ScheduledWorkflowOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        workflow: str,
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        **options: Unpack[ScheduledWorkflowOptions],
    ) -> None: ...

    def __init__(
        self,
        workflow: str | Callable[..., Awaitable[Any]],
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
        **options: Unpack[ScheduledWorkflowOptions],
    ) -> None:
        check_options(options, ScheduledWorkflowOptions, "a workflow", "task_queue")
        self.workflow = workflow if isinstance(workflow, str) else startable_workflow(workflow).name
        self.args = arguments(arg, args)
        self.id = options.get("id", "")
        self.task_queue = options["task_queue"]
        self.execution_timeout = options.get("execution_timeout")
        self.run_timeout = options.get("run_timeout")
        self.task_timeout = options.get("task_timeout")
        self.retry_policy = options.get("retry_policy")
        self.memo = options.get("memo")
        self.typed_search_attributes = options.get(
            "typed_search_attributes", TypedSearchAttributes.empty
        )
        self.static_summary = options.get("static_summary")
        self.static_details = options.get("static_details")
        self.priority = options.get("priority", Priority.default)
        self.versioning_override = options.get("versioning_override")
        self.headers = options.get("headers")


class ScheduledJobOptions(TypedDict, total=False):
    """As those of `client.jobs.create`, without what each slot has of its own, and without keys: what
    becomes of jobs that meet is the overlap policy's to say."""

    queue: str
    user_id: str
    """Whose the jobs are; the schedule's user's unless given."""
    timeout: timedelta | None
    heartbeat_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    priority: Priority | None
    headers: Mapping[str, Payload] | None
    """For interceptors of workers; never encoded."""


@dataclass(init=False)
class ScheduleActionStartJob(ScheduleAction):
    """Makes a job: of a function with `@job.defn`, or of a name.

    The fields may be changed. Of a schedule that was described, `args` are `Payload`s. Raises
    ValueError for arguments and `args=`, TypeError for an option that is not there.
    """

    task: str
    args: Sequence[Any]
    queue: str
    user_id: str
    timeout: timedelta | None
    heartbeat_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    priority: Priority | None
    headers: Mapping[str, Payload] | None

    @overload
    def __init__(
        self, task: Callable[[*Ts], Any], *arguments: *Ts, **options: Unpack[ScheduledJobOptions]
    ) -> None: ...

    @overload
    def __init__(
        self,
        task: Callable[..., Any],
        *,
        args: Sequence[Any],
        **options: Unpack[ScheduledJobOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        task: str,
        *arguments: Any,
        args: Sequence[Any] = ...,
        **options: Unpack[ScheduledJobOptions],
    ) -> None: ...

    def __init__(  # type: ignore[misc]  # mypy does not match *Ts with *Any
        self,
        task: Any,
        *arguments: Any,
        args: Sequence[Any] = (),
        **options: Unpack[ScheduledJobOptions],
    ) -> None:
        check_options(options, ScheduledJobOptions, "a job")
        if arguments and args:
            raise ValueError("give arguments or args=, not both")
        self.task = task if isinstance(task, str) else ActivityDefinition.attached_to(task).name
        self.args = arguments or args
        self.queue = options.get("queue", DEFAULT_QUEUE)
        self.user_id = options.get("user_id", "")
        self.timeout = options.get("timeout")
        self.heartbeat_timeout = options.get("heartbeat_timeout")
        self.retry_policy = options.get("retry_policy")
        self.priority = options.get("priority")
        self.headers = options.get("headers")


def check_options(options: Mapping[str, Any], known: type, what: str, *required: str) -> None:
    unknown = options.keys() - known.__annotations__.keys()
    if unknown:
        raise TypeError(f"scheduling {what}: there is no option {min(unknown)!r}")
    for name in required:
        if name not in options:
            raise TypeError(f"scheduling {what}: {name} is missing")


def wire_action(action: ScheduleAction, converter: PayloadConverter) -> WireAction:
    """With its values converted. Raises PayloadEncodeError, and TypeError for an action of another kind."""
    match action:
        case ScheduleActionStartWorkflow():
            return _wire_workflow(action, converter)
        case ScheduleActionStartJob():
            return _wire_job(action, converter)
        case _:
            raise TypeError(f"not an action of a schedule: {type(action).__name__}")


def read_action(action: WireAction) -> ScheduleAction:
    """What travelled; values stay the payloads that they are."""
    match action:
        case ScheduledWorkflow():
            return _read_workflow(action)
        case ScheduledJob():
            return _read_job(action)
        case _:
            assert_never(action)


def _wire_workflow(
    action: ScheduleActionStartWorkflow, converter: PayloadConverter
) -> ScheduledWorkflow:
    memo = action.memo or {}
    start = Start(
        namespace="",
        workflow_id="",
        workflow_type=action.workflow,
        task_queue=action.task_queue,
        input=[_payload(value, converter) for value in action.args],
        request_id="",
        identity="",
        id_reuse_policy=WorkflowIdReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIdConflictPolicy.UNSPECIFIED,
        execution_timeout_ms=duration_to_ms(action.execution_timeout),
        run_timeout_ms=duration_to_ms(action.run_timeout),
        task_timeout_ms=duration_to_ms(action.task_timeout),
        retry_policy=action.retry_policy,
        memo={name: _payload(value, converter) for name, value in memo.items()},
        header=action.headers or NO_HEADER,
        start_delay_ms=0,
        priority=action.priority.priority_key or 0,
        static_summary=_text(action.static_summary, converter),
        static_details=_text(action.static_details, converter),
        search_attributes=action.typed_search_attributes,
        versioning_override=action.versioning_override,
    )
    return ScheduledWorkflow(action.id, start)


def _read_workflow(action: ScheduledWorkflow) -> ScheduleActionStartWorkflow:
    start = action.start
    read = ScheduleActionStartWorkflow(
        start.workflow_type,
        args=start.input,
        id=action.workflow_id,
        task_queue=start.task_queue,
        execution_timeout=duration_from_ms(start.execution_timeout_ms),
        run_timeout=duration_from_ms(start.run_timeout_ms),
        task_timeout=duration_from_ms(start.task_timeout_ms),
        retry_policy=start.retry_policy,
        memo=start.memo or None,
        typed_search_attributes=start.search_attributes,
        priority=Priority(priority_key=start.priority or None),
        versioning_override=start.versioning_override,
        headers=start.header or None,
    )
    read.static_summary, read.static_details = start.static_summary, start.static_details
    return read


def _wire_job(action: ScheduleActionStartJob, converter: PayloadConverter) -> ScheduledJob:
    options: JobOptions = {
        "queue": action.queue,
        "user_id": action.user_id,
        "timeout": action.timeout,
        "heartbeat_timeout": action.heartbeat_timeout,
        "retry_policy": action.retry_policy,
        "priority": action.priority,
    }
    args = [_payload(value, converter) for value in action.args]
    return ScheduledJob(action.task, args, options, action.headers or NO_HEADER)


def _read_job(job: ScheduledJob) -> ScheduleActionStartJob:
    options = job.options
    return ScheduleActionStartJob(
        job.task_name,
        args=job.args,
        queue=options.get("queue", DEFAULT_QUEUE),
        user_id=options.get("user_id", ""),
        timeout=options.get("timeout"),
        heartbeat_timeout=options.get("heartbeat_timeout"),
        retry_policy=options.get("retry_policy"),
        priority=options.get("priority"),
        headers=job.header or None,
    )


def _payload(value: Any, converter: PayloadConverter) -> Payload:
    return value if isinstance(value, Payload) else converter.to_payload(value)


def _text(text: str | Payload | None, converter: PayloadConverter) -> Payload | None:
    return None if text is None else _payload(text, converter)
