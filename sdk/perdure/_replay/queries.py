"""Queries: answered after everything else, from the state as it stands, changing nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from perdure._definitions import HandlerDefinition, HandlerTable, find_handler
from perdure._failures import exception_to_failure
from perdure._interceptors.workflow import HandleQueryInput
from perdure._replay.callsite import waiting_at
from perdure._replay.interception import completed
from perdure._replay.messages import Query, QueryResult
from perdure._replay.run import WorkflowRun
from perdure.errors import ApplicationError

STACK_TRACE = "__stack_trace"
METADATA = "__perdure_workflow_metadata"


def answer(run: WorkflowRun, query: Query) -> QueryResult:
    """Never raises for what the user's code or the caller did wrong."""
    try:
        value = run.read_only(f"query {query.query_type!r}", _handler(run, query))
        result = [run.converter.to_payload(value)]
    except Exception as error:
        return refuse(query, error, run)
    return QueryResult(query_token=query.query_token, result=result, failure=None)


def refuse(query: Query, error: BaseException, run: WorkflowRun) -> QueryResult:
    failure = exception_to_failure(error, run.converter)
    return QueryResult(query_token=query.query_token, result=[], failure=failure)


def _handler(run: WorkflowRun, query: Query) -> Callable[[], Any]:
    if query.query_type == STACK_TRACE:
        return partial(_stack_trace, run)
    if query.query_type == METADATA:
        return partial(_metadata, run)
    definition = run.query_handler_for(query.query_type)
    if definition is None:
        known = ", ".join([*sorted(_names(run.definition.queries, run.added_queries)), STACK_TRACE])
        raise ApplicationError(
            f"workflow {run.definition.name!r} has no query {query.query_type!r}; known: {known}",
            type="UnknownQuery",
        )
    if run.workflow is None:
        raise ApplicationError("the workflow has not begun", type="NotStarted")
    args = definition.decode(query.query_type, query.args, run.converter)
    if run.inbound is not None:
        return partial(_intercepted, run, query, args[1] if definition.dynamic else args)
    return partial(definition.call, run.workflow, args)


def _intercepted(run: WorkflowRun, query: Query, args: list[Any]) -> Any:
    assert run.inbound is not None
    asked = HandleQueryInput(
        id=query.query_token.hex(), query=query.query_type, args=args, headers=query.header
    )
    return completed(run.inbound.handle_query(asked))


def query_handler(run: WorkflowRun, name: str | None) -> HandlerDefinition | None:
    """That of exactly this name; None: the dynamic one."""
    return find_handler(run.definition.queries, run.added_queries, name)


def _names(
    own: HandlerTable, added: Mapping[str | None, HandlerDefinition | None] | None
) -> list[str]:
    there = {**own, **(added or {})}
    return [name for name, handler in there.items() if name is not None and handler is not None]


def _metadata(run: WorkflowRun) -> dict[str, Any]:
    definition = run.definition
    started = run.started
    return {
        "definition": {
            "type": started.workflow_type if started is not None else definition.name,
            "signal_definitions": _described(definition.signals, run.signals.added),
            "query_definitions": _described(definition.queries, run.added_queries),
            "update_definitions": run.updates.described(),
        },
        "current_details": run.current_details,
    }


def _described(
    own: HandlerTable, added: Mapping[str | None, HandlerDefinition | None] | None
) -> list[dict[str, Any]]:
    """The dynamic one has no name."""
    there = {**own, **(added or {})}
    return [
        {"name": name, "description": handler.description}
        for name, handler in sorted(there.items(), key=lambda one: one[0] or "")
        if handler is not None
    ]


def _stack_trace(run: WorkflowRun) -> str:
    stacks: list[str] = []
    for task in run.loop.live_tasks():
        lines = [f"  {site}" for site in waiting_at(task)]
        stacks.append("\n".join([f"{task.get_name()}:", *lines]))
    return "\n\n".join(stacks)
