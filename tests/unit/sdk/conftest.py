"""What every test of the SDK's parts needs."""

from collections.abc import Iterator

import pytest
from tests.unit.sdk.engine_in_small import in_memory


@pytest.fixture(autouse=True)
def _no_run_stays_in_memory() -> Iterator[None]:
    yield
    for instance in in_memory:
        instance.evict()
    in_memory.clear()
