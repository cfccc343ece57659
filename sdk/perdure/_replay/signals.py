"""Signals: handed to their handlers in the order of the history, kept while there is none."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from perdure._definitions import HandlerDefinition, WorkflowDefinition
from perdure._replay.messages import WorkflowExecutionSignaled
from perdure.converter import PayloadConverter


class Handled(Protocol):
    """What signals need of their run."""

    definition: WorkflowDefinition
    converter: PayloadConverter
    workflow: Any

    def spawn(self, coroutine: Any, name: str) -> None: ...

    def end_with(self, error: BaseException) -> None: ...


class Signals:
    """`running` is how many handlers have begun and not ended."""

    __slots__ = ("_added", "_kept", "_run", "running")

    def __init__(self, run: Handled) -> None:
        self._run = run
        self._added: dict[str, HandlerDefinition] | None = None
        self._kept: list[WorkflowExecutionSignaled] | None = None
        self.running = 0

    def deliver(self, event: WorkflowExecutionSignaled) -> None:
        """Raises PayloadDecodeError when the handler cannot take what was sent."""
        name = event.signal_name
        handler = self._run.definition.signals.get(name)
        if self._added is not None:
            handler = self._added.get(name, handler)
        if handler is not None:
            args = handler.signature.decode(event.input, self._run.converter)
            self.running += 1
            self._run.spawn(self._handle(handler, args), f"signal {name}")
        elif self._kept is None:
            self._kept = [event]
        else:
            self._kept.append(event)

    def add_handler(self, handler: HandlerDefinition) -> None:
        """From now on, and for those signals of its name that are kept."""
        if self._added is None:
            self._added = {}
        self._added[handler.name] = handler
        kept, self._kept = self._kept or [], None
        for event in kept:
            self.deliver(event)

    async def _handle(self, handler: HandlerDefinition, args: list[Any]) -> None:
        try:
            answer = handler.function(self._run.workflow, *args)
            if handler.is_async:
                await answer
        except asyncio.CancelledError:
            raise  # the handler's own doing: nobody else knows its task
        except BaseException as error:
            self._run.end_with(error)
        finally:
            self.running -= 1
