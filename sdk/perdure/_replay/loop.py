"""The event loop that a workflow's code runs on: real asyncio tasks, no clock, no I/O, no threads.

Every run has its own loop. It turns only inside `run_until_idle`: what is ready runs in the order
in which it became ready, until nothing is ready and no wait condition has become true. Time stands
still meanwhile; a delay is a timer command, and the timer's event is what makes its callback ready.

Tasks hash by the order of their creation instead of by address, because asyncio keeps tasks in sets
(`wait`, `as_completed`, TaskGroup) and what a set's order decides must be the same on each replay.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context, copy_context
from types import FrameType
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast

from perdure._replay.callsite import call_site, frame_above
from perdure.errors import RestrictedWorkflowAccessError

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
# From 3.14 on the current task belongs to the thread, no longer to the loop.
_TASK_IS_PER_THREAD = sys.version_info >= (3, 14)
_SWAP_CURRENT_TASK: Any = getattr(asyncio.tasks, "_swap_current_task", None)
# A timer of the engine's is never shorter; also what rounding must not turn into 0.
_TIMER_MS_MIN = 1
# loop.time() is a float of seconds since 1970, good to a quarter of a µs: what is left over a whole
# millisecond by less than this is rounding, not delay.
_ROUNDING_MS = 1e-3


class Host(Protocol):
    """What the loop needs of the run it belongs to."""

    def start_timer(self, handle: TimerHandle, delay_ms: int) -> None: ...

    def cancel_timer(self, handle: TimerHandle) -> None: ...

    def check_may_act(self) -> None:
        """Raises when nothing may be begun now: in a query, or while the run is evicted."""
        ...

    def report_unhandled(self, context: dict[str, Any]) -> None: ...

    @property
    def now_us(self) -> int: ...


class Handle(asyncio.Handle):
    """asyncio's own, without the questions that it asks of the loop each time."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: DeterministicLoop,
        context: Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class TimerHandle(asyncio.TimerHandle):
    """`machine` is the timer behind it; None when the callback is ready without one."""

    __slots__ = ("machine",)

    machine: Any


class WorkflowTask(asyncio.Task[_T]):
    __slots__ = ("_order",)

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, _T],
        *,
        loop: DeterministicLoop,
        order: int,
        name: str | None,
        context: Context | None,
        **options: Any,
    ) -> None:
        self._order = order  # first: asyncio puts the new task into a set
        super().__init__(
            coroutine, loop=loop, name=name or f"task-{order}", context=context, **options
        )

    def __hash__(self) -> int:
        return self._order

    def cancel(self, msg: Any | None = None) -> bool:
        loop = cast(DeterministicLoop, self.get_loop())
        with loop.cancelling(frame_above(1)):
            waits_for = cast("asyncio.Future[Any] | None", self._fut_waiter)  # type: ignore[attr-defined]
            is_cancelled = super().cancel(msg)
            if is_cancelled and not loop.asyncio_cancels:
                loop.tell(self, waits_for)
            return is_cancelled


class DeterministicLoop(asyncio.AbstractEventLoop):
    def __init__(self, host: Host) -> None:
        self.host = host
        self.guarded = True
        self.asyncio_cancels: bool | None = None
        self._ready: list[asyncio.Handle] = []
        self._stopped = False
        # asyncio holds tasks weakly only; by order, so that eviction goes in order too.
        self._tasks: dict[int, WorkflowTask[Any]] = {}
        self._tasks_made = 0
        self._being_told: set[WorkflowTask[Any]] = set()
        self._held: list[asyncio.Handle] | None = None

    # --- turning ----------------------------------------------------------------------------------

    def run_until_idle(self, on_idle: Callable[[], None]) -> None:
        """Runs what is ready until nothing is. `on_idle` may make more ready. Call it entered."""
        while not self._stopped:
            if not self._ready:
                on_idle()
                if not self._ready:
                    return
            batch, self._ready = self._ready, []
            handle: asyncio.Handle | None = None
            for handle in batch:
                if not handle.cancelled():
                    handle._run()
                if self._stopped:
                    return
            # An exception's traceback may keep this frame; it must not keep what ran in it.
            del batch, handle

    @property
    def ready_count(self) -> int:
        return len(self._ready)

    def hold_ready(self, first: int) -> None:
        """Until `release_ready`, only the first so many of what is ready run, and what they make ready."""
        self._held = self._ready[first:]
        del self._ready[first:]

    def release_ready(self) -> None:
        held, self._held = self._held, None
        if held and not self._stopped:
            self._ready += held

    def stop(self) -> None:
        """The run is over: nothing that is ready, or becomes ready, is run any more."""
        self._stopped = True
        self._ready = []

    def enter(self) -> tuple[Any, ...]:
        """Makes this the running loop of the thread; the result is for `leave`.

        No garbage is collected meanwhile: finalizers and callbacks of others' would run on this
        loop and under its guard, at a moment that no replay repeats.
        """
        collecting = gc.isenabled()
        if collecting:
            gc.disable()
        previous = asyncio._get_running_loop()
        hooks = sys.get_asyncgen_hooks()
        task = None
        if _TASK_IS_PER_THREAD and previous is not None:
            task = _SWAP_CURRENT_TASK(previous, None)
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._finalize)
        return previous, hooks, task, collecting

    def leave(self, entered: tuple[Any, ...]) -> None:
        previous, hooks, task, collecting = entered
        sys.set_asyncgen_hooks(*hooks)
        asyncio._set_running_loop(previous)
        if task is not None:
            _SWAP_CURRENT_TASK(previous, task)
        if collecting:
            gc.enable()

    def live_tasks(self) -> list[WorkflowTask[Any]]:
        return [task for task in self._tasks.values() if not task.done()]

    def forget_tasks(self) -> None:
        self._tasks = {}
        self._being_told.clear()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(hash(task), None)

    def cancelling(self, caller: FrameType) -> _Cancelling:
        return _Cancelling(self, caller)

    def tell(self, task: WorkflowTask[Any], waits_for: asyncio.Future[Any] | None) -> None:
        """Not asyncio has cancelled the task: it is being told until its next step is over."""
        self._being_told.add(task)
        if waits_for is None:
            self.call_soon(self._being_told.discard, task)  # behind its step, which is ready
        elif self._held is not None and waits_for.done():  # behind its step, which is held back
            self._held.append(Handle(self._being_told.discard, (task,), self, None))
        else:
            # Behind what wakes the task: it has been waiting for longer.
            waits_for.add_done_callback(lambda _: self._being_told.discard(task))

    def is_told(self, task: asyncio.Task[Any] | None = None) -> bool:
        """Is the task, or else the one that runs, being told of a cancellation that is not asyncio's?"""
        if not self._being_told:
            return False
        return (task or asyncio.current_task(self)) in self._being_told

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        # Called when the last reference goes; after an eviction there is nobody left to care.
        if not self._stopped:
            self.create_task(generator.aclose())

    # --- what asyncio asks of a loop --------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        handle = TimerHandle(self.time() + delay, callback, args, self, context)
        self._schedule(handle, delay)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        handle = TimerHandle(when, callback, args, self, context)
        self._schedule(handle, when - self.time())
        return handle

    def _schedule(self, handle: TimerHandle, delay_s: float) -> None:
        handle.machine = None
        if delay_s <= 0:
            self._ready.append(handle)
            return
        # Up to the next whole millisecond: a timer may be late, never early.
        delay_ms = -int(-(delay_s * 1000 - _ROUNDING_MS) // 1)
        self.host.start_timer(handle, max(_TIMER_MS_MIN, delay_ms))

    def fire(self, handle: TimerHandle) -> None:
        """The timer has fired: its callback is ready.

        That of asyncio.sleep only wakes its task. It is called at once, so that who slept goes on
        in the order of the history, like who waited for an activity, and not one round later.
        """
        callback = handle._callback  # type: ignore[attr-defined]
        if callback is _WAKE_SLEEPER and not handle.cancelled():
            handle._run()
        else:
            self._ready.append(handle)

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        if handle.machine is not None:
            self.host.cancel_timer(handle)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, _T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> WorkflowTask[_T]:
        try:
            self.host.check_may_act()
        except BaseException:
            coro.close()  # or Python warns that it was never awaited
            raise
        task = self._make_task(coro, name, context, **options)
        task.add_done_callback(self._forget)
        return task

    def create_main(self, coro: Coroutine[Any, Any, _T], context: Context) -> WorkflowTask[_T]:
        """The task of the run method, which the run keeps itself: most have no other."""
        return self._make_task(coro, "main", context)

    def _make_task(
        self,
        coro: Coroutine[Any, Any, _T],
        name: str | None,
        context: Context | None,
        **options: Any,
    ) -> WorkflowTask[_T]:
        self._tasks_made += 1
        task = WorkflowTask(
            coro, loop=self, order=self._tasks_made, name=name, context=context, **options
        )
        self._tasks[self._tasks_made] = task
        return task

    def time(self) -> float:
        return self.host.now_us / 1e6

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.host.report_unhandled(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.host.report_unhandled(context)


BOUNDARY = DeterministicLoop.run_until_idle.__code__


class _Cancelling:
    """Notes who began a cancellation, for the activities and children at the end of the chain.

    What asyncio's own constructs begin to cancel (a timeout that is over, a task group one of whose
    tasks has failed) must look like asyncio's CancelledError, or they take it for an error of the
    code's. What the workflow's code or its client cancels ends as ActivityError with a cause, as
    users of this field know it, also where asyncio only hands it on: a task group and `wait_for`
    cancel what they hold when they are cancelled themselves, in the step in which they are told.
    Always in that step, so `is_told` need not look further.
    """

    __slots__ = ("_began", "_caller", "_loop")

    def __init__(self, loop: DeterministicLoop, caller: FrameType) -> None:
        self._loop = loop
        self._caller = caller

    def __enter__(self) -> None:
        loop, caller = self._loop, self._caller
        self._began = loop.asyncio_cancels is None
        if self._began:
            if caller.f_code is _GATHERED:  # gather's future only hands on what somebody asks of it
                caller = caller.f_back or caller
            is_asyncio = caller.f_code.co_filename.startswith(_ASYNCIO)
            loop.asyncio_cancels = is_asyncio and not loop.is_told(_on_behalf_of(caller))

    def __exit__(self, *_: object) -> None:
        if self._began:
            self._loop.asyncio_cancels = None


def _on_behalf_of(caller: FrameType) -> asyncio.Task[Any] | None:
    """The task for which asyncio cancels others; None: the one that runs, if any.

    A task group may cancel from a callback, when one of its tasks has ended with an error: that of
    the cancellation, if the task that the group is part of is being told of it.
    """
    if caller.f_code is not _ABORT:
        return None
    task: asyncio.Task[Any] | None = caller.f_locals["self"]._parent_task
    return task


_ASYNCIO = asyncio.__path__[0]
_GATHERED: Any = getattr(
    getattr(getattr(asyncio.tasks, "_GatheringFuture", None), "cancel", None), "__code__", None
)
_ABORT: Any = getattr(getattr(asyncio.TaskGroup, "_abort", None), "__code__", None)
_WAKE_SLEEPER: Any = getattr(asyncio.futures, "_set_result_unless_cancelled", None)

# One name a line would be a page: what a real loop does beyond timers and tasks.
_REFUSED = """
    add_reader add_signal_handler add_writer call_soon_threadsafe connect_accepted_socket
    connect_read_pipe connect_write_pipe create_connection create_datagram_endpoint
    create_server create_unix_connection create_unix_server getaddrinfo getnameinfo run_forever
    run_in_executor run_until_complete sendfile shutdown_default_executor sock_accept
    sock_connect sock_recv sock_recv_into sock_recvfrom sock_sendall sock_sendfile sock_sendto
    start_tls subprocess_exec subprocess_shell
"""


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(self: DeterministicLoop, *_args: Any, **_options: Any) -> Any:
        site = str(call_site(BOUNDARY) or "unknown line")
        raise RestrictedWorkflowAccessError(
            f"the event loop's {name}()", "do it in an activity", site
        )

    return refuse


for _name in _REFUSED.split():
    setattr(DeterministicLoop, _name, _refusing(_name))
