"""Sagas: what was done is undone in reverse order when the workflow does not get to its end.

    async with workflow.saga() as saga:
        saga.add(refund, order, start_to_close_timeout=LIMIT)
        await workflow.execute_activity(charge, order, start_to_close_timeout=LIMIT)

A compensation is added *before* the step that it undoes: when the step fails, is cancelled or its
worker dies, nobody knows what it has done by then. So a compensation must bear being called for a
step that came to nothing, and more than once: activities have the same idempotency key for every
attempt for that (`activity.info().idempotency_key`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVarTuple, Unpack, overload

from perdure._definitions import (
    handler_definition,
    is_activity,
    is_workflow,
    workflow_definition,
)
from perdure._replay.compensations import note_compensation
from perdure._replay.run import current_run
from perdure.common import SAGA_SIGNAL
from perdure.errors import ActivityError, ApplicationError, ChildWorkflowError
from perdure.workflow._activities import ActivityOptions, check_options, execute_activity
from perdure.workflow._context import logger
from perdure.workflow._waiting import wait_condition

_P = ParamSpec("_P")
_Ts = TypeVarTuple("_Ts")


@dataclass(frozen=True, slots=True)
class _Compensation:
    function: Callable[..., Awaitable[Any]]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """That of the activity or the child workflow, if it is one that is called."""
        subject = self.args[0] if self.args else self.function
        if not callable(subject) and not isinstance(subject, str):
            subject = self.function
        if is_workflow(subject):
            return workflow_definition(subject).name
        return subject if isinstance(subject, str) else getattr(subject, "__name__", str(subject))


class Saga:
    """Compensations in the order of their steps. Made by `workflow.saga`."""

    def __init__(self) -> None:
        self._compensations: list[_Compensation] = []
        self._word: Literal["retry", "skip"] | None = None
        self._why = ""
        self._listens = False
        self.skipped: list[str] = []
        """Names of the compensations that an operator has given up."""

    @overload
    def add(
        self,
        compensation: Callable[_P, Awaitable[Any]],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> None: ...

    @overload
    def add(
        self,
        compensation: Callable[[*_Ts], Any],
        /,
        *args: *_Ts,
        **options: Unpack[ActivityOptions],
    ) -> None: ...

    @overload
    def add(
        self,
        compensation: Callable[[Any, *_Ts], Any],
        /,
        *args: *_Ts,
        **options: Unpack[ActivityOptions],
    ) -> None: ...

    @overload
    def add(
        self,
        compensation: Callable[..., Any] | str,
        /,
        *,
        args: Sequence[Any],
        **options: Unpack[ActivityOptions],
    ) -> None: ...

    @overload
    def add(self, compensation: str, /, *args: Any, **options: Unpack[ActivityOptions]) -> None: ...

    def add(  # type: ignore[misc]  # mypy does not match *Ts with *Any
        self, compensation: Any, /, *args: Any, **kwargs: Any
    ) -> None:
        """Before the step: says what will undo it, if it comes to that.

        An activity, or an activity's name, with its arguments (or `args=[…]`) and the options of
        `workflow.execute_activity`; or any function that is called as
        `await compensation(*args, **kwargs)`, such as `workflow.execute_child_workflow`.

        Raises now what a call of the activity would raise: ValueError without
        `start_to_close_timeout` or `schedule_to_close_timeout`, TypeError for an unknown option.
        """
        if isinstance(compensation, str) or is_activity(compensation):
            check_options(compensation, kwargs.keys() - {"args"}, kwargs)
            compensation, args = execute_activity, (compensation, *args)
        self._compensations.append(_Compensation(compensation, args, kwargs))

    async def compensate(self) -> None:
        """Calls the compensations now, the last one first, and forgets them.

        Cancelling the workflow does not reach them. One that raises has used up its own retry
        policy: the run then waits until an operator says what to do (`perdure workflow saga retry`
        or `skip`), and goes on with the others after that.
        """
        await _beyond_cancellation(self._compensate())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Not what takes the run out of memory: it goes on elsewhere, with its saga.
        if isinstance(error, Exception | asyncio.CancelledError):
            await self.compensate()

    async def _compensate(self) -> None:
        while self._compensations:
            compensation = self._compensations[-1]
            try:
                await compensation.function(*compensation.args, **compensation.kwargs)
            except Exception as error:
                _note(compensation, "parked", _type_of(error))
                word = await self._ask_operator(compensation, error)
                _note(compensation, "retried" if word == "retry" else "skipped", self._why)
                if word == "retry":
                    continue
                self.skipped.append(compensation.name)
            else:
                _note(compensation, "completed", "")
            self._compensations.pop()

    async def _ask_operator(
        self, compensation: _Compensation, error: Exception
    ) -> Literal["retry", "skip"]:
        logger.error(
            "compensation %s has failed and waits for an operator: %s", compensation.name, error
        )
        if not self._listens:
            self._listens = True
            definition = handler_definition(self._hear, "saga", "signal", free=True)
            current_run().signals.set_handler(SAGA_SIGNAL, definition)
        await wait_condition(lambda: self._word is not None)
        word, self._word = self._word, None
        assert word is not None
        return word

    def _hear(self, word: Mapping[str, str]) -> None:
        action = word.get("action")
        if action in ("retry", "skip"):
            self._why = str(word.get("reason", ""))
        if action == "retry":
            self._word = "retry"
        elif action == "skip":
            self._word = "skip"
        else:
            logger.warning("a saga was told %r: it knows retry and skip", action)


def saga() -> Saga:
    """For `async with`: leaving it with an exception, or cancelled, undoes what was added."""
    return Saga()


def _note(compensation: _Compensation, outcome: str, reason: str) -> None:
    """For the audit log."""
    note_compensation(current_run(), compensation.name, outcome, reason)


def _type_of(error: BaseException) -> str:
    """Never the message: it may be for nobody but the workflow (encoded failures)."""
    while isinstance(error, ActivityError | ChildWorkflowError) and error.__cause__ is not None:
        error = error.__cause__
    named = error.type if isinstance(error, ApplicationError) else None
    return named or type(error).__name__


async def _beyond_cancellation(work: Awaitable[None]) -> None:
    """Waits for `work` to its end, whoever cancels meanwhile; then the last cancellation goes on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled
