"""What workflow code needs only to know about its machinery, or to get around it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from perdure._replay.run import current_run


def is_replaying() -> bool:
    """True while what the code does has been done before. Nothing it decides may hang on it.

    False does not say that it is for good: a workflow task may fail and be run again, and a worker
    lets code go on before the engine has taken the result that it follows from, so that a signal
    may still come first.
    """
    return current_run().replaying


def is_replaying_history_events() -> bool:
    """The same, but False while a query or a validator runs, which have not been done before."""
    run = current_run()
    return run.replaying and not run.is_read_only


def is_read_only() -> bool:
    """Does a query, a validator or a wait condition run, which must change nothing?"""
    return current_run().is_read_only


def in_sandbox() -> bool:
    """False: there is none. For code that comes from Temporal's SDK."""
    return False


def is_sandbox_unrestricted() -> bool:
    """Is the guard off, for this workflow or here?"""
    return not current_run().loop.guarded


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
