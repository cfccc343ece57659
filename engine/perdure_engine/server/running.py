"""From the start of a node to the signal that ends it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from importlib.metadata import version
from typing import Any, TypeVar

import structlog

from perdure_engine.server.node import Node

log = structlog.get_logger(__name__)

T = TypeVar("T")

# The newest gRPC with which its earlier poller was tried. One that has it no more would complain on stderr.
GRPC_TRIED = (1, 85)
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where it is installed."""
    _tune_collector()
    _tune_grpc()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _tune_collector() -> None:
    """A node keeps thousands of runs in memory that form no cycles (their structs say gc=False).

    With the defaults the collector walks all of them again and again: 20 % of the engine's time under W1.
    What 256 workflows in flight make for a moment must stay below the first threshold, or it is walked for nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)


def _tune_grpc() -> None:
    """gRPC's event engine hands each message from thread to thread three times, the poller before it once: half of
    what a message of a stream costs. What the environment says already stays.
    """
    major, minor = version("grpcio").split(".")[:2]
    if (int(major), int(minor)) <= GRPC_TRIED:
        os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")


async def serve(
    start: Callable[[], Coroutine[Any, Any, Node]], when_ready: Callable[[Node], None]
) -> None:
    """Start a node, and stop it when SIGINT or SIGTERM comes. Raises what `start` raises.

    A signal during the start ends the start; a second one ends the process at once.
    """
    asked = asyncio.Event()
    with _signals(asked):
        stop_asked = asyncio.ensure_future(asked.wait())
        starting = asyncio.ensure_future(start())
        await asyncio.wait({stop_asked, starting}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
        if starting.cancelled():
            return
        node = starting.result()
        when_ready(node)
        await stop_asked
        log.info("node_stops")
        await node.stop()
        log.info("node_stopped")


@contextlib.contextmanager
def _signals(asked: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def receive(number: int) -> None:
        if asked.is_set():
            # Nothing is lost by it: this is what a kill does, and the engine is made for kills.
            os._exit(128 + number)
        asked.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, receive, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
