"""One path of the API as an ASGI application: reads the request, performs the operation, writes the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure_engine.core.errors import Code, invalid
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.metrics import Metrics
from perdure_engine.transport.http.rest import reading
from perdure_engine.transport.http.rest.operations import (
    IDEMPOTENCY_KEY_BYTES_MAX,
    NAMESPACE_DEFAULT,
    Answer,
    Call,
    Operation,
)
from perdure_engine.transport.http.rest.problems import (
    SAFE_HEADERS,
    Refused,
    encode,
    problem_of,
    problem_response,
    refused,
)
from perdure_engine.transport.measured import Measured
from perdure_engine.transport.refusals import Refusals, is_cancelled

T = TypeVar("T")

OK = "OK"
CANCELLED = Code.CANCELLED.name


class Served(NamedTuple):
    """What every path stands on. `now_s` is the event loop's time."""

    frontend: Frontend
    refusals: Refusals
    metrics: Metrics
    now_s: Callable[[], float]


class Endpoint:
    """The operations of one path, by method. HEAD is GET without its body, OPTIONS names the methods."""

    def __init__(self, operations: Mapping[str, Operation], served: Served) -> None:
        self._operations = operations
        self._served = served
        names = {*operations, "OPTIONS", *(("HEAD",) if "GET" in operations else ())}
        self.methods = sorted(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        if method == "OPTIONS":
            response = Response(status_code=204, headers={"allow": ", ".join(self.methods)})
        else:
            operation = self._operations["GET" if method == "HEAD" else method]
            response = await self._answered(operation, scope, receive)
        await response(scope, receive, send)

    async def _answered(self, operation: Operation, scope: Scope, receive: Receive) -> Response:
        served = self._served
        measured = Measured(served.metrics, operation.name, served.now_s)
        began_s, code = measured.now_s(), OK
        names = None  # until it is read, what is wrong is wrong about the request
        try:
            call = await self._read(operation, scope, receive)
            names = operation.names
            performed = operation.perform(call)
            if operation.waits:
                performed = _while_connected(performed, receive)
            return _written(await performed)
        except Refused as refusal:
            code = f"HTTP_{refusal.status}"
            return problem_response(refusal)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                code = CANCELLED
                raise
            rejected = served.refusals.of(error)
            code = rejected.code.name
            return problem_response(refused(rejected, names))
        finally:
            measured.ended(code, began_s)

    async def _read(self, operation: Operation, scope: Scope, receive: Receive) -> Call[Any, Any]:
        query = reading.query(scope["query_string"], operation.query)
        path = {
            name: reading.segment(name, raw) for name, raw in scope.get("path_params", {}).items()
        }
        namespace = _namespace(reading.header(scope, b"perdure-namespace"), query.namespace)
        namespace_id = await self._served.frontend.namespaces.id_of(namespace)
        body = None
        if operation.body is not None:
            required = operation.body_required
            body = await reading.body(scope, receive, operation.body, required=required)
        return Call(
            self._served.frontend,
            namespace_id,
            path,
            query,
            body,
            lambda error: problem_of(refused(self._served.refusals.of(error), operation.names)),
            _idempotency_key(scope) if operation.idempotent else "",
            reading.header(scope, b"if-match") if operation.conditional else "",
        )


def _namespace(header: str, parameter: str) -> str:
    if header and parameter and header != parameter:
        raise invalid("namespace", "is not that of the header Perdure-Namespace")
    return header or parameter or NAMESPACE_DEFAULT


def _idempotency_key(scope: Scope) -> str:
    key = reading.header(scope, b"idempotency-key")
    if key:
        checks.label("idempotency-key", key, IDEMPOTENCY_KEY_BYTES_MAX)
    return key


def _written(answer: Answer) -> Response:
    headers = {**SAFE_HEADERS, **answer.headers}
    if answer.body is None:
        return Response(status_code=answer.status, headers=headers)
    return Response(encode(answer.body), answer.status, headers, "application/json")


async def _while_connected(performed: Awaitable[T], receive: Receive) -> T:
    """What is performed, or its end as soon as its caller has gone: nobody is there to read it."""
    work = asyncio.ensure_future(performed)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Refused(499, "CALLER_GONE", "the caller has gone")
        return work.result()
    finally:
        gone.cancel()
        work.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
