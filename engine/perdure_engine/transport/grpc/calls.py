"""The client calls that may travel alone or in a batch: one table for both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from perdure_engine.core.replies import Reply
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.cancel_workflow import cancel_workflow
from perdure_engine.frontend.handlers.delete_workflow import delete_workflow
from perdure_engine.frontend.handlers.describe_workflow import describe_workflow
from perdure_engine.frontend.handlers.query_workflow import query_workflow
from perdure_engine.frontend.handlers.signal_with_start_workflow import (
    signal_with_start_workflow,
)
from perdure_engine.frontend.handlers.signal_workflow import signal_workflow
from perdure_engine.frontend.handlers.start_workflow import start_workflow
from perdure_engine.frontend.handlers.terminate_workflow import terminate_workflow
from perdure_engine.frontend.handlers.update_workflow import update_workflow
from perdure_engine.transport.grpc.convert import archived, intents, replies

Submit = Callable[[Frontend, Any, bytes], asyncio.Future[Any]]


class ClientCall(NamedTuple):
    """`submit` takes the message and the namespace's id; `answer` makes a response of the reply."""

    submit: Submit
    answer: Callable[[Any], Message]


def namespace_of(verb: str, message: Any) -> str:
    name: str = (
        message.start.namespace if verb == "signal_with_start_workflow" else message.namespace
    )
    return name


def _start(frontend: Frontend, message: Any, namespace_id: bytes) -> asyncio.Future[Reply]:
    intent = intents.start_workflow(message, namespace_id)
    return start_workflow(frontend, intent)


def _signal_with_start(
    frontend: Frontend, message: Any, namespace_id: bytes
) -> asyncio.Future[Reply]:
    intent = intents.signal_with_start_workflow(message, namespace_id)
    return signal_with_start_workflow(frontend, intent)


def _signal(frontend: Frontend, message: Any, namespace_id: bytes) -> asyncio.Future[Reply]:
    return signal_workflow(frontend, intents.signal_workflow(message, namespace_id))


def _query(frontend: Frontend, message: Any, namespace_id: bytes) -> asyncio.Future[Reply]:
    return query_workflow(frontend, intents.query_workflow(message, namespace_id))


def _cancel(frontend: Frontend, message: Any, namespace_id: bytes) -> asyncio.Future[Reply]:
    return cancel_workflow(frontend, intents.cancel_workflow(message, namespace_id))


def _terminate(frontend: Frontend, message: Any, namespace_id: bytes) -> asyncio.Future[Reply]:
    return terminate_workflow(frontend, intents.terminate_workflow(message, namespace_id))


def _delete(frontend: Frontend, message: Any, namespace_id: bytes) -> asyncio.Future[Reply]:
    return delete_workflow(frontend, intents.delete_workflow(message, namespace_id))


def _describe(frontend: Frontend, message: Any, namespace_id: bytes) -> asyncio.Future[Any]:
    return describe_workflow(frontend, intents.describe_workflow(message, namespace_id))


def _update(frontend: Frontend, message: Any, namespace_id: bytes) -> asyncio.Future[Reply]:
    intent = intents.update_workflow(message, namespace_id)
    # a task: what an update waits for takes far longer than making one
    return asyncio.ensure_future(update_workflow(frontend, intent, message.timeout_ms))


CALLS = {
    "start_workflow": ClientCall(_start, replies.started),
    "signal_workflow": ClientCall(_signal, replies.signaled),
    "signal_with_start_workflow": ClientCall(_signal_with_start, replies.signaled_with_start),
    "query_workflow": ClientCall(_query, replies.queried),
    "cancel_workflow": ClientCall(_cancel, replies.cancel_requested),
    "terminate_workflow": ClientCall(_terminate, replies.terminated),
    "delete_workflow": ClientCall(_delete, replies.deleted),
    "describe_workflow": ClientCall(_describe, archived.described),
    "update_workflow": ClientCall(_update, replies.updated),
}
