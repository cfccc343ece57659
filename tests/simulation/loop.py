"""A deterministic event loop: virtual time, a seeded order of whatever is ready, no I/O.

The same seed gives the same run: same order, same times, same `trace_hash`, whatever PYTHONHASHSEED
is. Two runs whose hashes differ have let something real in (a clock, a thread, a set's order).

- Time stands still while anything is ready, then jumps to the next timer.
- All that is ready runs once, in an order drawn from the seed, before anything it makes ready.
- Nothing ready and no timer set is a `Deadlock`: somebody waits for what nobody will do.

Code runs on behalf of a *node*: the `NODE` context variable, which tasks and callbacks inherit from
whoever made them (as asyncio does with every context). A node can be frozen (SIGSTOP: its timers
come late, the world goes on), thawed, and killed (kill -9: none of its code runs again, not even a
`finally`).
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import heapq
import random
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

NODE: contextvars.ContextVar[str] = contextvars.ContextVar("NODE", default="")
"""On whose behalf the running code runs; "" is the world: the network, the database, the test."""

TASKS_SHOWN_MAX = 20


class Deadlock(AssertionError):
    """Nothing is ready, no timer is set, and the run is not over."""


class Interrupted(AssertionError):
    """An exception nobody handled reached the loop. In a simulation that is a failure."""


class SimulatedLoop(BaseEventLoop):
    """See the module. `keep_trace` keeps the steps as text, to find where two runs part."""

    # Private to asyncio, and so not in its type stubs; the same from Python 3.11 to 3.14.
    _ready: deque[asyncio.Handle]
    _scheduled: list[Any]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, seed: int, *, start: float = 1_000.0, keep_trace: bool = False) -> None:
        super().__init__()
        self.seed = seed
        self.steps = 0
        self.trace: list[str] | None = [] if keep_trace else None
        self.errors: list[BaseException] = []
        self._now = start
        self._random = random.Random(seed)
        self._trace = hashlib.blake2b(digest_size=16)
        self._tasks_made = 0
        self._node_tasks: dict[str, list[asyncio.Task[Any]]] = {}
        self._frozen: dict[str, list[asyncio.Handle]] = {}
        self._killed: set[str] = set()
        self.set_exception_handler(self._note_error)

    @property
    def trace_hash(self) -> str:
        return self._trace.hexdigest()

    def time(self) -> float:
        return self._now

    # ---- nodes

    def spawn(
        self, node: str, coroutine: Coroutine[Any, Any, T], name: str | None = None
    ) -> asyncio.Task[T]:
        """Run a coroutine, and everything it starts, on behalf of a node."""
        context = contextvars.copy_context()
        context.run(NODE.set, node)
        return self.create_task(coroutine, name=name, context=context)

    def freeze(self, node: str) -> None:
        self._frozen.setdefault(node, [])

    def thaw(self, node: str) -> None:
        """All that the node missed is ready now."""
        self._ready.extend(self._frozen.pop(node, []))

    def kill(self, node: str) -> None:
        """No code of the node runs again. A restarted process is a node of another name."""
        self._killed.add(node)
        self._frozen.pop(node, None)

    # ---- the loop

    def create_task(  # type: ignore[override]  # any coroutine, any task: nobody reads the generics
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Any]:
        """Tasks get names that are the same in each run; asyncio counts for the whole process."""
        self._tasks_made += 1
        if name is None:
            name = f"{self._tasks_made}:{getattr(coro, '__qualname__', type(coro).__name__)}"
        task = super().create_task(coro, name=name, context=context, **options)
        node = NODE.get() if context is None else context.get(NODE, "")
        tasks = self._node_tasks.setdefault(node, [])
        tasks.append(task)
        if self._tasks_made % 1_000 == 0:
            self._node_tasks[node] = [task for task in tasks if not task.done()]
        return task

    def _run_once(self) -> None:
        if not self._ready:
            self._jump()
        while self._scheduled and self._scheduled[0]._when <= self._now:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(timer)
        batch: list[Any] = list(self._ready)
        self._ready.clear()
        self._random.shuffle(batch)
        for handle in batch:
            if not handle._cancelled:
                self._run_handle(handle)
        if self.errors:
            raise Interrupted(f"seed {self.seed}: {self.errors[0]!r}") from self.errors[0]

    def _jump(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(self._scheduled)._scheduled = False
        if self._stopping:
            return
        if not self._scheduled:
            raise Deadlock(f"seed {self.seed}, {self._now:.3f} s: {self._who_waits()}")
        self._now = max(self._now, self._scheduled[0]._when)

    def _run_handle(self, handle: Any) -> None:
        node = handle._context.get(NODE, "")
        if node in self._killed:
            return
        if node in self._frozen:
            self._frozen[node].append(handle)
            return
        self.steps += 1
        step = f"{self._now:.6f} {node} {describe(handle._callback)}"
        self._trace.update(step.encode())
        if self.trace is not None:
            self.trace.append(step)
        handle._run()

    def _who_waits(self) -> str:
        waiting = [
            f"{node}/{task.get_name()}"
            for node, tasks in self._node_tasks.items()
            for task in tasks
            if not task.done() and node not in self._killed
        ]
        shown = ", ".join(waiting[:TASKS_SHOWN_MAX])
        return f"nothing is ready and no timer is set; {len(waiting)} tasks wait: {shown}"

    def _note_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            error = RuntimeError(context["message"])
        self.errors.append(error)

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        assert not isinstance(future, asyncio.Future), "give a coroutine: its name is in the trace"
        return super().run_until_complete(future)

    def close(self) -> None:
        """Throw away what is left; nobody looks any more at what its `finally` blocks do."""
        self._killed.update(self._node_tasks)
        for task in [task for tasks in self._node_tasks.values() for task in tasks]:
            if not task.done():
                discard(task)
        self._node_tasks.clear()
        super().close()

    # ---- what would let the real world in

    def run_in_executor(self, *_: Any) -> Any:  # type: ignore[override]  # it never returns
        raise AssertionError("no threads in a simulation")

    def _process_events(self, event_list: Any) -> None:
        raise AssertionError("no I/O in a simulation")

    def _write_to_self(self) -> None:
        pass


def discard(task: asyncio.Task[Any]) -> None:
    """End a task's coroutine without the loop, and let nobody log that it was pending."""
    private: Any = task
    private._log_destroy_pending = False
    try:
        private.get_coro().close()
    except BaseException:
        # An `await` in a `finally`, or an error on the way out: nobody is left to care.
        return


def describe(callback: Any) -> str:
    """A callback's name, the same in each run: no addresses."""
    while isinstance(callback, partial):
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return getattr(callback, "__qualname__", type(callback).__name__)


def simulate(
    main: Callable[[SimulatedLoop], Coroutine[Any, Any, T]], seed: int = 0, **options: Any
) -> T:
    """Run `main(loop)` to its end on a fresh loop, which is closed afterwards."""
    loop = SimulatedLoop(seed, **options)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.close()
