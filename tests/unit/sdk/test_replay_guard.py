"""The guard: what workflow code must not use, and everybody else may."""

# ruff: noqa: TID251, SIM115 - what is forbidden has to be tried

import asyncio
import datetime
import io
import logging
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime as imported_by_name
from pathlib import Path
from random import randint
from time import time as imported_clock
from typing import Any

import pytest
from tests.unit.sdk.engine_in_small import PocketEngine, names, new_instance, value_of

from perdure import workflow
from perdure._replay import guard
from perdure._replay.messages import TaskSuccess

guard.install()
guard.cover(sys.modules[__name__])


def calling(function: Callable[[], Any]) -> type:
    @workflow.defn
    class Calling:
        @workflow.run
        async def run(self) -> None:
            function()

    return Calling


def use_thread_pool() -> None:
    asyncio.get_running_loop().run_in_executor(None, print)


FORBIDDEN: list[tuple[str, Callable[[], Any], str]] = [
    ("time.time()", lambda: time.time(), "workflow.now()"),
    ("time.time()", lambda: imported_clock(), "workflow.now()"),
    ("time.monotonic()", lambda: time.monotonic(), "workflow.time()"),
    ("time.perf_counter()", lambda: time.perf_counter(), "workflow.time()"),
    ("time.sleep()", lambda: time.sleep(0), "await workflow.sleep()"),
    ("datetime.datetime.now()", lambda: datetime.datetime.now(), "workflow.now()"),
    ("datetime.datetime.now()", lambda: imported_by_name.now(datetime.UTC), "workflow.now()"),
    ("datetime.date.today()", lambda: datetime.datetime.today(), "workflow.now()"),
    ("datetime.date.today()", lambda: datetime.date.today(), "workflow.now()"),
    ("random.random()", lambda: random.random(), "workflow.random()"),
    ("random.randint()", lambda: randint(1, 6), "workflow.random()"),
    ("random.shuffle()", lambda: random.shuffle([1, 2]), "workflow.random()"),
    ("uuid.uuid4()", lambda: uuid.uuid4(), "workflow.uuid4()"),
    ("uuid.uuid1()", lambda: uuid.uuid1(), "workflow.uuid4()"),
    ("os.urandom()", lambda: os.urandom(4), "workflow.random()"),
    ("secrets.token_hex()", lambda: secrets.token_hex(), "workflow.random()"),
    ("builtins.open()", lambda: open(__file__), "in an activity"),
    ("builtins.open()", lambda: io.open(__file__), "in an activity"),  # noqa: UP020 - the alias
    ("builtins.open()", lambda: Path(__file__).read_text(), "in an activity"),
    ("socket.socket()", lambda: socket.socket(), "in an activity"),
    ("socket.getaddrinfo()", lambda: socket.create_connection(("localhost", 1)), "in an activity"),
    ("subprocess.Popen()", lambda: subprocess.run(["true"], check=False), "in an activity"),
    ("os.system()", lambda: os.system("true"), "in an activity"),
    ("threading.Thread.start()", lambda: threading.Thread(target=print).start(), "activity"),
    ("the event loop's run_in_executor()", use_thread_pool, "in an activity"),
]


@pytest.mark.parametrize(("shown", "function", "fix"), FORBIDDEN, ids=[f[0] for f in FORBIDDEN])
def test_the_error_names_the_line_and_the_fix(
    shown: str, function: Callable[[], Any], fix: str
) -> None:
    failure = PocketEngine(calling(function)).failed_task()

    line = function.__code__.co_firstlineno + (1 if function is use_thread_pool else 0)
    assert failure.cause.name == "NON_DETERMINISM"
    assert failure.failure.message.startswith(f"{shown} must not be used in workflow code (")
    assert f"{__file__}:{line} in" in failure.failure.message
    assert fix in failure.failure.message


@pytest.mark.parametrize(("shown", "function", "fix"), FORBIDDEN, ids=[f[0] for f in FORBIDDEN])
def test_everybody_else_may(shown: str, function: Callable[[], Any], fix: str) -> None:
    if "executor" in shown or "Thread" in shown:
        return
    try:
        opened = function()
    except OSError:
        return
    if hasattr(opened, "close"):
        opened.close()


async def test_the_event_loop_that_runs_workflows_inline_may() -> None:
    run = PocketEngine(calling(lambda: time.time()))
    before = time.time()
    run.failed_task()

    assert time.time() >= before
    assert asyncio.get_running_loop().time() > 0
    await asyncio.sleep(0)


def test_it_holds_in_signal_handlers_queries_conditions_and_init() -> None:
    @workflow.defn
    class Everywhere:
        def __init__(self) -> None:
            if self.forbidden_in == "init":
                time.time()

        forbidden_in = ""

        @workflow.signal
        def poke(self) -> None:
            time.time()

        @workflow.query
        def ask(self) -> float:
            return time.time()

        @workflow.run
        async def run(self, where: str) -> None:
            await workflow.wait_condition(lambda: where == "condition" and time.time() > 0)

    run = PocketEngine(Everywhere, "")
    run.task()
    failure = run.query("ask").failure
    assert failure is not None
    assert "time.time()" in failure.message
    run.signal("poke")
    assert run.failed_task().cause.name == "NON_DETERMINISM"

    assert PocketEngine(Everywhere, "condition").failed_task().cause.name == "NON_DETERMINISM"

    Everywhere.forbidden_in = "init"
    assert PocketEngine(Everywhere, "").failed_task().cause.name == "NON_DETERMINISM"


def test_the_workflows_own_clock_and_randomness_pass() -> None:
    @workflow.defn
    class Proper:
        @workflow.run
        async def run(self) -> None:
            workflow.now()
            workflow.time()
            workflow.uuid4()
            workflow.random().shuffle([1, 2, 3])
            datetime.datetime(2020, 1, 1).isoformat()
            datetime.datetime.fromtimestamp(workflow.time(), datetime.UTC)
            time.strftime("%Y", time.gmtime(workflow.time()))
            random.Random(7).random()

    assert names(PocketEngine(Proper).task()) == ["CompleteWorkflow None"]


def test_logging_and_imports_pass(caplog: pytest.LogCaptureFixture) -> None:
    @workflow.defn
    class Talking:
        @workflow.run
        async def run(self) -> None:
            logging.getLogger("mine").warning("hello")
            workflow.logger.warning("hello too")
            sys.modules.pop("this_is_no_module", None)
            import colorsys  # opens a file

            colorsys.rgb_to_hsv(0, 0, 0)

    sys.modules.pop("colorsys", None)
    assert names(PocketEngine(Talking).task()) == ["CompleteWorkflow None"]
    assert "hello" in caplog.text


def test_a_run_may_be_made_without_it() -> None:
    cls = calling(lambda: time.time())
    run = PocketEngine(cls)
    run.instance = new_instance(cls, guarded=False)

    assert isinstance(run.run_task(), TaskSuccess)


def test_a_block_may_be_made_without_it() -> None:
    @workflow.defn
    class Knowing:
        @workflow.run
        async def run(self) -> bool:
            with workflow.unsafe.sandbox_unrestricted(), workflow.unsafe.imports_passed_through():
                return time.time() > 0

    (command,) = PocketEngine(Knowing).task()
    assert value_of(command.result) is True  # type: ignore[attr-defined]


def test_installing_twice_wraps_once() -> None:
    wrapped = time.time
    guard.install()

    assert time.time is wrapped
    assert not hasattr(wrapped.__wrapped__, "__wrapped__")  # type: ignore[attr-defined]
