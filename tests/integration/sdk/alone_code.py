"""What the tests of tasks that run alone run: named by a module, so that "spawn" finds it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure import activity, workflow
from perdure.common import RetryPolicy

SHORT = timedelta(seconds=10)


def say(place: str, pid: int) -> None:
    """Returns when somebody reads it."""
    Path(place).write_text(str(pid))


@workflow.defn
class CallOne:
    """Runs the activity of that name."""

    @workflow.run
    async def run(self, name: str, arg: object, attempts: int = 1) -> object:
        policy = RetryPolicy(maximum_attempts=attempts)
        return await workflow.execute_activity(
            name, arg, start_to_close_timeout=SHORT, retry_policy=policy
        )


@activity.defn
async def where_async(marks: str) -> dict[str, object]:
    info = activity.info()
    return {"pid": os.getpid(), "crashes": info.crashes, "before": list(info.heartbeat_details)}


@activity.defn
def where_sync(marks: str) -> int:
    assert threading.current_thread() is not threading.main_thread()
    return os.getpid()


@activity.defn
async def fail(message: str) -> None:
    activity.heartbeat("so far")
    raise ValueError(f"{message} in {os.getpid()}")


@activity.defn
async def die(how: str) -> str:
    """In the ways that code can end its process; others return."""
    activity.heartbeat("about to")
    match how:
        case "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        case "SIGSEGV":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "os._exit":
            os._exit(3)
        case _:
            return how
    await asyncio.Event().wait()
    raise AssertionError


@activity.defn
def die_in_thread(how: str) -> None:
    if how == "os._exit":
        os._exit(3)
    ctypes.string_at(0)


@activity.defn
async def call_exit(code: int) -> None:
    sys.exit(code)


@activity.defn
def call_exit_in_thread(code: int) -> None:
    sys.exit(code)


@activity.defn
def eat_memory(mebibytes: int) -> None:
    eaten = []
    for _ in range(mebibytes // 8):
        eaten.append(bytearray(os.urandom(1024) * 8192))
        threading.Event().wait(0.005)
    threading.Event().wait(60)


@activity.defn
def spin(unused: object) -> None:
    while True:
        pass


@activity.defn
async def report(path: str) -> str:
    """Says everything that an attempt can say, and waits for what it can be told."""
    activity.heartbeat("first")
    await activity.checkpoint("saved")
    say(path, os.getpid())
    with contextlib.suppress(asyncio.CancelledError):
        await activity.wait_for_cancelled()
    details = activity.cancellation_details()
    assert details is not None
    if details.cancel_requested:
        raise asyncio.CancelledError
    return f"paused {details.paused}, lost {details.not_found}, gone {details.worker_shutdown}"


@activity.defn(no_thread_cancel_exception=True)
def beat(unused: object) -> None:
    """Faster than anybody could listen."""
    number = 0
    while not activity.wait_for_cancelled_sync(0.001):
        number += 1
        activity.heartbeat("beat", number)


@activity.defn(no_thread_cancel_exception=True)
def report_in_thread(path: str) -> str:
    activity.checkpoint_sync("saved")
    say(path, os.getpid())
    activity.wait_for_cancelled_sync(20)
    return f"cancelled {activity.is_cancelled()}"


@activity.defn
async def stubborn(path: str) -> None:
    say(path, os.getpid())
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@activity.defn
def with_a_process_of_its_own(path: str) -> None:
    """Which holds the pipe open, and outlives it unless it is ended with it."""
    grandchild = subprocess.Popen(["sleep", "600"], close_fds=False)
    say(path, grandchild.pid)
    os.kill(os.getpid(), signal.SIGKILL)


@activity.defn
async def wait_for_ever(unused: object) -> None:
    await asyncio.Event().wait()


@activity.defn
def leave_a_process_behind(unused: object) -> int:
    return subprocess.Popen(["sleep", "600"]).pid


@activity.defn
async def leave_it_to_others(unused: object) -> None:
    activity.heartbeat("handed over")
    activity.raise_complete_async()


@activity.defn
def freeze(unused: object) -> None:
    """Nothing of it runs any more, as when code holds the interpreter's lock for ever."""
    os.kill(os.getpid(), signal.SIGSTOP)


@activity.defn
async def local_pid(what: str) -> int:
    return os.getpid()


@workflow.defn
class Alone:
    """A run whose tasks run alone."""

    def __init__(self) -> None:
        self.got: list[str] = []

    @workflow.run
    async def run(self, wanted: int) -> list[Any]:
        pid = await workflow.execute_local_activity(local_pid, "x", start_to_close_timeout=SHORT)
        await workflow.wait_condition(lambda: len(self.got) >= wanted)
        return [pid, *self.got]

    @workflow.signal
    def add(self, one: str) -> None:
        self.got.append(one)

    @workflow.query
    def how_many(self) -> int:
        return len(self.got)

    @workflow.update
    def put(self, one: str) -> int:
        self.got.append(one)
        return len(self.got)


@workflow.defn(sandboxed=False)
class Dies:
    @workflow.run
    async def run(self, how: str) -> str:
        if how == "SIGSEGV":
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "os._exit":
            os._exit(4)
        if how == "spin":
            while True:
                pass
        if how == "block":
            threading.Event().wait(60)
        return how


ACTIVITIES: list[Callable[..., Any]] = [
    where_async,
    where_sync,
    fail,
    die,
    die_in_thread,
    call_exit,
    call_exit_in_thread,
    eat_memory,
    spin,
    report,
    beat,
    report_in_thread,
    stubborn,
    with_a_process_of_its_own,
    leave_a_process_behind,
    wait_for_ever,
    leave_it_to_others,
    freeze,
    local_pid,
]
