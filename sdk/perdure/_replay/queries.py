"""Queries: answered after everything else, from the state as it stands, changing nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from perdure._failures import exception_to_failure
from perdure._replay.callsite import waiting_at
from perdure._replay.messages import Query, QueryResult
from perdure._replay.run import WorkflowRun
from perdure.errors import ApplicationError

STACK_TRACE = "__stack_trace"


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
    definition = run.definition.queries.get(query.query_type)
    if definition is None:
        known = ", ".join([*sorted(run.definition.queries), STACK_TRACE])
        raise ApplicationError(
            f"workflow {run.definition.name!r} has no query {query.query_type!r}; known: {known}",
            type="UnknownQuery",
        )
    if run.workflow is None:
        raise ApplicationError("the workflow has not begun", type="NotStarted")
    args = definition.signature.decode(query.args, run.converter)
    return partial(definition.function, run.workflow, *args)


def _stack_trace(run: WorkflowRun) -> str:
    stacks: list[str] = []
    for task in run.loop.live_tasks():
        lines = [f"  {site}" for site in waiting_at(task)]
        stacks.append("\n".join([f"{task.get_name()}:", *lines]))
    return "\n\n".join(stacks)
