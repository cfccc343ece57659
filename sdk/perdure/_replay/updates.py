"""Updates: each is validated, and then refused without a trace, or accepted and handed to its handler.

One after the other: what a handler does before its first wait is done before the next update is validated. A refused
update must be as if it never was, because no replay sees it: it takes no task of the loop's and no number. On replay
nothing is validated: what stands in the history was accepted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from perdure._definitions import (
    HandlerUnfinishedPolicy,
    UpdateDefinition,
    WorkflowDefinition,
)
from perdure._failures import exception_to_failure
from perdure._interceptors.workflow import HandleUpdateInput, WorkflowInboundInterceptor
from perdure._replay.interrupts import WorkflowEvicted
from perdure._replay.ledger import Ledger
from perdure._replay.loop import DeterministicLoop
from perdure._replay.messages import AcceptUpdate, CompleteUpdate, RejectUpdate, Update
from perdure._replay.signals import warn_cut_off
from perdure._replay.verdict import defect_cause
from perdure.converter import PayloadConverter
from perdure.errors import ApplicationError, NondeterminismError


class UnfinishedUpdateHandlersWarning(RuntimeWarning):
    """A workflow ended while handlers of its updates were running; their callers are told so."""


@dataclass(frozen=True, slots=True)
class UpdateInfo:
    """Of the update whose validator or handler is running."""

    id: str
    name: str


current_update: ContextVar[UpdateInfo | None] = ContextVar("current_update", default=None)


class Handled(Protocol):
    """What updates need of their run."""

    definition: WorkflowDefinition
    failure_types: tuple[type[BaseException], ...]
    converter: PayloadConverter
    workflow: Any
    loop: DeterministicLoop
    ledger: Ledger
    defect: BaseException | None
    replaying: bool
    inbound: WorkflowInboundInterceptor | None
    main: Any

    def new_context(self) -> Context: ...

    def read_only(
        self, what: str, function: Callable[[], Any], context: Context | None = None
    ) -> Any: ...


class Updates:
    """`running` are the handlers that have begun and not ended, by update id.

    Most runs have no update: what holds them is made with the first one.
    """

    __slots__ = ("_added", "_deferred", "_rejections", "_run", "_waiting", "running")

    def __init__(self, run: Handled) -> None:
        self._run = run
        self._added: dict[str, UpdateDefinition | None] | None = None
        self._waiting: deque[Update] | None = None
        self._rejections: list[RejectUpdate] | None = None
        self._deferred: list[Update] | None = None
        self.running: dict[str, UpdateDefinition] | None = None

    def deliver(self, updates: Sequence[Update]) -> None:
        """In their order, once what was ready before has run."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.extend(updates)
        self._run.loop.call_soon(self._next, context=self._run.new_context())

    @property
    def are_settled(self) -> bool:
        """Have all that came been taken or refused, and their handlers ended?"""
        return not self.running and not self._waiting

    def deliver_deferred(self) -> None:
        """Those that came with the start and that no handler of their name was there for."""
        deferred, self._deferred = self._deferred, None
        if deferred:
            self.deliver(deferred)

    def take_rejections(self) -> list[RejectUpdate]:
        taken, self._rejections = self._rejections, None
        return taken or []

    def add_handler(self, name: str | None, handler: UpdateDefinition | None) -> None:
        """From now on, instead of the one of the definition. None: of that name there is none."""
        if self._added is None:
            self._added = {}
        self._added[name or ""] = handler

    def handler(self, name: str | None) -> UpdateDefinition | None:
        """That of exactly this name; None: the dynamic one."""
        key = name or ""
        if self._added is not None and key in self._added:
            return self._added[key]
        return self._run.definition.updates.get(key)

    def described(self) -> list[dict[str, Any]]:
        """Those that there are now, for people. The dynamic one has no name."""
        there = {**self._run.definition.updates, **(self._added or {})}
        return [
            {"name": name or None, "description": handler.description}
            for name, handler in sorted(there.items())
            if handler is not None
        ]

    def _next(self) -> None:
        run = self._run
        while self._waiting and run.defect is None:
            update = self._waiting.popleft()
            if run.main is None and self.handler(update.update_name) is None:
                # Its handler may be one that the code sets at its beginning.
                self._deferred = [*(self._deferred or ()), update]
                continue
            context = run.new_context()
            context.run(current_update.set, UpdateInfo(update.update_id, update.update_name))
            try:
                handler, args = self._validated(update, context)
            except (Exception, asyncio.CancelledError) as error:
                if run.replaying:
                    run.defect = error
                    run.loop.stop()
                    return
                failure = exception_to_failure(error, run.converter)
                if self._rejections is None:
                    self._rejections = []
                self._rejections.append(RejectUpdate(update_id=update.update_id, failure=failure))
                continue
            run.ledger.add(AcceptUpdate(update_id=update.update_id), None)
            if self.running is None:
                self.running = {}
            self.running[update.update_id] = handler
            run.loop.create_task(
                self._handle(update, handler, args),
                name=f"update {update.update_name}",
                context=context,
            )
            if self._waiting:
                run.loop.call_soon(self._next, context=run.new_context())
            return

    def _validated(self, update: Update, context: Context) -> tuple[UpdateDefinition, list[Any]]:
        """Raises whatever there is against the update."""
        run = self._run
        handler = self._handler(update)
        args = handler.decode(update.update_name, update.args, run.converter)
        if handler.validator is not None and not run.replaying:
            what = f"the validator of update {update.update_name!r}"
            if run.inbound is None:
                validate = partial(handler.validator, run.workflow, *args)
            else:
                validate = partial(
                    run.inbound.handle_update_validator, _input_of(update, handler, args)
                )
            run.read_only(what, validate, context)
        return handler, args

    def _handler(self, update: Update) -> UpdateDefinition:
        name = update.update_name
        handler = self.handler_for(name)
        if handler is not None:
            return handler
        handlers = {**self._run.definition.updates, **(self._added or {})}
        workflow = self._run.definition.name
        if self._run.replaying:
            raise NondeterminismError(
                f"history says that update {name!r} was accepted, "
                f"but workflow {workflow!r} has no handler for it"
            )
        listed = ", ".join(sorted(one for one in handlers if handlers[one])) or "none"
        raise ApplicationError(
            f"workflow {workflow!r} has no update {name!r}; known: {listed}", type="UnknownUpdate"
        )

    def handler_for(self, name: str) -> UpdateDefinition | None:
        """That of the name, or else the dynamic one."""
        handlers = self._run.definition.updates
        if self._added is not None:
            handlers = {**handlers, **self._added}  # type: ignore[dict-item]  # None: there is none
        return handlers.get(name) or handlers.get("")

    async def _handle(self, update: Update, handler: UpdateDefinition, args: list[Any]) -> None:
        run = self._run
        update_id = update.update_id
        try:
            if run.inbound is not None:
                answer = await run.inbound.handle_update_handler(_input_of(update, handler, args))
            else:
                answer = handler.function(run.workflow, *args)
                if handler.is_async:
                    answer = await answer
            done = CompleteUpdate(
                update_id=update_id, result=[run.converter.to_payload(answer)], failure=None
            )
        except WorkflowEvicted:
            raise
        except BaseException as error:
            failed = self._failed(update_id, error)
            if failed is None:
                return
            done = failed
        assert self.running is not None
        del self.running[update_id]
        run.ledger.add(done, None)

    def _failed(self, update_id: str, error: BaseException) -> CompleteUpdate | None:
        """The update has failed; None: a defect, which fails the workflow task."""
        run = self._run
        defect = defect_cause(error, run.failure_types) is not None
        if defect or isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
            run.defect = run.defect or error
            run.loop.stop()
            return None
        failure = exception_to_failure(error, run.converter)
        return CompleteUpdate(update_id=update_id, result=[], failure=failure)

    def warn_unfinished(self, workflow_id: str) -> None:
        """The run has ended: says which handlers were cut off, but for those that may be."""
        warn = HandlerUnfinishedPolicy.WARN_AND_ABANDON
        cut_off = [
            handler.name or update_id
            for update_id, handler in (self.running or {}).items()
            if handler.unfinished_policy is warn
        ]
        warn_cut_off(workflow_id, "update", cut_off, UnfinishedUpdateHandlersWarning)


def _input_of(update: Update, handler: UpdateDefinition, args: list[Any]) -> HandleUpdateInput:
    return HandleUpdateInput(
        id=update.update_id,
        update=update.update_name,
        args=args[1] if handler.name is None else args,
        headers=update.header,
    )
