"""A fake engine for each test, and a client connected to it."""

from collections.abc import AsyncIterator

import pytest
from tests.integration.sdk.fake_engine import FakeEngine

from perdure.client import Client


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = FakeEngine()
    await engine.start()
    yield engine
    await engine.kill()


@pytest.fixture
async def client(engine: FakeEngine) -> AsyncIterator[Client]:
    async with await Client.connect(engine.address, identity="a test") as client:
        yield client
