"""Calling activities.

The overloads check arguments against the activity's parameters, in mypy and in pyright: an
activity as `Callable[[*Ts], …]`, its arguments as `*Ts`. With `args=[…]` nothing is checked, and
an activity known only by name needs `result_type` to give a typed result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from datetime import timedelta
from typing import Any, NoReturn, TypedDict, TypeVar, TypeVarTuple, Unpack, overload

from perdure._definitions import ActivityDefinition
from perdure._interceptors.workflow import StartActivityInput
from perdure._payload import Payload
from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.activity_versions import version_to_schedule
from perdure._replay.machines.activity import ActivityCancellationType
from perdure._replay.messages import NO_HEADER, ScheduleActivity
from perdure._replay.run import WorkflowRun, current_run
from perdure.common import Priority, RetryPolicy

_Ts = TypeVarTuple("_Ts")
_R = TypeVar("_R")


class ActivityOptions(TypedDict, total=False):
    """`start_to_close_timeout` or `schedule_to_close_timeout` is required.

    `task_queue` is the workflow's own unless given; `activity_id` is counted; `retry_policy` is
    the engine's (1 s, doubling, without end); `summary` is shown beside it to people.
    """

    task_queue: str | None
    schedule_to_close_timeout: timedelta | None
    schedule_to_start_timeout: timedelta | None
    start_to_close_timeout: timedelta | None
    heartbeat_timeout: timedelta | None
    retry_policy: RetryPolicy | None
    cancellation_type: ActivityCancellationType
    activity_id: str | None
    priority: Priority | None
    summary: str | None


@overload
def start_activity(
    activity: Callable[[*_Ts], Awaitable[_R]],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_activity(
    activity: Callable[[*_Ts], _R],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_activity(
    activity: Callable[..., Awaitable[_R]],
    *,
    args: Sequence[Any],
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_activity(
    activity: Callable[..., _R],
    *,
    args: Sequence[Any],
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_activity(
    activity: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: type[_R],
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_activity(
    activity: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: None = None,
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[Any]: ...


def start_activity(  # type: ignore[misc]  # mypy does not match *Ts with *Any
    activity: Any,
    *arguments: Any,
    args: Sequence[Any] = (),
    result_type: Any = None,
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[Any]:
    """Schedules an activity now; await the handle for its result.

    Raises ValueError for options that make no sense, PayloadEncodeError for arguments that cannot
    be converted. The handle raises ActivityError when the activity does not succeed,
    also when the run is cancelled meanwhile: its cause is a CancelledError then.
    """
    if isinstance(activity, str):
        return _start(activity, None, result_type or Any, arguments or args, options)
    definition = _definition(activity)
    hint = result_type or definition.signature.result
    return _start(definition.name, definition.version, hint, arguments or args, options)


@overload
async def execute_activity(
    activity: Callable[[*_Ts], Awaitable[_R]],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> _R: ...


@overload
async def execute_activity(
    activity: Callable[[*_Ts], _R],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> _R: ...


@overload
async def execute_activity(
    activity: Callable[..., Awaitable[_R]],
    *,
    args: Sequence[Any],
    **options: Unpack[ActivityOptions],
) -> _R: ...


@overload
async def execute_activity(
    activity: Callable[..., _R],
    *,
    args: Sequence[Any],
    **options: Unpack[ActivityOptions],
) -> _R: ...


@overload
async def execute_activity(
    activity: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: type[_R],
    **options: Unpack[ActivityOptions],
) -> _R: ...


@overload
async def execute_activity(
    activity: str,
    *arguments: Any,
    args: Sequence[Any] = ...,
    result_type: None = None,
    **options: Unpack[ActivityOptions],
) -> Any: ...


async def execute_activity(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> Any:
    """`start_activity`, waited for."""
    return await start_activity(activity, *arguments, **options)


@overload
def start_activity_method(
    activity: Callable[[Any, *_Ts], Awaitable[_R]],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_activity_method(
    activity: Callable[[Any, *_Ts], _R],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[_R]: ...


def start_activity_method(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> ActivityHandle[Any]:
    """`start_activity` of `Class.method`, whose object only the worker has."""
    return start_activity(activity, *arguments, **options)


@overload
async def execute_activity_method(
    activity: Callable[[Any, *_Ts], Awaitable[_R]],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> _R: ...


@overload
async def execute_activity_method(
    activity: Callable[[Any, *_Ts], _R],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> _R: ...


async def execute_activity_method(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> Any:
    """`start_activity_method`, waited for."""
    return await start_activity(activity, *arguments, **options)


@overload
def start_activity_class(
    activity: Callable[..., Callable[[*_Ts], Awaitable[_R]]],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[_R]: ...


@overload
def start_activity_class(
    activity: Callable[..., Callable[[*_Ts], _R]],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> ActivityHandle[_R]: ...


def start_activity_class(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> ActivityHandle[Any]:
    """`start_activity` of a class with `__call__`, whose object only the worker has."""
    return start_activity(activity, *arguments, **options)


@overload
async def execute_activity_class(
    activity: Callable[..., Callable[[*_Ts], Awaitable[_R]]],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> _R: ...


@overload
async def execute_activity_class(
    activity: Callable[..., Callable[[*_Ts], _R]],
    *arguments: *_Ts,
    **options: Unpack[ActivityOptions],
) -> _R: ...


async def execute_activity_class(  # type: ignore[misc]  # as above
    activity: Any, *arguments: Any, **options: Any
) -> Any:
    """`start_activity_class`, waited for."""
    return await start_activity(activity, *arguments, **options)


def _definition(activity: Any) -> ActivityDefinition:
    definition = ActivityDefinition.attached_to(activity)
    if definition.is_dynamic:
        raise TypeError(f"{activity!r} is dynamic: call it by the name that it shall see")
    return definition


_MILLISECOND = timedelta(milliseconds=1)
_OPTIONS = ActivityOptions.__annotations__.keys()


def _start(
    name: str, version: int | None, hint: Any, args: Sequence[Any], options: ActivityOptions
) -> ActivityHandle[Any]:
    run = current_run()
    run.check_may_act()
    if not options.keys() <= _OPTIONS:
        refuse_options(name, options.keys() - _OPTIONS)
    if run.outbound is not None:
        return run.outbound.start_activity(_input_of(name, version, hint, args, options))
    return schedule(run, name, version, hint, args, options, NO_HEADER)


def _input_of(
    name: str, version: int | None, hint: Any, args: Sequence[Any], options: ActivityOptions
) -> StartActivityInput:
    return StartActivityInput(
        activity=name,
        args=args,
        activity_id=options.get("activity_id"),
        task_queue=options.get("task_queue"),
        schedule_to_close_timeout=options.get("schedule_to_close_timeout"),
        schedule_to_start_timeout=options.get("schedule_to_start_timeout"),
        start_to_close_timeout=options.get("start_to_close_timeout"),
        heartbeat_timeout=options.get("heartbeat_timeout"),
        retry_policy=options.get("retry_policy"),
        cancellation_type=options.get("cancellation_type", ActivityCancellationType.TRY_CANCEL),
        headers=NO_HEADER,
        summary=options.get("summary"),
        priority=options.get("priority"),
        ret_type=hint,
        version=version,
    )


def schedule(
    run: WorkflowRun,
    name: str,
    version: int | None,
    hint: Any,
    args: Sequence[Any],
    options: ActivityOptions,
    header: Mapping[str, Payload],
) -> ActivityHandle[Any]:
    """What `start_activity` does behind all interceptors."""
    schedule_to_close_ms = to_ms(options.get("schedule_to_close_timeout"))
    start_to_close_ms = to_ms(options.get("start_to_close_timeout"))
    if not schedule_to_close_ms and not start_to_close_ms:
        refuse_endless(name)
    priority = options.get("priority")
    summary = options.get("summary")
    activity_id = run.next_activity_id()
    command = ScheduleActivity(
        activity_id=options.get("activity_id") or activity_id,
        activity_type=name,
        task_queue=options.get("task_queue") or "",
        input=run.converter.to_payloads(args),
        header=header,
        schedule_to_close_timeout_ms=schedule_to_close_ms,
        schedule_to_start_timeout_ms=to_ms(options.get("schedule_to_start_timeout")),
        start_to_close_timeout_ms=start_to_close_ms,
        heartbeat_timeout_ms=to_ms(options.get("heartbeat_timeout")),
        retry_policy=options.get("retry_policy"),
        priority=(priority.priority_key or 0) if priority is not None else 0,
        summary=None if summary is None else run.converter.to_payload(summary),
        version=version_to_schedule(run, name, version),
    )
    cancellation = options.get("cancellation_type", ActivityCancellationType.TRY_CANCEL)
    return run.start_activity(command, hint, cancellation)


def check_options(activity: Any, names: Set[str], options: Mapping[str, Any]) -> None:
    """What a call with these options would refuse, for whoever calls later. `activity`: or its name."""
    name = activity if isinstance(activity, str) else _definition(activity).name
    if not names <= _OPTIONS:
        refuse_options(name, names - _OPTIONS)
    ends = ("schedule_to_close_timeout", "start_to_close_timeout")
    if not any([to_ms(options.get(end)) for end in ends]):
        refuse_endless(name)


def refuse_endless(name: str) -> NoReturn:
    raise ValueError(f"activity {name!r}: give start_to_close_timeout or schedule_to_close_timeout")


def refuse_options(name: str, unknown: Set[str]) -> NoReturn:
    """An option with a slip in its name must not be as good as none."""
    raise TypeError(f"activity {name!r}: there is no option {min(unknown)!r}")


def to_ms(duration: timedelta | None) -> int:
    """Rounded up, so that a short timeout never becomes 0, which is none at all."""
    if duration is None:
        return 0
    duration_ms = -(-duration // _MILLISECOND)
    if duration_ms < 0:
        raise ValueError(f"a timeout must not be negative: {duration}")
    return duration_ms
