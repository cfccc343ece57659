"""What workflow code needs only to know about its machinery, or to get around it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from perdure._replay.run import current_run


def is_replaying() -> bool:
    """True while what the code does has been done before. Nothing it decides may hang on it."""
    return current_run().replaying


@contextmanager
def imports_passed_through() -> Generator[None]:
    """Does nothing: there is no import sandbox. For code that comes from Temporal's SDK."""
    yield


@contextmanager
def sandbox_unrestricted() -> Generator[None]:
    """Switches the guard off for a block of plain code; do not await in it."""
    loop = current_run().loop
    before, loop.guarded = loop.guarded, False
    try:
        yield
    finally:
        loop.guarded = before
