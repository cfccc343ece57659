"""Making jobs, one or thousands.

Thousands travel in messages of up to 1,000, some of them under way at once; single ones that are
asked for in the same turn of the loop travel together. A message that may not have arrived is sent
again as it is: its request id and the place in it name a job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from perdure._jobs import NewJob
from perdure._wire.batching import PORTION_MIN, Batches
from perdure._wire.edge import PayloadEdge
from perdure._wire.errors import copy_of
from perdure._wire.job_service import JobService
from perdure._wire.new_jobs import Fields, JobsToMake, MadeJob, job_fields
from perdure._wire.retry import is_too_large, retry_delay_s
from perdure._wire.surroundings import Surroundings
from perdure.converter import Payload, PayloadConverter
from perdure.errors import PayloadEncodeError, PayloadError, RPCError, RPCStatusCode

T = TypeVar("T")

# Of one message: large enough that what a call costs does not count, small enough that the engine
# decides about the first while the last are still being made.
JOBS_PER_MESSAGE_MAX = 1_000
# Names and keys come on top, 3 KB a job at the most: together under the limit of a message.
INPUT_BYTES_PER_MESSAGE_MAX = 1024 * 1024
# While one is saved the next is decided and a third is on its way.
MESSAGES_IN_FLIGHT_MAX = 4

Outcome = MadeJob | Exception
Unary = Callable[[Callable[[float], Awaitable[T]], timedelta | None], Awaitable[T]]
"""`ClientCore.unary`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """What is the same for all messages of a client."""

    namespace: str
    identity: str
    converter: PayloadConverter
    edge: PayloadEdge


class _Asked:
    """A single job whose caller waits."""

    __slots__ = ("fields", "future", "rpc_timeout")

    def __init__(
        self,
        fields: Fields,
        future: asyncio.Future[MadeJob],
        rpc_timeout: timedelta | None,
    ) -> None:
        self.fields = fields
        self.future = future
        self.rpc_timeout = rpc_timeout


class JobCreation:
    """Bound to the event loop in which it was made."""

    def __init__(
        self, service: JobService, whose: Whose, unary: Unary[Any], surroundings: Surroundings
    ) -> None:
        self._service = service
        self._whose = whose
        self._unary = unary
        self._surroundings = surroundings
        self._batches: Batches[_Asked] = Batches(
            self._carry,
            lambda asked: len(asked.fields["input"]),
            surroundings.sleep,
            items_max=JOBS_PER_MESSAGE_MAX,
            in_flight_max=MESSAGES_IN_FLIGHT_MAX,
            beside_min=PORTION_MIN,
        )

    async def make_one(
        self,
        job: NewJob[Any],
        header: Mapping[str, Payload],
        rpc_timeout: timedelta | None,
    ) -> MadeJob:
        """Raises what says why there is no job: TypeError, ValueError, PayloadEncodeError, RPCError."""
        fields = job_fields(job, self._whose.converter, header)
        future: asyncio.Future[MadeJob] = asyncio.get_running_loop().create_future()
        self._batches.add(_Asked(fields, future, rpc_timeout))
        if rpc_timeout is None:
            return await future
        try:
            async with asyncio.timeout(rpc_timeout.total_seconds()):
                return await future
        except TimeoutError:
            message = "the call was not answered in time"
            raise RPCError(message, RPCStatusCode.DEADLINE_EXCEEDED) from None

    async def make_many(
        self,
        jobs: Sequence[NewJob[Any]],
        header: Mapping[str, Payload],
        rpc_timeout: timedelta | None,
    ) -> list[Outcome]:
        """In their order, with what says why there is none. `rpc_timeout` is each message's."""
        outcomes: list[Outcome | None] = [None] * len(jobs)
        portions = self._portions(jobs, header, outcomes)

        async def send_portions() -> None:
            for indices, fields in portions:
                made, _ = await self._outcomes(fields, rpc_timeout)
                for index, outcome in zip(indices, made, strict=True):
                    outcomes[index] = outcome

        await _all_of([send_portions() for _ in range(MESSAGES_IN_FLIGHT_MAX)])
        return _each_of(outcomes)

    async def make_batch(
        self,
        batch: Fields,
        jobs: Sequence[NewJob[Any]],
        header: Mapping[str, Payload],
        rpc_timeout: timedelta | None,
        *,
        sealed: bool,
    ) -> list[Outcome]:
        """As `make_many`, all of one batch, which is sealed by the last message: it goes when the
        engine has answered for every job of the others, and not at all when it has not."""
        outcomes: list[Outcome | None] = [None] * len(jobs)
        portions = list(self._portions(jobs, header, outcomes)) or [([], [])]
        for number, (indices, fields) in enumerate(portions, start=1):
            more = not sealed or number < len(portions)
            made, answered = await self._outcomes(fields, rpc_timeout, {**batch, "more": more})
            for index, outcome in zip(indices, made, strict=True):
                outcomes[index] = outcome
            if not answered:
                break
        unsent = _unsent()
        return _each_of([unsent if one is None else one for one in outcomes])

    async def close(self) -> None:
        await self._batches.close()

    def _portions(
        self,
        jobs: Sequence[NewJob[Any]],
        header: Mapping[str, Payload],
        outcomes: list[Outcome | None],
    ) -> Iterator[tuple[list[int], list[Fields]]]:
        """What fits into one message each. What cannot travel gets its outcome here."""
        converter = self._whose.converter
        indices: list[int] = []
        portion: list[Fields] = []
        room = INPUT_BYTES_PER_MESSAGE_MAX
        for index, job in enumerate(jobs):
            try:
                fields = job_fields(job, converter, header)
            except (TypeError, ValueError, PayloadEncodeError) as error:
                outcomes[index] = error
                continue
            size = len(fields["input"])
            if portion and (size > room or len(portion) == JOBS_PER_MESSAGE_MAX):
                yield indices, portion
                indices, portion, room = [], [], INPUT_BYTES_PER_MESSAGE_MAX
            indices.append(index)
            portion.append(fields)
            room -= size
        if portion:
            yield indices, portion

    async def _carry(self, batch: list[_Asked]) -> None:
        wanted = [asked for asked in batch if not asked.future.done()]
        if not wanted:
            return
        timeouts = [asked.rpc_timeout for asked in wanted if asked.rpc_timeout is not None]
        # One that has no limit of its own has the usual one.
        longest = max(timeouts) if len(timeouts) == len(wanted) else None
        outcomes: Sequence[Outcome]
        try:
            outcomes, _ = await self._outcomes([asked.fields for asked in wanted], longest)
        except Exception as error:  # a defect of ours: the callers must hear of it, not wait
            outcomes = [error] * len(wanted)
        for asked, outcome in zip(wanted, outcomes, strict=True):
            if asked.future.done():
                continue
            if isinstance(outcome, MadeJob):
                asked.future.set_result(outcome)
            else:
                told = copy_of(outcome) if isinstance(outcome, RPCError) else outcome
                asked.future.set_exception(told)

    async def _outcomes(
        self, fields: list[Fields], rpc_timeout: timedelta | None, batch: Fields | None = None
    ) -> tuple[Sequence[Outcome], bool]:
        """Of one message; its own failure is that of each of its jobs. And whether they are what
        the engine has decided about each."""
        try:
            made = await self._send(fields, rpc_timeout, batch)
        except RPCError as error:
            if is_too_large(error) and len(fields) > 1:
                return await self._halves(fields, rpc_timeout, batch)
            return [error] * len(fields), False
        except PayloadError as error:
            return [error] * len(fields), False
        return made, not any(isinstance(one, RPCError) and _may_mend(one) for one in made)

    async def _halves(
        self, fields: list[Fields], rpc_timeout: timedelta | None, batch: Fields | None
    ) -> tuple[Sequence[Outcome], bool]:
        """Of a message that was refused before anything was read of it: they are new messages."""
        half = len(fields) // 2
        begun = batch and {**batch, "more": True}
        first, answered = await self._outcomes(fields[:half], rpc_timeout, begun)
        rest = fields[half:]
        if batch and not answered:
            return [*first, *[_unsent()] * len(rest)], False
        second, also_answered = await self._outcomes(rest, rpc_timeout, batch)
        return [*first, *second], answered and also_answered

    async def _send(
        self, fields: list[Fields], rpc_timeout: timedelta | None, batch: Fields | None
    ) -> Sequence[Outcome]:
        whose = self._whose
        jobs = JobsToMake(
            fields,
            namespace=whose.namespace,
            request_id=self._surroundings.new_uuid(),
            identity=whose.identity,
            batch=batch,
        )
        if not whose.edge.passes(jobs.input_bytes_max):
            await whose.edge.encode(jobs.message)
        answered: list[MadeJob | RPCError] = []

        async def send(timeout_s: float) -> list[MadeJob | RPCError]:
            answered[:] = await self._service.create(jobs, timeout_s)
            for one in answered:
                if isinstance(one, RPCError) and _may_mend(one):
                    raise one  # the same message again: what is made is answered as it is
            return answered

        try:
            outcomes: Sequence[Outcome] = await self._unary(send, rpc_timeout)
        except RPCError:
            if not answered:
                raise
            return answered  # its time is over
        return outcomes


def _each_of(outcomes: Sequence[Outcome | None]) -> list[Outcome]:
    found = [one for one in outcomes if one is not None]
    assert len(found) == len(outcomes), "a job without an outcome"
    return found


def _unsent() -> RPCError:
    return RPCError("an earlier message was not saved", RPCStatusCode.ABORTED)


def _may_mend(error: RPCError) -> bool:
    return retry_delay_s(error, 1, _certain) is not None


def _certain() -> float:
    return 0.0


async def _all_of(works: list[Any]) -> None:
    """All have ended when it returns; the first error is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
