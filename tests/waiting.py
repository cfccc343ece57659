"""Waiting for a condition, for tests that have real processes and so no clock to jump."""

import threading
from collections.abc import Callable

POLL_S = 0.01


def wait_until(predicate: Callable[[], object], deadline_s: float, what: str = "") -> None:
    """Returns as soon as the predicate holds; fails the test when it still does not by then."""
    expired = threading.Event()
    timer = threading.Timer(deadline_s, expired.set)
    timer.daemon = True
    timer.start()
    try:
        while not predicate():
            if expired.wait(POLL_S):
                raise AssertionError(f"not within {deadline_s} s: {what or predicate}")
    finally:
        timer.cancel()
        timer.join()
