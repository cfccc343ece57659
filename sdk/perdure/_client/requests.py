"""What a client asks, behind all of its interceptors. See the calls of the same names for what each
returns and raises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from perdure._client.core import ClientCore
from perdure._client.options import StartOptions, build_start
from perdure._client.paging import read_pages
from perdure._failures import failure_to_exception
from perdure._wire import calls
from perdure._wire.calls import StartedRun, Target
from perdure._wire.errors import EngineError
from perdure._wire.history import HistoryEvent
from perdure._wire.results import RunResult
from perdure._wire.workflow_info import (
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowExecutionDescription,
    WorkflowFilter,
)
from perdure.common import QueryRejectCondition, WorkflowStatus
from perdure.converter import Payload, PayloadConverter
from perdure.errors import (
    FailureError,
    RPCError,
    RPCStatusCode,
    WorkflowAlreadyStartedError,
    WorkflowContinuedAsNewError,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)

Header = Mapping[str, Payload] | None

# The engine's word for a query whose code raised.
_QUERY_FAILED = "QUERY_FAILED"
_QUERY_REJECTED = "QUERY_REJECTED"
_STATUSES = {int(status): status for status in WorkflowStatus}
# How long one wait for new events of a history stays parked; the contract's maximum is 60 s.
_HISTORY_WAIT_MS = 50_000


async def start(
    core: ClientCore, name: str, args: Sequence[Any], options: StartOptions, header: Header
) -> StartedRun:
    begun = build_start(
        options,
        workflow_type=name,
        args=args,
        namespace=core.namespace,
        identity=core.identity,
        request_id=core.surroundings.new_uuid(),
        converter=core.converter,
        header=header,
    )
    signal_name = options.get("start_signal")
    if signal_name is None:
        call = calls.start_workflow(begun)
    else:
        signal_args = core.converter.to_payloads(options.get("start_signal_args", ()))
        call = calls.signal_with_start_workflow(begun, signal_name, signal_args)
    try:
        return await core.call(call, options.get("rpc_timeout"))
    except EngineError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            run_id = error.facts.get("run_id")
            raise WorkflowAlreadyStartedError(options["id"], name, run_id=run_id) from None
        raise


def signal(
    core: ClientCore,
    target: Target,
    name: str,
    args: Sequence[Any],
    header: Header,
    rpc_timeout: timedelta | None,
) -> Awaitable[None]:
    call = calls.signal_workflow(
        target,
        name,
        core.converter.to_payloads(args),
        request_id=core.surroundings.new_uuid(),
        identity=core.identity,
        header=header,
    )
    return core.call(call, rpc_timeout)


async def query(
    core: ClientCore,
    target: Target,
    name: str,
    args: Sequence[Any],
    result_type: Any,
    header: Header,
    rpc_timeout: timedelta | None,
    reject_condition: QueryRejectCondition | None = None,
) -> Any:
    values = core.converter.to_payloads(args)
    call = calls.query_workflow(target, name, values, header, reject_condition)
    try:
        answer = await core.query(call, rpc_timeout)
    except RPCError as error:
        if error.reason == _QUERY_FAILED:
            raise WorkflowQueryFailedError(error.message) from None
        if isinstance(error, EngineError) and error.reason == _QUERY_REJECTED:
            status = _STATUSES.get(int(error.facts.get("status", 0)))
            raise WorkflowQueryRejectedError(status) from None
        raise
    return _only_value(answer, result_type, core.converter)


def cancel(
    core: ClientCore,
    target: Target,
    reason: str,
    rpc_timeout: timedelta | None,
    first_run_id: str | None = None,
) -> Awaitable[None]:
    call = calls.cancel_workflow(
        target,
        reason,
        request_id=core.surroundings.new_uuid(),
        identity=core.identity,
        first_run_id=first_run_id or "",
    )
    return core.call(call, rpc_timeout)


def terminate(
    core: ClientCore,
    target: Target,
    reason: str,
    details: Sequence[Any],
    rpc_timeout: timedelta | None,
    first_run_id: str | None = None,
) -> Awaitable[None]:
    call = calls.terminate_workflow(
        target,
        reason,
        core.converter.to_payloads(details),
        request_id=core.surroundings.new_uuid(),
        identity=core.identity,
        first_run_id=first_run_id or "",
    )
    return core.call(call, rpc_timeout)


async def delete(
    core: ClientCore, target: Target, reason: str, rpc_timeout: timedelta | None
) -> None:
    run_id = target.run_id or (await describe(core, target, rpc_timeout)).run_id
    call = calls.delete_workflow(
        replace(target, run_id=run_id),
        reason,
        request_id=core.surroundings.new_uuid(),
        identity=core.identity,
    )
    await core.call(call, rpc_timeout)


def describe(
    core: ClientCore, target: Target, rpc_timeout: timedelta | None
) -> Awaitable[WorkflowExecutionDescription]:
    return core.call(calls.describe_workflow(target, core.decode_or_keep), rpc_timeout)


async def result(
    core: ClientCore,
    target: Target,
    result_type: Any,
    rpc_timeout: timedelta | None,
    *,
    follow_runs: bool,
) -> Any:
    outcome = await core.result(target, rpc_timeout, follow_runs=follow_runs)
    if outcome.status is WorkflowStatus.CONTINUED_AS_NEW:
        raise WorkflowContinuedAsNewError(outcome.next_run_id)
    if outcome.status is not WorkflowStatus.COMPLETED:
        raise WorkflowFailureError(cause=_failure_of(outcome, core.converter))
    return _only_value(outcome.result, result_type, core.converter)


async def history_events(
    core: ClientCore, target: Target, rpc_timeout: timedelta | None, *, wait_new_event: bool
) -> AsyncIterator[HistoryEvent]:
    wait_ms = _HISTORY_WAIT_MS if wait_new_event else 0
    token = b""
    while True:

        async def page(timeout_s: float, token: bytes = token) -> tuple[list[Any], bytes]:
            return await core.workflow_service.history_page(target, token, wait_ms, timeout_s)

        events, token = await core.unary(page, rpc_timeout)
        for event in events:
            yield event
        if not token:
            return


def list_pages(
    core: ClientCore,
    wanted: WorkflowFilter,
    query_text: str,
    page_size: int,
    limit: int | None,
    rpc_timeout: timedelta | None,
    *,
    archived: bool,
) -> AsyncIterator[WorkflowExecution]:
    def page(
        size: int, token: bytes, timeout_s: float
    ) -> Awaitable[tuple[list[WorkflowExecution], bytes]]:
        return core.workflow_service.list_workflows(
            core.namespace,
            wanted,
            query_text,
            size,
            token,
            core.decode_or_keep,
            timeout_s,
            archived=archived,
        )

    return read_pages(core, page, page_size, limit, rpc_timeout)


async def count(
    core: ClientCore, wanted: WorkflowFilter, query_text: str, rpc_timeout: timedelta | None
) -> WorkflowExecutionCount:
    return await core.unary(
        lambda timeout_s: core.workflow_service.count_workflows(
            core.namespace, wanted, query_text, timeout_s
        ),
        rpc_timeout,
    )


def _only_value(payloads: list[Payload], hint: Any, converter: PayloadConverter) -> Any:
    return converter.from_payload(payloads[0], hint) if payloads else None


def _failure_of(outcome: RunResult, converter: PayloadConverter) -> BaseException:
    if outcome.failure is None:
        return FailureError(f"the run has ended as {outcome.status.name}")
    return failure_to_exception(outcome.failure, converter)
