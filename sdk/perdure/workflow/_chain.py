"""The run before this one, and the run after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn, TypeVar, TypeVarTuple, overload

from perdure._definitions import workflow_definition
from perdure._failures import failure_to_exception
from perdure._interceptors.workflow import ContinueAsNewInput
from perdure._replay.interrupts import ContinueAsNewError
from perdure._replay.messages import NO_HEADER, ContinueAsNew
from perdure._replay.run import WorkflowRun, current_run
from perdure.common import RetryPolicy, SearchAttributePair, TypedSearchAttributes

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_MILLISECOND = timedelta(milliseconds=1)


@overload
def continue_as_new(
    *arguments: *_Ts,
    workflow: Callable[[Any, *_Ts], Awaitable[Any]],
    task_queue: str | None = None,
    run_timeout: timedelta | None = None,
    task_timeout: timedelta | None = None,
    retry_policy: RetryPolicy | None = None,
    memo: Mapping[str, Any] | None = None,
    search_attributes: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None = None,
) -> NoReturn: ...


@overload
def continue_as_new(
    *arguments: Any,
    args: Sequence[Any] = (),
    workflow: str | None = None,
    task_queue: str | None = None,
    run_timeout: timedelta | None = None,
    task_timeout: timedelta | None = None,
    retry_policy: RetryPolicy | None = None,
    memo: Mapping[str, Any] | None = None,
    search_attributes: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None = None,
) -> NoReturn: ...


@overload
def continue_as_new(
    *,
    args: Sequence[Any],
    workflow: Callable[..., Awaitable[Any]],
    task_queue: str | None = None,
    run_timeout: timedelta | None = None,
    task_timeout: timedelta | None = None,
    retry_policy: RetryPolicy | None = None,
    memo: Mapping[str, Any] | None = None,
    search_attributes: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None = None,
) -> NoReturn: ...


def continue_as_new(  # type: ignore[misc]  # mypy does not match *Ts with *Any
    *arguments: Any,
    args: Sequence[Any] = (),
    workflow: str | Callable[..., Awaitable[Any]] | None = None,
    task_queue: str | None = None,
    run_timeout: timedelta | None = None,
    task_timeout: timedelta | None = None,
    retry_policy: RetryPolicy | None = None,
    memo: Mapping[str, Any] | None = None,
    search_attributes: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None = None,
) -> NoReturn:
    """Ends this run and starts the next one of its workflow id, with a history of its own.

    It never returns: it raises ContinueAsNewError, which must leave the workflow. What is not given
    is as it is in this run. Signals that came and were not seen are seen first, by this run.
    `search_attributes` are all that the next run has; this run's are made the same as it ends.
    """
    run = current_run()
    run.check_may_act()
    if arguments and args:
        raise ValueError("give arguments or args=, not both")
    name = workflow or ""
    if not isinstance(name, str):
        name = workflow_definition(name).name
    asked = ContinueAsNewInput(
        workflow=name or None,
        args=arguments or args,
        task_queue=task_queue,
        run_timeout=run_timeout,
        task_timeout=task_timeout,
        retry_policy=retry_policy,
        memo=memo,
        headers=NO_HEADER,
        search_attributes=_attributes(search_attributes),
    )
    if run.outbound is not None:
        run.outbound.continue_as_new(asked)
    continue_run_as_new(run, asked)


def continue_run_as_new(run: WorkflowRun, asked: ContinueAsNewInput) -> NoReturn:
    """What `continue_as_new` does behind all interceptors."""
    converter = run.converter
    raise ContinueAsNewError(
        ContinueAsNew(
            workflow_type=asked.workflow or "",
            task_queue=asked.task_queue or "",
            input=converter.to_payloads(asked.args),
            header=asked.headers,
            memo={key: converter.to_payload(value) for key, value in (asked.memo or {}).items()},
            run_timeout_ms=_timeout_ms(asked.run_timeout),
            task_timeout_ms=_timeout_ms(asked.task_timeout),
            retry_policy=asked.retry_policy,
        ),
        _attributes(asked.search_attributes),
    )


def _attributes(
    given: TypedSearchAttributes | Sequence[SearchAttributePair[Any]] | None,
) -> TypedSearchAttributes | None:
    if given is None or isinstance(given, TypedSearchAttributes):
        return given
    return TypedSearchAttributes(tuple(given))


def has_last_completion_result() -> bool:
    """Has an earlier run of this cron chain completed?"""
    return _started().last_completion_result is not None


@overload
def get_last_completion_result(type_hint: type[_T]) -> _T | None: ...


@overload
def get_last_completion_result(type_hint: None = None) -> Any: ...


def get_last_completion_result(type_hint: Any = None) -> Any:
    """What the last run of this cron chain that completed returned; None when none did."""
    payloads = _started().last_completion_result
    if not payloads:
        return None
    return current_run().converter.from_payload(
        payloads[0], Any if type_hint is None else type_hint
    )


def get_last_failure() -> BaseException | None:
    """What the run before this one failed with, when that is why this one was begun."""
    failure = _started().last_failure
    return None if failure is None else failure_to_exception(failure, current_run().converter)


def _started() -> Any:
    started = current_run().started
    assert started is not None
    return started


def _timeout_ms(timeout: timedelta | None) -> int:
    """Rounded up; 0: as it is in this run."""
    if timeout is None:
        return 0
    timeout_ms = -(-timeout // _MILLISECOND)
    if timeout_ms <= 0:
        raise ValueError(f"a timeout must be positive: {timeout}")
    return timeout_ms
