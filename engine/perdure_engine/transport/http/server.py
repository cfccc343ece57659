"""The HTTP server: health, figures, the API, and a page that says what this is. Runs in the engine's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection, Iterator, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from perdure_engine.ports.metrics import Metrics
from perdure_engine.transport.http.connections import Connection
from perdure_engine.transport.http.guard import Guard
from perdure_engine.transport.http.metrics import MetricsPage
from perdure_engine.transport.http.rest.problems import Refused, problem_response

GRACE_S = 1  # the doors of gRPC are closed by then, and with them whatever waits has ended
CONNECTIONS_MAX = 1_000  # at a time; beyond it the answer is 503 (reliability §4, B44)


def application(
    ready: Callable[[], bool],
    about: Callable[[], str],
    metrics: Metrics | None = None,
    rest: Sequence[BaseRoute] = (),
    hosts: Collection[str] = (),
) -> ASGIApp:
    """`/health/live`: the loop turns. `/health/ready`: calls are welcome. `/metrics`: the figures.
    `/`: a text for people. `rest`: the API's routes. `hosts`: the names it answers to; empty: any."""

    async def show_about(_request: Request) -> Response:
        return PlainTextResponse(about())

    async def show_live(_request: Request) -> Response:
        return PlainTextResponse("live\n")

    async def show_ready(_request: Request) -> Response:
        if ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", status_code=503)

    app = Starlette(
        routes=[
            *rest,
            Route("/", show_about),
            Route("/health/live", show_live),
            Route("/health/ready", show_ready),
            Route("/metrics", MetricsPage(metrics or Metrics()).show),
        ],
        exception_handlers={HTTPException: _show_problem},
    )
    app.router.redirect_slashes = False  # a path has one form
    return Guard(app, hosts)


async def _show_problem(_request: Request, error: Exception) -> Response:
    """Of a path that is none, and of a method that a path does not have."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        detail, headers = "this path has other methods", dict(error.headers or {})
        return problem_response(Refused(405, "NO_SUCH_METHOD", detail, headers=headers))
    return problem_response(Refused(404, "NO_SUCH_PATH", "there is nothing at this path"))


class HttpServer:
    """Serves an application on one address. Start once; stop waits; stopping twice is fine."""

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        """Port 0 takes a free one, which `port` tells after `start`."""
        self.port = port
        self._host = host
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nothing here asks who calls
            http=Connection,
            ws="none",
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be bound."""
        assert self._task is None, "start once"
        listener = _bind(self._host, self.port)
        self.port = listener.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._server.serve([listener]), name="http")
        listening = loop.create_task(self._server.listening.wait())
        await asyncio.wait({self._task, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._task.done():
            listener.close()
            await self._task

    async def stop(self) -> None:
        if self._task is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._task})


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process has its own; and it tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def _bind(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener
