"""Other workflows, as workflow code sees them: to be signaled and cancelled, not waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from perdure._replay.child_handle import NO_ARGUMENT, one_or_all
from perdure._replay.children import external_of
from perdure._replay.run import current_run

_S = TypeVar("_S")
_A = TypeVar("_A")
_P = ParamSpec("_P")


class ExternalWorkflowHandle(Generic[_S]):
    """A workflow of the type S by its id. Making one asks nobody.

    Calls go to `run_id`, or when that is None to whatever run of the id is current when they arrive.
    """

    def __init__(self, id: str, run_id: str | None) -> None:
        self._id = id
        self._run_id = run_id

    @property
    def id(self) -> str:
        return self._id

    @property
    def run_id(self) -> str | None:
        return self._run_id

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
        """Returns when the workflow has the signal, which it sees exactly once.

        Raises ApplicationError when there is no open one of that id.
        """
        external = external_of(current_run())
        await external.signal(self._id, self._run_id or "", signal, one_or_all(arg, args))

    async def cancel(self, *, reason: str | None = None) -> None:
        """Asks the workflow to cancel; returns when it has been told, not when it has ended.

        Raises ApplicationError when there is no open one of that id.
        """
        external = external_of(current_run())
        await external.request_cancel(self._id, self._run_id or "", reason or "")


def get_external_workflow_handle(
    workflow_id: str, *, run_id: str | None = None
) -> ExternalWorkflowHandle[Any]:
    """Of any workflow of this namespace. Raises ValueError for an empty id."""
    current_run()  # only workflow code has a use for it
    if not workflow_id:
        raise ValueError("a workflow id must not be empty")
    return ExternalWorkflowHandle(workflow_id, run_id)


def get_external_workflow_handle_for(
    workflow: Callable[Concatenate[_S, _P], Awaitable[Any]],
    workflow_id: str,
    *,
    run_id: str | None = None,
) -> ExternalWorkflowHandle[_S]:
    """`get_external_workflow_handle` of a known type: its signals are checked. `workflow` is its run method."""
    return get_external_workflow_handle(workflow_id, run_id=run_id)
