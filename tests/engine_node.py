"""An engine node in the test's own process, on the test's own database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from perdure_engine.server.config_layers import load
from perdure_engine.server.node import Node
from perdure_engine.server.wiring import start_node

DEFAULTS: Mapping[str, object] = {
    "grpc.port": 0,
    "http.port": 0,
    "database.allow_unsafe": True,  # the tests' server does not sync
}


@asynccontextmanager
async def running_node(
    dsn: str, settings: Mapping[str, object] | None = None
) -> AsyncIterator[Node]:
    """A node that serves at `node.address`, stopped at the end of the block.

    `settings` go by dotted name, as {"history.lease_s": 3}. The test's environment is not read.
    """
    options = {"database.url": dsn, **(settings or {})}
    node = await start_node(load(environment={}, options=options, defaults=DEFAULTS))
    try:
        yield node
    finally:
        await node.stop()
