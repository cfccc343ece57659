"""BatchCall: many calls in one message, each answered as if it had come alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from perdure_api.v1 import workflow_service_pb2 as pb
from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, invalid
from perdure_engine.core.replies import Reply
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.transport.grpc.calls import CALLS, namespace_of
from perdure_engine.transport.grpc.convert.fields import Fields
from perdure_engine.transport.grpc.errors import Errors
from perdure_engine.transport.refusals import is_cancelled

# What may be asked again alone; an update is, by its id.
READS = ("query_workflow", "describe_workflow", "update_workflow")

Outcome = asyncio.Future[Reply] | Exception


async def batch_call(
    frontend: Frontend, errors: Errors, request: pb.BatchCallRequest
) -> pb.BatchCallResponse:
    """All calls are submitted in their order in one turn of the loop, then awaited together."""
    if len(request.calls) > limits.BATCH_CALLS_MAX:
        raise invalid("calls", f"are {len(request.calls)}, the limit is {limits.BATCH_CALLS_MAX}")
    calls = [_unpacked(call) for call in request.calls]
    namespaces = await _namespace_ids(frontend, calls)
    outcomes = [_submit(frontend, namespaces, verb, message) for verb, message in calls]
    try:
        return await _answer(errors, calls, outcomes)
    finally:
        for outcome in outcomes:
            if isinstance(outcome, asyncio.Future) and not outcome.cancel():
                # Read, or asyncio would complain of an error that nobody retrieved.
                _ = outcome.cancelled() or outcome.exception()


def _unpacked(call: pb.Call) -> tuple[str, Any]:
    verb = call.WhichOneof("call")
    return ("", None) if verb is None else (verb, getattr(call, verb))


async def _namespace_ids(
    frontend: Frontend, calls: Iterable[tuple[str, Any]]
) -> dict[str, bytes | Exception]:
    """Every namespace of the batch, resolved before the first call is submitted."""
    found: dict[str, bytes | Exception] = {}
    for name in {namespace_of(verb, message) for verb, message in calls if verb}:
        try:
            found[name] = await frontend.namespaces.id_of(name)
        except Exception as error:
            found[name] = error
    return found


def _submit(
    frontend: Frontend, namespaces: dict[str, bytes | Exception], verb: str, message: Any
) -> Outcome:
    if not verb:
        return invalid("call", "is not set, or of a kind unknown to this version")
    namespace_id = namespaces[namespace_of(verb, message)]
    if isinstance(namespace_id, Exception):
        return namespace_id
    try:
        return CALLS[verb].submit(frontend, message, namespace_id)
    except Exception as error:
        return error


async def _answer(
    errors: Errors, calls: list[tuple[str, Any]], outcomes: list[Outcome]
) -> pb.BatchCallResponse:
    results: list[Fields] = []
    room = limits.REQUEST_BYTES_MAX - limits.PAYLOAD_BYTES_MAX
    for (verb, _), outcome in zip(calls, outcomes, strict=True):
        try:
            if isinstance(outcome, Exception):
                raise outcome
            response = CALLS[verb].answer(await outcome)
            if verb in READS:
                # A read may be asked again alone; what changed something must be answered.
                room -= response.ByteSize()
                if room < 0:
                    raise _too_much()
            results.append({verb: response})
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            results.append({"error": errors.encoded(error)})
        except Exception as error:
            results.append({"error": errors.encoded(error)})
    return pb.BatchCallResponse(results=results)


def _too_much() -> Rejected:
    return Rejected(
        Code.RESOURCE_EXHAUSTED,
        "BATCH_ANSWER_TOO_LARGE",
        "the answers of this batch do not fit into one message; send fewer reads in one",
    )
