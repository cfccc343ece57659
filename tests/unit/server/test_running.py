"""Signals: they end a start, they end a node."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import cast

import pytest

from perdure_engine.server import running
from perdure_engine.server.node import Node


class FakeNode:
    def __init__(self) -> None:
        self.stops = 0

    async def stop(self) -> None:
        self.stops += 1


@pytest.mark.parametrize("number", running.SIGNALS)
async def test_a_signal_stops_the_node(number: signal.Signals) -> None:
    fake = FakeNode()

    async def start() -> Node:
        return cast("Node", fake)

    await running.serve(start, lambda _node: os.kill(os.getpid(), number))

    assert fake.stops == 1


@pytest.mark.parametrize("number", running.SIGNALS)
async def test_a_signal_during_the_start_ends_the_start(number: signal.Signals) -> None:
    undone: list[str] = []

    async def start() -> Node:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            undone.append("start")
        raise AssertionError("unreachable")

    await running.serve(start, lambda _node: pytest.fail("it was never ready"))

    assert undone == ["start"]


def test_what_the_start_raises_comes_through_and_the_handlers_are_gone() -> None:
    before = [signal.getsignal(number) for number in running.SIGNALS]

    async def start() -> Node:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        running.run(running.serve(start, lambda _node: pytest.fail("it was never ready")))

    assert [signal.getsignal(number) for number in running.SIGNALS] == before


def test_the_loop_is_uvloops_where_it_is_installed() -> None:
    async def which() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert running.run(which()).partition(".")[0] == "uvloop"
