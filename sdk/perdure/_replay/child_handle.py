"""What `workflow.start_child_workflow` returns, and what waits for an answer from another run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from perdure._replay.callsite import frame_above
from perdure._replay.cancelled import raised_instead

if TYPE_CHECKING:
    from perdure._replay.loop import DeterministicLoop
    from perdure._replay.machines.child import ChildMachine

_S = TypeVar("_S")
_A = TypeVar("_A")
_R = TypeVar("_R")
_P = ParamSpec("_P")
NO_ARGUMENT: Any = object()
"""Tells "no argument" from the argument None."""


class Cancellable(Protocol):
    def request_cancel(self, *, by_asyncio: bool) -> bool:
        """What Future.cancel promises."""
        ...


class RequestFuture(asyncio.Future[_R]):
    """Cancelling it does not end it: it asks its machine, which knows what that means."""

    __slots__ = ("_machine",)

    def __init__(self, loop: DeterministicLoop, machine: Cancellable) -> None:
        super().__init__(loop=loop)
        self._machine = machine

    def cancel(self, msg: Any | None = None) -> bool:
        """False when it is over."""
        if self.done():
            return False
        loop = cast("DeterministicLoop", self.get_loop())
        with loop.cancelling(frame_above(1)):
            return self._machine.request_cancel(by_asyncio=bool(loop.asyncio_cancels))

    def give_up(self) -> None:
        """Ends it as asyncio's own cancellation ends a future."""
        super().cancel()

    def fail(self, error: BaseException) -> None:
        """With what only those need hear of who wait."""
        self.set_exception(error)
        self._log_traceback = False


class ChildWorkflowHandle(RequestFuture[_R], Generic[_S, _R]):
    """A child workflow that was started: await it for its result, as often as you like.

    Awaiting raises ChildWorkflowError when the child did not succeed. `cancel` asks it to stop, as its cancellation
    type says: the handle then ends as ChildWorkflowError with a CancelledError as its cause. So it does when the run,
    or the task that awaits it, is cancelled meanwhile, but for what asyncio itself begins: see ActivityHandle. Hashes
    by order, like tasks.
    """

    __slots__ = ("_order",)

    _machine: ChildMachine

    def __init__(self, loop: DeterministicLoop, machine: ChildMachine, order: int) -> None:
        super().__init__(loop, machine)
        self._order = order

    def __await__(self) -> Generator[Any, None, _R]:
        try:
            return (yield from super().__await__())
        except asyncio.CancelledError:
            error = raised_instead(self, self._machine)
            if error is None:
                raise
        raise error

    __iter__ = __await__  # as ActivityHandle's

    @property
    def id(self) -> str:
        """The child's workflow id."""
        return self._machine.workflow_id

    @property
    def first_execution_run_id(self) -> str | None:
        """Of the run that was started; others may follow it. None: it has not been started."""
        return self._machine.run_id or None

    def __hash__(self) -> int:
        return self._order

    @overload
    async def signal(self, signal: Callable[[_S], Awaitable[None] | None]) -> None: ...

    @overload
    async def signal(self, signal: Callable[[_S, _A], Awaitable[None] | None], arg: _A) -> None: ...

    @overload
    async def signal(
        self,
        signal: Callable[Concatenate[_S, _P], Awaitable[None] | None],
        *,
        args: Sequence[Any],
    ) -> None: ...

    @overload
    async def signal(
        self, signal: str, arg: Any = NO_ARGUMENT, *, args: Sequence[Any] = ()
    ) -> None: ...

    async def signal(
        self,
        signal: str | Callable[..., Any],
        arg: Any = NO_ARGUMENT,
        *,
        args: Sequence[Any] = (),
    ) -> None:
        """Returns when the child has the signal, which it sees exactly once.

        Raises ApplicationError when it has closed.
        """
        await self._machine.signal(signal, one_or_all(arg, args))


def one_or_all(arg: Any, args: Sequence[Any]) -> Sequence[Any]:
    if arg is NO_ARGUMENT:
        return args
    if args:
        raise ValueError("give one argument or args=, not both")
    return (arg,)
