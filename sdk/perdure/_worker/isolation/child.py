"""One process for one task, as its worker hears and watches it, on a thread of its own.

The thread waits for what the process says, and looks at it in between: has it ended, has it fallen
silent, has it taken more than it may? The end of the pipe alone would not do: what the task itself
has started may keep it open.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

import msgspec

from perdure._worker.isolation import bootstrap, messages
from perdure._worker.isolation.messages import Checkpoint, Done, Down, Handed, Interrupted, Said, Up
from perdure._worker.isolation.program import Order
from perdure._worker.isolation.room import run_alone
from perdure._worker.isolation.stacks import Stacks
from perdure._worker.isolation.vitals import SAMPLE_AFTER_S, Limits, Vitals, usage_of
from perdure._worker.recipe import Recipe

logger = logging.getLogger(__name__)

# From the start to where the worker is entered. Long for a program, short for the task that waits for it.
READY_TIMEOUT_S = 30.0
# As the engine with a worker that does not heartbeat: a process that says nothing for this long is
# taken for dead. It says something twice a second, whatever its event loop does.
SILENT_S_MAX = 10.0
# For what the program does at its exit, once its task has ended.
EXIT_TIMEOUT_S = 10.0
_LOOK_AFTER_S = 0.5
# If we were away ourselves (suspended, starved) for longer than this, its silence says nothing.
_OWN_GAP_S_MAX = 2.0
_STACKS_TIMEOUT_S = 0.5
_STACKS_AFTER_S_MAX = 60.0
_STEPS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How it ended, and what was seen of it until then."""

    exit_code: int
    """Negative: minus the signal."""
    killed_for: str
    """In words, when it was its worker who killed it."""
    ran_s: float
    way: str
    """That it was started by."""
    vitals: Vitals
    stacks: str
    steps: list[tuple[float, str]]

    @property
    def message(self) -> str:
        if self.killed_for:
            return f"killed: {self.killed_for}"
        if self.exit_code >= 0:
            return f"exit code {self.exit_code}"
        number = -self.exit_code
        try:
            return f"killed by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            return f"killed by signal {number}"


class Process(Protocol):
    """As those of `multiprocessing`."""

    @property
    def pid(self) -> int | None: ...

    @property
    def exitcode(self) -> int | None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


Starter = Callable[[Order], tuple[Process, Connection]]


def spawned(recipe: Recipe) -> Starter:
    """A process that imports what the recipe names."""

    def start(order: Order) -> tuple[Process, Connection]:
        context = multiprocessing.get_context("spawn")
        ours, its = context.Pipe()
        process = context.Process(
            target=run_alone, args=(its, recipe, order), name=bootstrap.PROCESS_NAME, daemon=False
        )
        with its:
            try:
                process.start()
            except BaseException:
                ours.close()
                raise
        return process, ours

    return start


class Child:
    """Made on the event loop, started once from the thread that starts processes. `send`, `kill`
    and `end_within` from any thread."""

    def __init__(self, heard: Callable[[Up], None], limits: Limits | None) -> None:
        """`heard`: called on the event loop, with what its worker has to answer."""
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[bool] = self._loop.create_future()
        """False: it ended first."""
        self.ended: asyncio.Future[Seen] = self._loop.create_future()
        self._heard = heard
        self._vitals = Vitals(limits)
        self._look_after_s = _LOOK_AFTER_S if limits is None else SAMPLE_AFTER_S
        self._steps: deque[tuple[float, str]] = deque(maxlen=_STEPS_MAX)
        self._sending = threading.Lock()
        self._killing = threading.Lock()
        self._is_over = False
        self._killed_for = ""
        self._deadline_s = float("inf")
        self._is_ready = False
        self._is_closed = False
        self._process: Process
        self._connection: Connection
        self._thread = threading.Thread(target=self._watch, name="perdure-child", daemon=True)

    # --- of its worker ----------------------------------------------------------------------------

    def start(self, way: str, starter: Starter) -> None:
        """Raises whatever keeps it from being started."""
        self._way = way
        self._stacks = Stacks()
        try:
            order = Order(
                worker_pid=os.getpid(),
                stacks_path=self._stacks.path,
                is_traced=self._vitals.limits is not None,
            )
            self._process, self._connection = starter(order)
        except BaseException:
            self._stacks.close()
            raise
        now_s = time.monotonic()
        self._started_s = self._heard_s = self._turned_s = self._looked_s = now_s
        self._stacks_at_s, self._stacks_after_s = now_s + 1.0, 1.0
        self._deadline_s = now_s + READY_TIMEOUT_S
        _living.add(self)
        try:
            self._thread.start()
        except RuntimeError:  # there are too many
            self._end(None)
            raise

    def send(self, message: Down) -> None:
        """What does not arrive any more does not matter: then it has ended."""
        data = messages.encode(message)
        with contextlib.suppress(OSError), self._sending:
            self._connection.send_bytes(data)

    def end_within(self, limit_s: float) -> None:
        """It is to end by itself, and is killed if it does not."""
        self._deadline_s = min(self._deadline_s, time.monotonic() + limit_s)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """And what it has started. Killing twice is fine."""
        with self._killing:
            if self._is_over:  # its number may be another's by now
                return
            pid = self._process.pid
            assert pid is not None
            try:
                os.killpg(pid, number)
            except (ProcessLookupError, PermissionError):  # it has no group of its own yet
                self._process.kill()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    # --- its thread -------------------------------------------------------------------------------

    def _watch(self) -> None:
        code: int | None = None
        try:
            while code is None:
                self._turn()
                code = self._process.exitcode
            while not self._is_closed and self._connection.poll(0):
                self._receive()
        except Exception:  # a defect of ours: its task must not wait for ever
            logger.exception("a process of a task cannot be watched any more")
        finally:
            self._end(code)

    def _turn(self) -> None:
        if self._is_closed:
            self._process.join(self._look_after_s)
        elif self._connection.poll(self._look_after_s):
            self._receive()
        now_s = time.monotonic()
        if now_s - self._turned_s > _OWN_GAP_S_MAX:
            self._heard_s = now_s
        self._turned_s = now_s
        if now_s >= self._deadline_s:
            if not self._is_ready:
                self._killed_for = f"it was not ready within {READY_TIMEOUT_S:g} s"
            self.kill()
        elif now_s - self._looked_s >= self._look_after_s:
            self._looked_s = now_s
            self._look(now_s)

    def _receive(self) -> None:
        try:
            message = messages.decode_up(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._is_closed = True
            self.end_within(EXIT_TIMEOUT_S)
            return
        except msgspec.MsgspecError as error:
            self._kill_for(f"what it said made no sense ({error})")
            return
        self._heard_s = time.monotonic()
        match message:
            case messages.Alive():
                pass
            case messages.Step():
                self._steps.append((self._heard_s - self._started_s, message.text))
            case messages.Ready():
                self._is_ready = True
                self._deadline_s = float("inf")
                self._tell(_resolve, self.ready, True)
            case Handed() | Said() | Checkpoint() | Done() | Interrupted():
                self._tell(self._heard, message)

    def _look(self, now_s: float) -> None:
        if not self._is_ready or self._is_closed:
            return
        if now_s - self._heard_s > SILENT_S_MAX:
            self._kill_for(f"it said nothing for {SILENT_S_MAX:g} s, not even that it lives")
            return
        if self._vitals.limits is None:
            return
        pid = self._process.pid
        assert pid is not None
        usage = usage_of(pid)
        if usage is None:
            return
        too_much = self._vitals.take(usage, now_s - self._started_s)
        if too_much is not None:
            self._kill_for(too_much)
        elif now_s >= self._stacks_at_s:
            self._stacks.ask(pid)
            self._stacks_after_s = min(_STACKS_AFTER_S_MAX, self._stacks_after_s * 2)
            self._stacks_at_s = now_s + self._stacks_after_s

    def _kill_for(self, why: str) -> None:
        """After a last look at its stacks, if it is there to show them."""
        pid = self._process.pid
        assert pid is not None
        if not self._killed_for:
            self._killed_for = why
            self._stacks.ask(pid)
            give_up_at_s = time.monotonic() + _STACKS_TIMEOUT_S
            while not self._stacks.is_there and time.monotonic() < give_up_at_s:
                self._process.join(_STACKS_TIMEOUT_S / 20)
        self.kill()

    def _end(self, code: int | None) -> None:
        # What it has started must not outlive it: neither a pool that its program has made, nor, if
        # it crashed, what the task did.
        self.kill(signal.SIGTERM if code == 0 else signal.SIGKILL)
        with self._killing:
            self._is_over = code is not None
        while code is None:
            self._process.join(_LOOK_AFTER_S)
            code = self._process.exitcode
        with self._killing:
            self._is_over = True
        seen = Seen(
            exit_code=code,
            killed_for=self._killed_for,
            ran_s=time.monotonic() - self._started_s,
            way=self._way,
            vitals=self._vitals,
            stacks=self._stacks.last(),
            steps=list(self._steps),
        )
        self._stacks.close()
        self._process.close()
        with self._sending:
            self._connection.close()
        _living.discard(self)
        self._tell(_resolve, self.ready, False)
        self._tell(_resolve, self.ended, seen)

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
            self._loop.call_soon_threadsafe(callback, *args)


def _resolve(future: asyncio.Future[object], value: object) -> None:
    if not future.done():
        future.set_result(value)


_living: set[Child] = set()


@atexit.register
def _kill_all() -> None:
    """A worker that was not stopped leaves nothing behind; multiprocessing would wait for them."""
    for child in list(_living):
        child.kill()
