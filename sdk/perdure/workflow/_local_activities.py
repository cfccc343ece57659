"""Calling local activities: short ones, run by the worker that runs the workflow, inside its workflow task.

They cost no task of their own and no round trip; their outcome is saved with the workflow task, so that one whose
worker dies before is run again. For what takes seconds, or must be watched while it runs, use an activity.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypedDict, TypeVar, TypeVarTuple, Unpack, overload

from perdure._definitions import ActivityDefinition
from perdure._interceptors.workflow import StartLocalActivityInput
from perdure._payload import Payload
from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.local_activities import LocalActivities
from perdure._replay.machines.activity import ActivityCancellationType
from perdure._replay.messages import NO_HEADER, LocalActivityTask
from perdure._replay.run import WorkflowRun, current_run
from perdure.common import RetryPolicy
from perdure.workflow._activities import refuse_options, to_ms

_Ts = TypeVarTuple("_Ts")
_R = TypeVar("_R")
_Result = TypeVar("_Result", covariant=True)


class _AsyncActivity(Protocol[*_Ts, _Result]):
    """An object of the class, to be called."""

    async def __call__(self, *arguments: *_Ts) -> _Result: ...


class _SyncActivity(Protocol[*_Ts, _Result]):
    def __call__(self, *arguments: *_Ts) -> _Result: ...


class LocalActivityOptions(TypedDict, total=False):
    """`start_to_close_timeout` or `schedule_to_close_timeout` is required.

    A back-off between attempts that is longer than `local_retry_threshold` (the workflow's task
    timeout unless given) becomes a timer of the workflow; a shorter one is waited for inside the
    workflow task.
    """

    schedule_to_close_timeout: timedelta | None
    schedule_to_start_timeout: timedelta | None
    start_to_close_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    local_retry_threshold: timedelta | None
    cancellation_type: ActivityCancellationType
    activity_id: str | None


@overload
def start_local_activity(
    activity: Callable[[*_Ts], Awaitable[_R]],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_local_activity(
    activity: Callable[[*_Ts], _R],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_local_activity(
    activity: Callable[..., Awaitable[_R]],
    *,
    args: Sequence[Any],
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_local_activity(
    activity: Callable[..., _R],
    *,
    args: Sequence[Any],
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_local_activity(
    activity: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: type[_R],
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_local_activity(
    activity: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: None = None,
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[Any]: ...


def start_local_activity(  # type: ignore[misc]  # mypy does not match *Ts with *Any
    activity: Any,
    *arguments: Any,
    args: Sequence[Any] = (),
    result_type: Any = None,
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[Any]:
    """Has a local activity begin; await the handle for its result.

    Raises ValueError for options that make no sense, PayloadEncodeError for arguments that cannot
    be converted. The handle raises ActivityError when the activity does not succeed,
    also when the run is cancelled meanwhile: its cause is a CancelledError then.
    """
    if isinstance(activity, str):
        return _start(activity, result_type or Any, arguments or args, options)
    definition = ActivityDefinition.attached_to(activity)
    hint = result_type or definition.signature.result
    return _start(definition.name, hint, arguments or args, options)


@overload
async def execute_local_activity(
    activity: Callable[[*_Ts], Awaitable[_R]],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> _R: ...


@overload
async def execute_local_activity(
    activity: Callable[[*_Ts], _R],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> _R: ...


@overload
async def execute_local_activity(
    activity: Callable[..., Awaitable[_R]],
    *,
    args: Sequence[Any],
    **options: Unpack[LocalActivityOptions],
) -> _R: ...


@overload
async def execute_local_activity(
    activity: Callable[..., _R],
    *,
    args: Sequence[Any],
    **options: Unpack[LocalActivityOptions],
) -> _R: ...


@overload
async def execute_local_activity(
    activity: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: type[_R],
    **options: Unpack[LocalActivityOptions],
) -> _R: ...


@overload
async def execute_local_activity(
    activity: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: None = None,
    **options: Unpack[LocalActivityOptions],
) -> Any: ...


async def execute_local_activity(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> Any:
    """`start_local_activity`, waited for."""
    return await start_local_activity(activity, *arguments, **options)


@overload
def start_local_activity_method(
    activity: Callable[[Any, *_Ts], Awaitable[_R]],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_local_activity_method(
    activity: Callable[[Any, *_Ts], _R],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[_R]: ...


def start_local_activity_method(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> ActivityHandle[Any]:
    """`start_local_activity` of `Class.method`, whose object only the worker has."""
    return start_local_activity(activity, *arguments, **options)


@overload
async def execute_local_activity_method(
    activity: Callable[[Any, *_Ts], Awaitable[_R]],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> _R: ...


@overload
async def execute_local_activity_method(
    activity: Callable[[Any, *_Ts], _R],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> _R: ...


async def execute_local_activity_method(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> Any:
    """`start_local_activity_method`, waited for."""
    return await start_local_activity(activity, *arguments, **options)


@overload
def start_local_activity_class(
    activity: type[_AsyncActivity[*_Ts, _R]],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_local_activity_class(
    activity: type[_SyncActivity[*_Ts, _R]],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> ActivityHandle[_R]: ...


def start_local_activity_class(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> ActivityHandle[Any]:
    """`start_local_activity` of a class with `__call__`, whose object only the worker has."""
    return start_local_activity(activity, *arguments, **options)


@overload
async def execute_local_activity_class(
    activity: type[_AsyncActivity[*_Ts, _R]],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> _R: ...


@overload
async def execute_local_activity_class(
    activity: type[_SyncActivity[*_Ts, _R]],
    *arguments: *_Ts,
    **options: Unpack[LocalActivityOptions],
) -> _R: ...


async def execute_local_activity_class(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> Any:
    """`start_local_activity_class`, waited for."""
    return await start_local_activity(activity, *arguments, **options)


_OPTIONS = LocalActivityOptions.__annotations__.keys()


def _start(
    name: str, hint: Any, args: Sequence[Any], options: LocalActivityOptions
) -> ActivityHandle[Any]:
    run = current_run()
    run.check_may_act()
    if run.outbound is not None:
        return run.outbound.start_local_activity(_input_of(name, hint, args, options))
    return begin_local(run, name, hint, args, options, NO_HEADER)


def _input_of(
    name: str, hint: Any, args: Sequence[Any], options: LocalActivityOptions
) -> StartLocalActivityInput:
    return StartLocalActivityInput(
        activity=name,
        args=args,
        activity_id=options.get("activity_id"),
        schedule_to_close_timeout=options.get("schedule_to_close_timeout"),
        schedule_to_start_timeout=options.get("schedule_to_start_timeout"),
        start_to_close_timeout=options.get("start_to_close_timeout"),
        retry_policy=options.get("retry_policy"),
        local_retry_threshold=options.get("local_retry_threshold"),
        cancellation_type=options.get("cancellation_type", ActivityCancellationType.TRY_CANCEL),
        headers=NO_HEADER,
        ret_type=hint,
    )


def begin_local(
    run: WorkflowRun,
    name: str,
    hint: Any,
    args: Sequence[Any],
    options: LocalActivityOptions,
    header: Mapping[str, Payload],
) -> ActivityHandle[Any]:
    """What `start_local_activity` does behind all interceptors."""
    assert run.started is not None
    if not options.keys() <= _OPTIONS:
        refuse_options(name, options.keys() - _OPTIONS)
    schedule_to_close_ms = to_ms(options.get("schedule_to_close_timeout"))
    start_to_close_ms = to_ms(options.get("start_to_close_timeout"))
    if not schedule_to_close_ms and not start_to_close_ms:
        raise ValueError(
            f"local activity {name!r}: give start_to_close_timeout or schedule_to_close_timeout"
        )
    threshold = options.get("local_retry_threshold")
    activity_id = run.next_activity_id()
    task = LocalActivityTask(
        activity_id=options.get("activity_id") or activity_id,
        activity_type=name,
        input=run.converter.to_payloads(args),
        schedule_to_close_timeout_ms=schedule_to_close_ms,
        schedule_to_start_timeout_ms=to_ms(options.get("schedule_to_start_timeout")),
        start_to_close_timeout_ms=start_to_close_ms,
        retry_policy=options.get("retry_policy"),
        local_retry_threshold_ms=(
            run.started.task_timeout_ms if threshold is None else to_ms(threshold)
        ),
        attempt=1,
        scheduled_time_us=run.now_us,
        header=header,
    )
    cancellation = options.get("cancellation_type", ActivityCancellationType.TRY_CANCEL)
    return _local(run).start(task, hint, cancellation, int(activity_id))


def _local(run: WorkflowRun) -> LocalActivities:
    if run.local is None:
        run.local = LocalActivities(run)
    return run.local
