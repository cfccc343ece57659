"""Calls of an entity's key: those that wait, those that are done, and what of them goes to its next run.

A call is done once per id. Within a run the engine sees to that; what this run and those before it
have done is handed on, for as long as somebody may ask again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure._definitions import Done
from perdure._payload import Payload
from perdure.common import ENTITY_CALL_PREFIX, ENTITY_MOVED, ENTITY_TELL_BYTES_MAX
from perdure.converter import PayloadConverter
from perdure.errors import ApplicationError

# The client repeats a call of its own making for a minute; who gives an id may come back tomorrow.
OWN_IDS_KEPT_MS = 2 * 60 * 1000
GIVEN_IDS_KEPT_MS = 24 * 3600 * 1000
# With all of these and a state of 1 MiB, the next run's input stays under the engine's 2 MiB.
DONE_BYTES_MAX = 512 * 1024
IDS_MAX = 5_000
OUTCOMES_MAX = 100
OUTCOME_BYTES_MAX = 1024
CARRIED_MAX = 10
# What the JSON of a done call has besides its texts; base64 makes four bytes of three.
_DONE_BYTES = 64
_BASE64_SHARE = 4 / 3


@dataclass(frozen=True, slots=True)
class Outcome:
    value: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class Call:
    """`done` has an Outcome, never an exception: nobody may be waiting for it."""

    call_id: str
    name: str
    args: Sequence[Any]
    done: asyncio.Future[Outcome] = field(repr=False)
    payloads: Sequence[Payload] | None = None
    """Its arguments, once they were needed so."""

    async def outcome(self) -> Any:
        outcome = await self.done
        if outcome.error is not None:
            raise outcome.error
        return outcome.value


class Calls:
    """`waiting`: in the order in which they came."""

    def __init__(self, done: Iterable[Done] = ()) -> None:
        self.waiting: deque[Call] = deque()
        self._done = {one.call_id: one for one in done}
        self._open: dict[str, Call] = {}  # that wait or run
        self.count = 0  # done by this run

    def known(self, call_id: str, name: str) -> Call | Done | None:
        """Raises ApplicationError when the id is that of another call."""
        known = self._open.get(call_id) or self._done.get(call_id)
        if known is not None and known.name != name:
            raise ApplicationError(
                f"call id {call_id!r} was used before, for {known.name!r}",
                type="CallIdReused",
                non_retryable=True,
            )
        return known

    def add(self, call: Call) -> None:
        self._open[call.call_id] = call
        self.waiting.append(call)

    def settle(self, call: Call, outcome: Outcome, now_ms: int) -> None:
        self.count += 1
        del self._open[call.call_id]
        self._done[call.call_id] = _done(call, outcome, now_ms)
        call.done.set_result(outcome)

    def tell_moved(self) -> None:
        """To those who ask for what waits: it goes along to the next run."""
        for call in self.waiting:
            if not call.done.done():
                error = ApplicationError("the entity continues as new", type=ENTITY_MOVED)
                call.done.set_result(Outcome(error=error))

    def carried(self, converter: PayloadConverter) -> list[tuple[Call, Sequence[Payload]]]:
        """What waits and can go along to the next run; who asked for the rest has to send it again."""
        carried: list[tuple[Call, Sequence[Payload]]] = []
        for call in self.waiting:
            if call.payloads is None:
                call.payloads = converter.to_payloads(call.args)
            if sum(len(one.data) for one in call.payloads) <= ENTITY_TELL_BYTES_MAX:
                carried.append((call, call.payloads))
        return carried

    def handed_on(self, now_ms: int) -> list[Done]:
        """What the next run must know, the newest last."""
        handed: list[Done] = []
        left_bytes = DONE_BYTES_MAX
        for one in reversed(self._done.values()):
            if now_ms - one.at_ms > _kept_ms(one):
                continue
            told = one if len(handed) < OUTCOMES_MAX else _forgotten(one)
            left_bytes -= _size_bytes(told)
            if left_bytes < 0 or len(handed) == IDS_MAX:
                break
            handed.append(told)
        handed.reverse()
        return handed

    @property
    def remembered(self) -> int:
        return len(self._done)


def _kept_ms(done: Done) -> int:
    return OWN_IDS_KEPT_MS if done.call_id.startswith(ENTITY_CALL_PREFIX) else GIVEN_IDS_KEPT_MS


def _size_bytes(done: Done) -> int:
    """At most, and roughly."""
    texts = 6 * (len(done.message) + len(done.failure_type or ""))  # should each need an escape
    ids = 4 * (len(done.call_id) + len(done.name))
    result = 0 if done.result is None else int(len(done.result.data) * _BASE64_SHARE)
    return _DONE_BYTES + ids + texts + result


def _forgotten(done: Done) -> Done:
    return Done(done.call_id, done.name, done.at_ms) if done.kept else done


def _done(call: Call, outcome: Outcome, now_ms: int) -> Done:
    error = outcome.error
    if error is not None:
        failure_type = error.type if isinstance(error, ApplicationError) else type(error).__name__
        message = error.message if isinstance(error, ApplicationError) else str(error)
        if len(message) > OUTCOME_BYTES_MAX:
            message = message[:OUTCOME_BYTES_MAX]
        return Done(
            call.call_id, call.name, now_ms, "failure", message=message, failure_type=failure_type
        )
    result: Payload = outcome.value.payload
    if len(result.data) > OUTCOME_BYTES_MAX:
        return Done(call.call_id, call.name, now_ms)
    return Done(call.call_id, call.name, now_ms, "result", result)
