"""The HTTP server: health, and a page that says what this is. Runs in the engine's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from perdure_engine.ports.metrics import Metrics
from perdure_engine.transport.http.metrics import MetricsPage

GRACE_S = 1  # every answer is a line of text


def application(
    ready: Callable[[], bool], about: Callable[[], str], metrics: Metrics | None = None
) -> Starlette:
    """`/health/live`: the loop turns. `/health/ready`: calls are welcome. `/metrics`: the figures.
    `/`: a text for people."""

    async def show_about(_request: Request) -> Response:
        return PlainTextResponse(about())

    async def show_live(_request: Request) -> Response:
        return PlainTextResponse("live\n")

    async def show_ready(_request: Request) -> Response:
        if ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", status_code=503)

    return Starlette(
        routes=[
            Route("/", show_about),
            Route("/health/live", show_live),
            Route("/health/ready", show_ready),
            Route("/metrics", MetricsPage(metrics or Metrics()).show),
        ]
    )


class HttpServer:
    """Serves an application on one address. Start once; stop waits; stopping twice is fine."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        """Port 0 takes a free one, which `port` tells after `start`."""
        self.port = port
        self._host = host
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
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
