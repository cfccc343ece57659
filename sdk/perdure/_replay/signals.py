"""Signals: handed to their handlers in the order of the history, kept while there is none."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from perdure._definitions import (
    HandlerDefinition,
    HandlerUnfinishedPolicy,
    WorkflowDefinition,
    find_handler,
)
from perdure._interceptors.workflow import HandleSignalInput, WorkflowInboundInterceptor
from perdure._replay.messages import WorkflowExecutionSignaled
from perdure.converter import PayloadConverter

logger = logging.getLogger(__name__)


_OURS = "__"  # names that the SDK keeps for itself: no dynamic handler of the code's takes them


class UnfinishedSignalHandlersWarning(RuntimeWarning):
    """A workflow ended while handlers of its signals were running; they were cut off."""


def warn_cut_off(
    workflow_id: str, kind: str, names: Sequence[str], category: type[RuntimeWarning]
) -> None:
    if not names:
        return
    counted = [{"name": name, "count": count} for name, count in Counter(names).items()]
    message = (
        f"workflow {workflow_id!r} ended while {kind} handlers were still running, and cut them "
        "off. Wait for them (await workflow.wait_condition(workflow.all_handlers_finished)), or "
        "give the handler unfinished_policy=workflow.HandlerUnfinishedPolicy.ABANDON. "
        f"Cut off: {json.dumps(counted)}"
    )
    try:
        warnings.warn(message, category, stacklevel=2)
    except category:  # a filter that makes errors of warnings
        logger.warning(message)  # must not keep the run from ending


class Handled(Protocol):
    """What signals need of their run."""

    definition: WorkflowDefinition
    converter: PayloadConverter
    workflow: Any
    inbound: WorkflowInboundInterceptor | None

    def spawn(self, coroutine: Any, name: str) -> None: ...

    def end_with(self, error: BaseException) -> None: ...


class Signals:
    """`running` are the handlers that have begun and not ended, by a number of their own."""

    __slots__ = ("_kept", "_numbers", "_run", "added", "running")

    def __init__(self, run: Handled) -> None:
        self._run = run
        self.added: dict[str | None, HandlerDefinition | None] | None = None
        self._kept: list[WorkflowExecutionSignaled] | None = None
        self._numbers: itertools.count[int] | None = None
        self.running: dict[int, tuple[str, HandlerDefinition]] | None = None

    def deliver(self, event: WorkflowExecutionSignaled) -> None:
        """Raises PayloadDecodeError when the handler cannot take what was sent."""
        name = event.signal_name
        handler = self.handler_for(name)
        if handler is not None:
            args = handler.decode(name, event.input, self._run.converter)
            self._run.spawn(
                self._handle(event, handler, args, self._begin(name, handler)), f"signal {name}"
            )
        elif self._kept is None:
            self._kept = [event]
        else:
            self._kept.append(event)

    def handler_for(self, name: str) -> HandlerDefinition | None:
        """That of the name, or else the dynamic one."""
        handler = self.handler(name)
        if handler is None and not name.startswith(_OURS):
            handler = self.handler(None)
        return handler

    def handler(self, name: str | None) -> HandlerDefinition | None:
        """That of exactly this name; None: the dynamic one."""
        return find_handler(self._run.definition.signals, self.added, name)

    def set_handler(self, name: str | None, handler: HandlerDefinition | None) -> None:
        """From now on, and for those signals that are kept and that it takes."""
        if self.added is None:
            self.added = {}
        self.added[name] = handler
        kept, self._kept = self._kept or [], None
        for event in kept:
            self.deliver(event)

    def warn_unfinished(self, workflow_id: str) -> None:
        """The run has ended: says which handlers were cut off, but for those that may be."""
        cut_off = [
            name
            for name, handler in (self.running or {}).values()
            if handler.unfinished_policy is HandlerUnfinishedPolicy.WARN_AND_ABANDON
        ]
        warn_cut_off(workflow_id, "signal", cut_off, UnfinishedSignalHandlersWarning)

    def _begin(self, name: str, handler: HandlerDefinition) -> int:
        if self.running is None or self._numbers is None:
            self.running, self._numbers = {}, itertools.count()
        number = next(self._numbers)
        self.running[number] = (name, handler)
        return number

    async def _handle(
        self,
        event: WorkflowExecutionSignaled,
        handler: HandlerDefinition,
        args: list[Any],
        number: int,
    ) -> None:
        inbound = self._run.inbound
        try:
            if inbound is not None:
                signal = HandleSignalInput(
                    signal=event.signal_name,
                    args=args[1] if handler.dynamic else args,
                    headers=event.header,
                )
                await inbound.handle_signal(signal)
                return
            answer = handler.call(self._run.workflow, args)
            if handler.is_async:
                await answer
        except asyncio.CancelledError:
            raise  # the handler's own doing: nobody else knows its task
        except BaseException as error:
            self._run.end_with(error)
        finally:
            if self.running is not None:
                self.running.pop(number, None)
