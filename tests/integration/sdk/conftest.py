"""A fake engine for each test, and a client connected to it."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# With --import-mode=importlib a test cannot import its neighbours unless their folder is named.
sys.path.insert(0, str(Path(__file__).parent))

from fake_engine import FakeEngine

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
