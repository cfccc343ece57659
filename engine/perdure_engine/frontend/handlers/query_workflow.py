"""QueryWorkflow: a worker's answer about the run's state, within a deadline."""

from __future__ import annotations

import asyncio

from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import QueryWorkflow
from perdure_engine.core.replies import QueryAnswer, Reply
from perdure_engine.frontend import checks
from perdure_engine.frontend.archived import refusal_of_archived
from perdure_engine.frontend.frontend import Frontend

QUERY_TIMEOUT_S = 10.0  # a worker that has not answered by then holds the caller up for nothing

# Not the workflow's own code: names that begin with __ are nobody else's.
ANSWERED_BY_THE_SDK = frozenset(("__stack_trace", "__perdure_workflow_metadata"))


def query_workflow(frontend: Frontend, query: QueryWorkflow) -> asyncio.Future[Reply]:
    """Answered with a `QueryAnswer` without failure.

    Fails with INVALID_ARGUMENT when the query's code raised and DEADLINE_EXCEEDED after
    `QUERY_TIMEOUT_S`.
    """
    checks.workflow_id("workflow_id", query.workflow_id)
    if query.query_type not in ANSWERED_BY_THE_SDK:
        checks.name("query_type", query.query_type)
    checks.size("args", query.args)
    checks.size("header", query.header, limits.HEADER_BYTES_MAX)
    return _limited(frontend, query, frontend.submit(query))


def _limited(
    frontend: Frontend, query: QueryWorkflow, asked: asyncio.Future[Reply]
) -> asyncio.Future[Reply]:
    """A future for the answer that never waits longer than a query may.

    Not a task: a batch of queries would make as many. Whoever stops waiting cancels what was asked,
    so that a query nobody waits for pins nothing.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Reply] = loop.create_future()

    def answered(done: asyncio.Future[Reply]) -> None:
        if answer.done():
            if not done.cancelled():
                done.exception()
        elif done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is None:
            _settle(answer, done.result())
        elif isinstance(error, Rejected) and error.code is Code.NOT_FOUND:
            where = query.namespace_id, query.workflow_id, query.run_id
            _refuse(answer, loop.create_task(refusal_of_archived(frontend, error, *where)))
        else:
            answer.set_exception(error)

    def expire() -> None:
        if not answer.done():
            answer.set_exception(_too_late())

    expiry = loop.call_later(QUERY_TIMEOUT_S, expire)

    def settled(_: asyncio.Future[Reply]) -> None:
        expiry.cancel()
        asked.cancel()

    answer.add_done_callback(settled)
    asked.add_done_callback(answered)
    return answer


def _refuse(answer: asyncio.Future[Reply], looking: asyncio.Task[Rejected]) -> None:
    def looked(done: asyncio.Task[Rejected]) -> None:
        if not (answer.done() or done.cancelled()):
            answer.set_exception(done.exception() or done.result())

    answer.add_done_callback(lambda _: looking.cancel())
    looking.add_done_callback(looked)


def _settle(answer: asyncio.Future[Reply], reply: Reply) -> None:
    assert isinstance(reply, QueryAnswer)
    if reply.failure is None:
        answer.set_result(reply)
        return
    message = reply.failure.message or "the query raised"
    answer.set_exception(
        Rejected(
            Code.INVALID_ARGUMENT,
            "QUERY_FAILED",
            message,
            metadata={"type": reply.failure.type[: limits.NAME_BYTES_MAX]},
        )
    )


def _too_late() -> Rejected:
    return Rejected(
        Code.DEADLINE_EXCEEDED,
        "QUERY_TIMEOUT",
        f"no worker answered the query within {QUERY_TIMEOUT_S:g} s",
    )
