"""What tasks came to, on its way to the engine.

Completions made in one turn of the loop, or while as many messages as are allowed are under way,
travel together. One that may not have arrived is sent again, with the same token, until the engine
has said what became of it: a completion counts once, however often it arrives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from perdure._wire.batching import PORTION_MIN, Batches
from perdure._wire.completions import Completion
from perdure._wire.edge import PLAIN, PayloadEdge
from perdure._wire.retry import backoff_s, is_too_large, retry_delay_s
from perdure._wire.surroundings import Surroundings
from perdure.errors import PayloadError, RPCError, RPCStatusCode

logger = logging.getLogger(__name__)

# The engine commits what one message brings in one go or two. Jobs come and go by hundreds, and what
# a call and a commit cost is shared by all of them; what waits for more only makes the first wait for
# the last.
BATCH_COMPLETIONS_MAX = 1000
# While one commits the next is decoded and decided: with one alone the engine would idle meanwhile.
MESSAGES_IN_FLIGHT_MAX = 2

# The engine's refusals of what a completion says, as opposed to its coming too late.
REFUSED = frozenset((RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.RESOURCE_EXHAUSTED))

SendCompletions = Callable[[list[Completion]], Awaitable[Mapping[int, RPCError]]]
"""Returns the errors of those that were not taken, by index; RPCError when none was."""


Done = Callable[[RPCError | PayloadError | None], None]


class SubmitsCompletions(Protocol):
    """`Completions`, or what stands for them in a process that a task has to itself."""

    def submit(self, completion: Completion, done: Done) -> None: ...


class _Waiting:
    __slots__ = ("attempt", "completion", "done")

    def __init__(self, completion: Completion, done: Done) -> None:
        self.completion = completion
        self.done = done
        self.attempt = 0


class Completions:
    def __init__(
        self, send: SendCompletions, surroundings: Surroundings, edge: PayloadEdge = PLAIN
    ) -> None:
        self._send = send
        self._edge = edge
        self._encoding: set[asyncio.Task[None]] = set()
        self._surroundings = surroundings
        self._open = 0
        self._all_settled = asyncio.Event()
        self._all_settled.set()
        self._batches: Batches[_Waiting] = Batches(
            self._exchange,
            lambda waiting: waiting.completion.size,
            surroundings.sleep,
            items_max=BATCH_COMPLETIONS_MAX,
            in_flight_max=MESSAGES_IN_FLIGHT_MAX,
            beside_min=PORTION_MIN,
            takes_turns=True,
        )

    def submit(self, completion: Completion, done: Done) -> None:
        """`done` is called on the loop with None once it is saved, or with why it never will be:
        PayloadError for what cannot be encoded. Reports of failures can always be."""
        self._open += 1
        self._all_settled.clear()
        waiting = _Waiting(completion, done)
        if self._edge.passes(completion.size):
            self._batches.add(waiting)
            return
        task = asyncio.ensure_future(self._encode(waiting))
        self._encoding.add(task)
        task.add_done_callback(self._encoding.discard)

    async def _encode(self, waiting: _Waiting) -> None:
        completion = waiting.completion
        try:
            await self._edge.encode_completion(completion.message)
        except Exception as error:  # the codec is the user's
            if not isinstance(error, PayloadError):
                logger.exception("a completion could not be encoded")
                error = PayloadError(f"{type(error).__name__}: {error}")
            self._settle(waiting, error)
            return
        completion.size = completion.message.ByteSize()
        self._batches.add(waiting)

    async def wait_settled(self) -> None:
        """Returns when the engine has answered everything submitted so far and meanwhile."""
        await self._all_settled.wait()

    async def close(self) -> None:
        """Gives up what is not settled. Closing twice is fine."""
        for task in self._encoding:
            task.cancel()
        if self._encoding:
            await asyncio.wait(self._encoding)
        await self._batches.close()

    async def _exchange(self, batch: list[_Waiting]) -> None:
        errors: Mapping[int, RPCError]
        try:
            errors = await self._send([waiting.completion for waiting in batch])
        except RPCError as error:
            if is_too_large(error) and len(batch) > 1:
                await self._exchange(batch[: len(batch) // 2])
                await self._exchange(batch[len(batch) // 2 :])
                return
            errors = dict.fromkeys(range(len(batch)), error)
        except Exception as error:  # a defect of ours: it must not keep the slots for ever
            logger.exception("completions could not be sent")
            internal = RPCError(str(error), RPCStatusCode.INTERNAL)
            errors = dict.fromkeys(range(len(batch)), internal)
        again: list[_Waiting] = []
        delay_s = 0.0
        for index, waiting in enumerate(batch):
            failed = errors.get(index)
            wait_s = None if failed is None else self._delay_before_retry_s(waiting, failed)
            if wait_s is None:
                self._settle(waiting, failed)
            else:
                again.append(waiting)
                delay_s = max(delay_s, wait_s)
        if again:
            self._batches.add_after(delay_s, again)

    def _delay_before_retry_s(self, waiting: _Waiting, error: RPCError) -> float | None:
        waiting.attempt += 1
        if error.status is RPCStatusCode.DEADLINE_EXCEEDED:  # its fate is unknown
            return backoff_s(waiting.attempt, self._surroundings.random)
        return retry_delay_s(error, waiting.attempt, self._surroundings.random)

    def _settle(self, waiting: _Waiting, error: RPCError | PayloadError | None) -> None:
        self._open -= 1
        if not self._open:
            self._all_settled.set()
        waiting.done(error)
