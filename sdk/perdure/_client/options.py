"""What can be said when a workflow is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Required, TypedDict

from perdure._wire.calls import NO_HEADER, Start
from perdure._wire.policies import duration_to_ms
from perdure._wire.workflow_info import WorkflowFilter
from perdure.common import (
    Priority,
    RetryPolicy,
    SearchAttributePair,
    TypedSearchAttributes,
    VersioningOverride,
    WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy,
    WorkflowStatus,
)
from perdure.converter import Payload, PayloadConverter

NO_ARGUMENT: Any = object()
"""Tells "no argument" from the argument None."""


class StartOptions(TypedDict, total=False):
    """Keyword arguments of `start_workflow` and `execute_workflow`; `id` and `task_queue` must be
    given. With `retry_policy` a workflow that fails, or passes its `run_timeout`, is run again."""

    id: Required[str]
    task_queue: Required[str]
    execution_timeout: timedelta | None
    """Of the whole chain of runs."""
    run_timeout: timedelta | None
    task_timeout: timedelta | None
    """Of one step of its code on a worker; 10 s."""
    id_reuse_policy: WorkflowIdReusePolicy
    """When a closed run has that id."""
    id_conflict_policy: WorkflowIdConflictPolicy
    """When an open run has that id: fail unless told otherwise."""
    retry_policy: RetryPolicy | None
    memo: Mapping[str, Any] | None
    start_signal: str | None
    """Started with this signal, or an open run of that id is sent it: one transaction."""
    start_signal_args: Sequence[Any]
    start_delay: timedelta | None
    cron_schedule: str
    """Five fields, `@daily` and the like, `CRON_TZ=zone` before them: begun again at each time."""
    priority: Priority
    static_summary: str | None
    static_details: str | None
    rpc_timeout: timedelta | None
    search_attributes: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None
    """What lists find it by. Not encrypted."""
    versioning_override: VersioningOverride | None
    """Instead of the versioning behaviour that its code says."""
    request_eager_start: bool
    """Taken, and without effect: a worker with room gets the first task as soon as it is saved."""


_OPTIONS = StartOptions.__annotations__.keys()


def arguments(arg: Any, args: Sequence[Any]) -> Sequence[Any]:
    if arg is NO_ARGUMENT:
        return args
    if args:
        raise ValueError("give one argument or args=, not both")
    return (arg,)


def build_start(
    options: StartOptions,
    *,
    workflow_type: str,
    args: Sequence[Any],
    namespace: str,
    identity: str,
    request_id: str,
    converter: PayloadConverter,
    header: Mapping[str, Payload] | None = None,
) -> Start:
    """Raises TypeError for options that are not there or are missing, PayloadEncodeError for
    arguments, memo values or texts that cannot travel."""
    if not options.keys() <= _OPTIONS:
        raise TypeError(
            f"starting a workflow: there is no option {min(options.keys() - _OPTIONS)!r}"
        )
    for name in ("id", "task_queue"):
        if name not in options:
            raise TypeError(f"starting a workflow: {name} is missing")
    priority = options.get("priority")
    memo = options.get("memo") or {}
    return Start(
        namespace=namespace,
        workflow_id=options["id"],
        workflow_type=workflow_type,
        task_queue=options["task_queue"],
        input=converter.to_payloads(args),
        request_id=request_id,
        identity=identity,
        id_reuse_policy=options.get("id_reuse_policy", WorkflowIdReusePolicy.ALLOW_DUPLICATE),
        id_conflict_policy=options.get("id_conflict_policy", WorkflowIdConflictPolicy.UNSPECIFIED),
        execution_timeout_ms=duration_to_ms(options.get("execution_timeout")),
        run_timeout_ms=duration_to_ms(options.get("run_timeout")),
        task_timeout_ms=duration_to_ms(options.get("task_timeout")),
        retry_policy=options.get("retry_policy"),
        memo={name: converter.to_payload(one) for name, one in memo.items()},
        header=header or NO_HEADER,
        start_delay_ms=duration_to_ms(options.get("start_delay")),
        priority=(priority.priority_key or 0) if priority is not None else 0,
        static_summary=_text(options.get("static_summary"), converter),
        static_details=_text(options.get("static_details"), converter),
        cron_schedule=options.get("cron_schedule", ""),
        search_attributes=_attributes(options.get("search_attributes")),
        versioning_override=options.get("versioning_override"),
    )


def _attributes(
    given: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None,
) -> TypedSearchAttributes:
    if not given:
        return TypedSearchAttributes.empty
    return given if isinstance(given, TypedSearchAttributes) else TypedSearchAttributes(given)


def _text(text: str | None, converter: PayloadConverter) -> Payload | None:
    return None if text is None else converter.to_payload(text)


def workflow_filter(
    status: WorkflowStatus | Sequence[WorkflowStatus],
    workflow_type: str,
    id_prefix: str,
    start_time_min: datetime | None,
    start_time_max: datetime | None,
) -> WorkflowFilter:
    """Of the arguments that lists and counts take."""
    return WorkflowFilter(
        statuses=(status,) if isinstance(status, WorkflowStatus) else tuple(status),
        workflow_type=workflow_type,
        workflow_id_prefix=id_prefix,
        start_time_min=start_time_min,
        start_time_max=start_time_max,
    )
