"""The API put together: a route for each path, the document, and what stands before all of them."""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.metrics import Metrics
from perdure_engine.transport.http.rest.endpoint import Endpoint, Served
from perdure_engine.transport.http.rest.openapi import document
from perdure_engine.transport.http.rest.problems import SAFE_HEADERS, encode
from perdure_engine.transport.http.rest.table import OPERATIONS, by_path
from perdure_engine.transport.refusals import Refusals


def routes(frontend: Frontend, metrics: Metrics) -> list[Route]:
    """Made on the loop that will serve them."""
    now_s = asyncio.get_running_loop().time
    served = Served(frontend, Refusals(frontend.ids), metrics, now_s)
    endpoints = [(path, Endpoint(operations, served)) for path, operations in by_path().items()]
    made = [Route(path, endpoint, methods=endpoint.methods) for path, endpoint in endpoints]
    return [*made, Route("/openapi.json", Document(frontend.about.version))]


class Document:
    """Made when it is first asked for: most nodes never are."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._encoded = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._encoded:
            self._encoded = encode(document(OPERATIONS, self._version))
        response = Response(self._encoded, headers=SAFE_HEADERS, media_type="application/json")
        await response(scope, receive, send)
