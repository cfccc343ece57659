"""What `workflow.start_child_workflow` returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    overload,
)

from perdure._replay.machines.child import ChildMachine
from perdure._replay.request_future import WorkHandle

_S = TypeVar("_S")
_A = TypeVar("_A")
_R = TypeVar("_R")
_P = ParamSpec("_P")
NO_ARGUMENT: Any = object()
"""Tells "no argument" from the argument None."""


class ChildWorkflowHandle(WorkHandle[_R, ChildMachine], Generic[_S, _R]):
    """A child workflow that was started: await it for its result, as often as you like.

    Awaiting raises ChildWorkflowError when the child did not succeed. `cancel` asks it to stop, as its cancellation
    type says: the handle then ends as ChildWorkflowError with a CancelledError as its cause. So it does when the run,
    or the task that awaits it, is cancelled meanwhile, but for what asyncio itself begins: see ActivityHandle. Hashes
    by order, like tasks.
    """

    __slots__ = ()

    @property
    def id(self) -> str:
        """The child's workflow id."""
        return self._machine.workflow_id

    @property
    def first_execution_run_id(self) -> str | None:
        """Of the run that was started; others may follow it. None: it has not been started."""
        return self._machine.run_id or None

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
