"""Child workflows: workflows that another one starts, waits for, signals and cancels.

The overloads check the argument against the child's run method, in mypy and in pyright. With `args=[…]` nothing is
checked, and a child known only by name needs `result_type` to give a typed result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar, Unpack, overload

from perdure._definitions import startable_workflow
from perdure._interceptors.workflow import StartChildWorkflowInput
from perdure._payload import Payload
from perdure._replay.child_handle import NO_ARGUMENT, ChildWorkflowHandle, one_or_all
from perdure._replay.children import children_of
from perdure._replay.external_messages import (
    ParentClosePolicy,
    StartChildWorkflow,
)
from perdure._replay.machines.child import ChildWorkflowCancellationType
from perdure._replay.messages import NO_HEADER
from perdure._replay.run import WorkflowRun, current_run
from perdure.common import (
    Priority,
    RetryPolicy,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIdReusePolicy,
)
from perdure.workflow._activities import to_ms
from perdure.workflow._context import uuid4

_S = TypeVar("_S")
_A = TypeVar("_A")
_R = TypeVar("_R")
_P = ParamSpec("_P")


class ChildWorkflowOptions(TypedDict, total=False):
    """`id` is a UUID of the run's own making unless given, `task_queue` that of the parent.

    An open workflow of that id makes the start raise WorkflowAlreadyStartedError; `id_reuse_policy` is about closed
    ones. `execution_timeout` is for the child's whole chain of runs, which is one child to its parent.
    """

    id: str | None
    task_queue: str | None
    cancellation_type: ChildWorkflowCancellationType
    parent_close_policy: ParentClosePolicy
    execution_timeout: timedelta | None
    run_timeout: timedelta | None
    task_timeout: timedelta | None
    id_reuse_policy: WorkflowIdReusePolicy
    retry_policy: RetryPolicy | None
    cron_schedule: str
    memo: Mapping[str, Any] | None
    search_attributes: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None
    priority: Priority
    static_summary: str | None
    static_details: str | None


@overload
async def start_child_workflow(
    workflow: Callable[[_S], Awaitable[_R]], **options: Unpack[ChildWorkflowOptions]
) -> ChildWorkflowHandle[_S, _R]: ...


@overload
async def start_child_workflow(
    workflow: Callable[[_S, _A], Awaitable[_R]], arg: _A, **options: Unpack[ChildWorkflowOptions]
) -> ChildWorkflowHandle[_S, _R]: ...


@overload
async def start_child_workflow(
    workflow: Callable[Concatenate[_S, _P], Awaitable[_R]],
    *,
    args: Sequence[Any],
    **options: Unpack[ChildWorkflowOptions],
) -> ChildWorkflowHandle[_S, _R]: ...


@overload
async def start_child_workflow(
    workflow: str,
    arg: Any = NO_ARGUMENT,
    *,
    args: Sequence[Any] = (),
    result_type: type[_R],
    **options: Unpack[ChildWorkflowOptions],
) -> ChildWorkflowHandle[Any, _R]: ...


@overload
async def start_child_workflow(
    workflow: str,
    arg: Any = NO_ARGUMENT,
    *,
    args: Sequence[Any] = (),
    result_type: None = None,
    **options: Unpack[ChildWorkflowOptions],
) -> ChildWorkflowHandle[Any, Any]: ...


async def start_child_workflow(
    workflow: str | Callable[..., Awaitable[Any]],
    arg: Any = NO_ARGUMENT,
    *,
    args: Sequence[Any] = (),
    result_type: Any = None,
    **options: Unpack[ChildWorkflowOptions],
) -> ChildWorkflowHandle[Any, Any]:
    """Starts a child and returns when it has started; await the handle for its result.

    Raises WorkflowAlreadyStartedError when its id is taken, ChildWorkflowError when it was cancelled before it
    started, ValueError for options that make no sense, PayloadEncodeError for values that cannot travel.
    """
    if isinstance(workflow, str):
        name, hint = workflow, result_type or Any
    else:
        definition = startable_workflow(workflow)
        name, hint = definition.name, result_type or definition.signature.result
    run = current_run()
    run.check_may_act()
    values = one_or_all(arg, args)
    if run.outbound is not None:
        return await run.outbound.start_child_workflow(_input_of(name, values, hint, options))
    return await begin_child(run, name, values, hint, options, NO_HEADER)


def _input_of(
    name: str, args: Sequence[Any], hint: Any, options: ChildWorkflowOptions
) -> StartChildWorkflowInput:
    given: dict[str, Any] = {**options}
    given["id"] = _id_of(name, options)
    return StartChildWorkflowInput(
        workflow=name, args=args, headers=NO_HEADER, ret_type=hint, **given
    )


async def begin_child(
    run: WorkflowRun,
    name: str,
    args: Sequence[Any],
    hint: Any,
    options: ChildWorkflowOptions,
    header: Mapping[str, Payload],
) -> ChildWorkflowHandle[Any, Any]:
    """What `start_child_workflow` does behind all interceptors."""
    command = _command(run, name, args, options, header)
    cancellation = options.get(
        "cancellation_type", ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED
    )
    children = children_of(run)
    machine = children.start(command, hint, cancellation)
    await children.wait_started(machine)
    return machine.handle


@overload
async def execute_child_workflow(
    workflow: Callable[[_S], Awaitable[_R]], **options: Unpack[ChildWorkflowOptions]
) -> _R: ...


@overload
async def execute_child_workflow(
    workflow: Callable[[_S, _A], Awaitable[_R]], arg: _A, **options: Unpack[ChildWorkflowOptions]
) -> _R: ...


@overload
async def execute_child_workflow(
    workflow: Callable[Concatenate[_S, _P], Awaitable[_R]],
    *,
    args: Sequence[Any],
    **options: Unpack[ChildWorkflowOptions],
) -> _R: ...


@overload
async def execute_child_workflow(
    workflow: str,
    arg: Any = NO_ARGUMENT,
    *,
    args: Sequence[Any] = (),
    result_type: type[_R],
    **options: Unpack[ChildWorkflowOptions],
) -> _R: ...


@overload
async def execute_child_workflow(
    workflow: str,
    arg: Any = NO_ARGUMENT,
    *,
    args: Sequence[Any] = (),
    result_type: None = None,
    **options: Unpack[ChildWorkflowOptions],
) -> Any: ...


async def execute_child_workflow(workflow: Any, arg: Any = NO_ARGUMENT, **options: Any) -> Any:
    """`start_child_workflow`, and the result waited for.

    Raises what that raises, and ChildWorkflowError when the child does not succeed.
    """
    handle: ChildWorkflowHandle[Any, Any] = await start_child_workflow(workflow, arg, **options)
    return await handle


def _id_of(name: str, options: ChildWorkflowOptions) -> str:
    workflow_id = options.get("id")
    if workflow_id == "":
        raise ValueError(f"child workflow {name!r}: an id must not be empty")
    return workflow_id or str(uuid4())


def _command(
    run: WorkflowRun,
    name: str,
    args: Sequence[Any],
    options: ChildWorkflowOptions,
    header: Mapping[str, Payload],
) -> StartChildWorkflow:
    converter = run.converter
    priority = options.get("priority")
    memo = options.get("memo") or {}
    return StartChildWorkflow(
        workflow_id=_id_of(name, options),
        workflow_type=name,
        task_queue=options.get("task_queue") or "",
        input=converter.to_payloads(args),
        header=header,
        execution_timeout_ms=to_ms(options.get("execution_timeout")),
        run_timeout_ms=to_ms(options.get("run_timeout")),
        task_timeout_ms=to_ms(options.get("task_timeout")),
        retry_policy=options.get("retry_policy"),
        parent_close_policy=options.get("parent_close_policy", ParentClosePolicy.TERMINATE),
        id_reuse_policy=options.get("id_reuse_policy", WorkflowIdReusePolicy.ALLOW_DUPLICATE),
        cron_schedule=options.get("cron_schedule", ""),
        memo={key: converter.to_payload(value) for key, value in memo.items()},
        search_attributes=_attributes(options.get("search_attributes")),
        priority=(priority.priority_key or 0) if priority is not None else 0,
        static_summary=_text(run, options.get("static_summary")),
        static_details=_text(run, options.get("static_details")),
    )


def _attributes(
    given: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None,
) -> TypedSearchAttributes:
    if not given:
        return TypedSearchAttributes.empty
    return given if isinstance(given, TypedSearchAttributes) else TypedSearchAttributes(given)


def _text(run: WorkflowRun, text: str | None) -> Payload | None:
    return None if text is None else run.converter.to_payload(text)
