"""Calls of one turn of the event loop in one message, each with its own deadline and its own fate.

A call that fails in a way that another try may mend goes out again after a while, in whatever batch
leaves then, with the same request id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from perdure._wire.batching import Batches
from perdure._wire.calls import Call
from perdure._wire.errors import copy_of
from perdure._wire.retry import is_too_large, retry_delay_s
from perdure._wire.surroundings import Surroundings
from perdure.errors import RPCError, RPCStatusCode

T = TypeVar("T")

# More in one message would only make its first call wait for its last.
BATCH_CALLS_MAX = 256

SendBatch = Callable[[list[Call[Any]], float], Awaitable[Sequence[Any]]]
"""Carries calls with a time limit in seconds; one answer or RPCError per call, in order."""


class _Pending:
    """One call whose caller still waits."""

    __slots__ = ("attempt", "call", "deadline_s", "future")

    def __init__(self, call: Call[Any], future: asyncio.Future[Any], deadline_s: float) -> None:
        self.call = call
        self.future = future
        self.deadline_s = deadline_s
        self.attempt = 0


class Coalescer:
    """Bound to the event loop in which it was made. After `close` every waiting call has failed."""

    def __init__(
        self,
        send: SendBatch,
        surroundings: Surroundings,
        *,
        batches_in_flight_max: int,
        beside_min: int = 1,
    ) -> None:
        """See `Batches` for the two numbers."""
        self._send = send
        self._surroundings = surroundings
        self._loop = asyncio.get_running_loop()
        self._pending: set[_Pending] = set()
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._batches: Batches[_Pending] = Batches(
            self._carry,
            lambda pending: pending.call.size,
            surroundings.sleep,
            items_max=BATCH_CALLS_MAX,
            in_flight_max=batches_in_flight_max,
            beside_min=beside_min,
        )

    def submit(self, call: Call[T], timeout_s: float) -> asyncio.Future[T]:
        """The future gets the call's answer or an RPCError. Cancelling it forgets the call."""
        future: asyncio.Future[T] = self._loop.create_future()
        pending = _Pending(call, future, self._loop.time() + timeout_s)
        self._pending.add(pending)
        self._watch_deadline(pending.deadline_s)
        self._batches.add(pending)
        return future

    async def close(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        for pending in list(self._pending):
            self._fail(pending, RPCError("the client was closed", RPCStatusCode.CANCELLED))
        await self._batches.close()

    async def _carry(self, batch: list[_Pending]) -> None:
        for pending in batch:
            if pending.future.done():  # its caller has gone, or its time was over
                self._pending.discard(pending)
        wanted = [pending for pending in batch if not pending.future.done()]
        if wanted:
            await self._exchange(wanted)

    async def _exchange(self, batch: list[_Pending]) -> None:
        latest_s = max(pending.deadline_s for pending in batch)
        outcomes: Sequence[Any]
        try:
            outcomes = await self._send(
                [pending.call for pending in batch], max(0.0, latest_s - self._loop.time())
            )
        except RPCError as error:
            if is_too_large(error) and len(batch) > 1:
                # Request or answers were too much for one message: in halves each gets through,
                # or the one that is too large by itself learns it.
                await self._exchange(batch[: len(batch) // 2])
                await self._exchange(batch[len(batch) // 2 :])
                return
            outcomes = [error] * len(batch)
        except Exception as error:  # a defect of ours: the callers must hear of it, not wait
            outcomes = [error] * len(batch)
        self._settle(batch, outcomes)

    def _settle(self, batch: list[_Pending], outcomes: Sequence[Any]) -> None:
        again: dict[int, tuple[float, list[_Pending]]] = {}
        for pending, outcome in zip(batch, outcomes, strict=True):
            if not isinstance(outcome, Exception):
                self._pending.discard(pending)
                if not pending.future.done():
                    pending.future.set_result(outcome)
                continue
            delay_s = self._delay_before_retry_s(pending, outcome)
            if delay_s is None:
                self._fail(pending, outcome)
            else:  # what failed together waits together
                again.setdefault(id(outcome), (delay_s, []))[1].append(pending)
        for delay_s, group in again.values():
            self._batches.add_after(delay_s, group)

    def _delay_before_retry_s(self, pending: _Pending, error: Exception) -> float | None:
        """None: the call has failed, for good or because its time does not suffice."""
        if not isinstance(error, RPCError) or pending.future.done():
            return None
        pending.attempt += 1
        delay_s = retry_delay_s(error, pending.attempt, self._surroundings.random)
        if delay_s is None or self._loop.time() + delay_s >= pending.deadline_s:
            return None
        return delay_s

    def _fail(self, pending: _Pending, error: Exception) -> None:
        self._pending.discard(pending)
        if not pending.future.done():
            pending.future.set_exception(copy_of(error) if isinstance(error, RPCError) else error)

    def _watch_deadline(self, deadline_s: float) -> None:
        """One timer for the earliest deadline of all, so that a call costs no timer of its own."""
        if self._deadline_timer is not None:
            if self._deadline_timer.when() <= deadline_s:
                return
            self._deadline_timer.cancel()
        self._deadline_timer = self._loop.call_at(deadline_s, self._end_late_calls)

    def _end_late_calls(self) -> None:
        self._deadline_timer = None
        now_s = self._loop.time()
        error = RPCError("the call was not answered in time", RPCStatusCode.DEADLINE_EXCEEDED)
        for pending in [one for one in self._pending if one.deadline_s <= now_s]:
            self._fail(pending, error)
        if self._pending:
            self._watch_deadline(min(one.deadline_s for one in self._pending))
