"""The API in process: real requests through the whole application, over a frontend whose ports are fakes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.unit.frontend.fakes import Room

from perdure_engine.ports.metrics import Metrics
from perdure_engine.transport.http.rest.api import routes
from perdure_engine.transport.http.server import application

HOST = "localhost:8233"


class Api:
    """A client and what stands behind it."""

    def __init__(self, room: Room, metrics: Metrics, http: httpx.AsyncClient) -> None:
        self.room = room
        self.history = room.history
        self.store = room.store
        self.metrics = metrics
        self.http = http

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.http.get(path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        return await self.http.post(path, **options)

    async def post_raw(self, path: str, body: bytes, **headers: str) -> httpx.Response:
        told = {"content-type": "application/json", **headers}
        return await self.http.post(path, content=body, headers=told)

    @property
    def intent(self) -> Any:
        """The last one that came to history."""
        return self.history.submitted[-1][1]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_over(Room()) as api:
        yield api


@asynccontextmanager
async def api_over(room: Room) -> AsyncIterator[Api]:
    metrics = Metrics()
    app = application(
        lambda: True,
        lambda: "perdure\n",
        metrics,
        routes(room.frontend, metrics),
        ("localhost", "[::1]"),
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as http:
        yield Api(room, metrics, http)
