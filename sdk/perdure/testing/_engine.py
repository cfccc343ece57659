"""The engine that an environment runs, as this side sees it.

The SDK and the engine never import each other: the engine is found by the entry point `testing` of
the group `perdure.engine`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from typing import Protocol, cast

ENTRY_POINT_GROUP = "perdure.engine"
ENTRY_POINT = "testing"


class Engine(Protocol):
    """A running engine. `address` is host:port of its gRPC listener."""

    address: str
    skips_time: bool

    def now_us(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...

    def time_held(self) -> AbstractContextManager[None]: ...

    async def stop(self) -> None: ...


class Engines(Protocol):
    """What the entry point names."""

    async def start_time_skipping(self) -> Engine: ...

    async def start_local(self) -> Engine: ...


def load_engines(extra: str) -> Engines:
    """Raises RuntimeError that says what to install."""
    found = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=ENTRY_POINT)), None)
    if found is None:
        raise RuntimeError(advice(extra, "this installation of perdure names no engine"))
    try:
        return cast("Engines", found.load())
    except ModuleNotFoundError as error:
        raise RuntimeError(advice(extra, f"{error.name} is not installed")) from error


def advice(extra: str, reason: str) -> str:
    return (
        f"a test environment needs the engine ({reason}). Install it with:\n"
        f"    pip install 'perdure[{extra}]'"
    )
