"""The workflow that a key of an entity is: it keeps the state, and does one call at a time.

Updates put their calls into a queue and wait; the run's own coroutine takes them out, so that handlers
cannot be interleaved. It has a committed state, encoded, and nothing else: a handler gets an object
made of it, and what that object has become is committed when the handler has returned: a marker, saved
with the call's outcome, says what has changed (`_replay/entity_markers.py`). Between two
handlers the run may turn over: it continues as new with the state, with what is known of done calls,
and with what waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from perdure._definitions import (
    Done,
    EntityDefinition,
    EntityState,
    Head,
    Waiting,
    head_of,
    head_to_payload,
    object_of,
    state_of,
)
from perdure._payload import Payload
from perdure._replay.entity_markers import saved_state
from perdure._replay.interrupts import ContinueAsNewError
from perdure._replay.run import WorkflowRun, current_run
from perdure._replay.updates import UpdateInfo, current_update
from perdure._replay.verdict import defect_cause
from perdure.common import ENTITY_DESTROY, RawValue
from perdure.errors import ApplicationError, CancelledError, EntityStateError
from perdure.workflow._chain import continue_as_new
from perdure.workflow._entity_calls import CARRIED_MAX, Call, Calls, Outcome
from perdure.workflow._waiting import wait_condition

# A turn writes all ids that are remembered: with many of them it must pay for more calls. Histories
# depend on this as on all that makes a run turn over: it must never change.
_IDS_PER_CALL = 4


class EntityHost:
    """`make_host` gives each entity a subclass of its own."""

    entity: ClassVar[EntityDefinition]

    def __init__(self, payloads: Sequence[Payload]) -> None:
        """Queries come as soon as there is a host, so what was handed on is read here."""
        # Whatever the worker wants to fail runs: with this one a state would be lost.
        current_run().failure_types = ()
        head = head_of(payloads)
        following = iter(payloads[1:])
        self._state: EntityState | None = None
        if head.state is not None:
            self._state = {name: next(following) for name in head.state}
        self._calls_per_run = head.calls_per_run
        self._calls = Calls(head.done)
        self._turning = False
        self._destroyed = False
        for one in head.waiting:
            given = [next(following) for _ in range(one.args)]
            self._calls.add(_call(one.call_id, one.name, self._decoded(one.name, given), given))

    async def run(self, payloads: Sequence[Payload]) -> None:
        """Ends when the key has been destroyed and nobody wants it any more; it never fails."""
        try:
            await self._serve()
        except Exception as error:
            if defect_cause(error) is not None:
                raise
            # The state would be lost with the run. A failed task is retried until better code comes.
            raise EntityStateError(f"the entity could not go on: {error!r}") from error

    async def take(self, name: str, args: Sequence[Any]) -> Any:
        """What an update is: it ends when its call has been done, by this run or one before."""
        info = current_update.get()
        assert info is not None
        known = self._calls.known(info.id, name)
        if isinstance(known, Done):
            return known.again()
        call = known or _call(info.id, name, args)
        if known is None:
            self._calls.add(call)
        if self._turning:
            self._calls.tell_moved()
        return await call.outcome()

    def read(self, name: str, args: Sequence[Any]) -> Any:
        """What a query is: it sees the last committed state, whatever runs."""
        made = object_of(self.entity, self._state, current_run().converter)
        return self.entity.readers[name].function(made, *args)

    # --- one call after the other -----------------------------------------------------------------

    async def _serve(self) -> None:
        run = current_run()
        calls = self._calls
        while True:
            if self._must_turn(run):
                await self._turn(run)
            if calls.waiting:
                await self._perform(calls.waiting.popleft(), run)
            elif self._destroyed and run.updates.are_settled:
                return
            else:
                await self._until(
                    lambda: (
                        bool(calls.waiting)
                        or run.cancel_requested
                        or (self._destroyed and run.updates.are_settled)
                    )
                )

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Being cancelled meanwhile ends nothing: the run turns over for it, between two calls."""
        while True:
            try:
                await wait_condition(condition)
            except asyncio.CancelledError:
                continue
            return

    async def _perform(self, call: Call, run: WorkflowRun) -> None:
        token = current_update.set(UpdateInfo(call.call_id, call.name))
        try:
            outcome, state = await self._outcome(call, run)
        finally:
            current_update.reset(token)
        before, self._state = self._state, saved_state(run, call.call_id, self._state, state)
        if self._state is not before:
            self._destroyed = self._state is None
        self._calls.settle(call, outcome, run.now_us // 1000)

    async def _outcome(self, call: Call, run: WorkflowRun) -> tuple[Outcome, EntityState | None]:
        """With the state that it makes, the present one if it fails. Raises defects only."""
        before = self._state
        if call.name == ENTITY_DESTROY:
            self._destroyed = True
            return Outcome(RawValue(run.converter.to_payload(None))), None
        handler = self.entity.handlers[call.name]
        # A state that does not fit the class is nothing to tell the caller: see `run`.
        made = object_of(self.entity, before, run.converter)
        try:
            answer = handler.function(made, *call.args)
            if handler.is_async:
                answer = await answer
            result = RawValue(run.converter.to_payload(answer))
            return Outcome(result), state_of(self.entity, made, run.converter)
        except ContinueAsNewError:
            message = "an entity continues as new by itself: its handlers must not"
            return Outcome(error=ApplicationError(message, type="ContinueAsNewInEntity")), before
        except asyncio.CancelledError:
            return Outcome(error=CancelledError("the entity's handler was cancelled")), before
        except Exception as error:
            if defect_cause(error) is not None:
                raise
            return Outcome(error=error), before

    # --- the next run -----------------------------------------------------------------------------

    def _must_turn(self, run: WorkflowRun) -> bool:
        """Rather when nobody waits: who does has to ask again."""
        calls = self._calls
        done = calls.count // 2 if calls.waiting else calls.count
        enough = max(self._calls_per_run, calls.remembered // _IDS_PER_CALL)
        suggested = run.suggest_continue_as_new and calls.count > 0
        if not (run.cancel_requested or suggested or done >= enough):
            return False
        # It must fit into the next run's input: until it does, this run goes on with it.
        return len(calls.carried(run.converter)) <= CARRIED_MAX

    async def _turn(self, run: WorkflowRun) -> None:
        """Ends the run. What comes in until then goes along too."""
        self._turning = True
        self._calls.tell_moved()
        await self._until(lambda: not run.updates.running)
        state = self._state
        carried = self._calls.carried(run.converter)
        head = Head(
            state=None if state is None else list(state),
            done=self._calls.handed_on(run.now_us // 1000),
            waiting=[Waiting(one.call_id, one.name, len(args)) for one, args in carried],
            calls_per_run=self.entity.calls_per_run,
        )
        given = [payload for _, args in carried for payload in args]
        payloads = [head_to_payload(head), *(state or {}).values(), *given]
        continue_as_new(args=[RawValue(one) for one in payloads])

    def _decoded(self, name: str, payloads: list[Payload]) -> Sequence[Any]:
        if name == ENTITY_DESTROY:
            return ()
        handler = self.entity.handlers.get(name)
        if handler is None:
            raise EntityStateError(
                f"a call of {name!r} waits for {self.entity.name!r}, which has no such handler"
            )
        return handler.signature.decode(payloads, current_run().converter)


def _call(
    call_id: str, name: str, args: Sequence[Any], payloads: Sequence[Payload] | None = None
) -> Call:
    return Call(call_id, name, args, asyncio.get_running_loop().create_future(), payloads)


def make_host(entity: EntityDefinition) -> type:
    return type(
        f"{entity.cls.__name__}Host",
        (EntityHost,),
        {"entity": entity, "run": EntityHost.run, "__module__": entity.cls.__module__},
    )
