"""CancelledError in the thread of a sync activity: where it is raised, and where it never is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from perdure._thread_cancel import ThreadCancel
from perdure.errors import CancelledError

PATIENCE_S = 20


def run(cancel: ThreadCancel, function: Callable[[], Any], ask: Callable[[], None]) -> Any:
    """What the function comes to in a thread, while `ask` runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(cancel.call, function, ())
        ask()
        try:
            return running.result(PATIENCE_S)
        finally:
            # The thread is fit for whatever comes next.
            assert pool.submit(sum, range(10_000)).result(PATIENCE_S) == sum(range(10_000))


def test_it_is_raised_wherever_the_code_is() -> None:
    cancel, begun = ThreadCancel(), threading.Event()
    cleaned: list[bool] = []

    def spin() -> None:
        try:
            while True:
                begun.set()
        finally:
            cleaned.append(True)

    def ask() -> None:
        begun.wait(PATIENCE_S)
        cancel.request()

    with pytest.raises(CancelledError):
        run(cancel, spin, ask)
    assert cleaned == [True]


def test_a_request_before_the_call_is_heard_at_its_beginning() -> None:
    cancel = ThreadCancel()
    cancel.request()
    ran: list[bool] = []

    with pytest.raises(CancelledError):
        run(cancel, lambda: ran.append(True), lambda: None)
    assert ran == []


def test_it_is_raised_once() -> None:
    cancel, begun, again = ThreadCancel(), threading.Event(), threading.Event()

    def spin() -> str:
        try:
            while True:
                begun.set()
        except CancelledError:
            again.wait(PATIENCE_S)
            for _ in range(10_000):
                threading.get_ident()
        return "cleaned up"

    def ask() -> None:
        begun.wait(PATIENCE_S)
        cancel.request()
        cancel.request()
        again.set()

    assert run(cancel, spin, ask) == "cleaned up"


def test_after_the_call_nothing_is_raised() -> None:
    cancel = ThreadCancel()

    assert run(cancel, lambda: 7, lambda: None) == 7
    cancel.request()


def test_a_shield_lets_its_block_end() -> None:
    cancel, begun, asked = ThreadCancel(), threading.Event(), threading.Event()
    steps: list[str] = []

    def work() -> None:
        with cancel.shield(), cancel.shield():
            begun.set()
            asked.wait(PATIENCE_S)
            steps.append("inside")
        steps.append("after")

    def ask() -> None:
        begun.wait(PATIENCE_S)
        cancel.request()
        asked.set()

    with pytest.raises(CancelledError):
        run(cancel, work, ask)
    assert steps == ["inside"]


def test_a_shield_that_nobody_needs_changes_nothing() -> None:
    cancel = ThreadCancel()

    def work() -> int:
        with cancel.shield():
            return 7

    assert run(cancel, work, lambda: None) == 7
