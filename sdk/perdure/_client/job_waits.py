"""All waits for jobs of one client share one long poll.

It asks for up to 1,000 jobs at a time, in turn when there are more. A wait that begins while the
poll is parked replaces it. Between two polls there is a pause that grows with the number of jobs
that are asked for again, so that what each costs stays bounded; one alone is asked for at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from perdure._wire.errors import copy_of
from perdure._wire.job_service import EndedJob
from perdure._wire.retry import backoff_s, retry_delay_s
from perdure._wire.surroundings import Surroundings
from perdure.errors import RPCError, RPCStatusCode

JOBS_PER_POLL_MAX = 1_000  # the contract's
# Asking for one costs both sides some 5 µs together: a tenth of a core at the most.
PAUSE_S_PER_JOB = 0.00005

Ask = Callable[[Sequence[str]], Awaitable[Sequence[EndedJob]]]
"""Returns when at least one of the jobs has ended, or with none after a while. Raises RPCError."""


class JobWaits:
    def __init__(self, ask: Ask, surroundings: Surroundings) -> None:
        self._ask = ask
        self._surroundings = surroundings
        # In the order in which they are asked for; several may wait for one job.
        self._waiting: dict[str, list[asyncio.Future[EndedJob]]] = {}
        self._one_more = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def wait(self, job_id: str) -> EndedJob:
        """Returns when the job has ended, however long that takes. Cancelling it is free.

        Raises RPCError when there is no such job.
        """
        job_id = _canonical(job_id)
        future: asyncio.Future[EndedJob] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job_id, []).append(future)
        self._one_more.set()
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.ensure_future(self._keep_asking())
        try:
            return await future
        finally:
            self._forget(job_id, future)

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait((self._keeper,))
        self._fail_all(RPCError("the client was closed", RPCStatusCode.CANCELLED))

    def _forget(self, job_id: str, future: asyncio.Future[EndedJob]) -> None:
        futures = self._waiting.get(job_id, [])
        if future in futures:
            futures.remove(future)
            if not futures:
                del self._waiting[job_id]

    async def _keep_asking(self) -> None:
        """Until nobody waits."""
        failures = 0
        while self._waiting:
            self._one_more.clear()
            asked = self._next_ones()
            try:
                ended = await self._ask_until_one_more(asked)
                failures = 0
            except RPCError as error:
                failures += 1
                delay_s = _delay_s(error, failures, self._surroundings.random)
                if delay_s is None:
                    self._fail_all(error)
                    return
                await self._surroundings.sleep(delay_s)
                continue
            except Exception as error:  # a defect of ours: the callers must hear of it, not wait
                self._fail_all(error)
                raise
            self._deliver(ended)
            again = len(asked) - len(ended)
            if again > 1:
                await self._surroundings.sleep(again * PAUSE_S_PER_JOB)

    def _next_ones(self) -> list[str]:
        """What is asked for now goes to the end of the line."""
        asked = list(self._waiting)[:JOBS_PER_POLL_MAX]
        if len(asked) < len(self._waiting):
            for job_id in asked:
                self._waiting[job_id] = self._waiting.pop(job_id)
        return asked

    async def _ask_until_one_more(self, asked: Sequence[str]) -> Sequence[EndedJob]:
        """None of them, when somebody else began to wait meanwhile."""
        asking = asyncio.ensure_future(self._ask(asked))
        one_more = asyncio.ensure_future(self._one_more.wait())
        try:
            await asyncio.wait((asking, one_more), return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else []
        finally:
            one_more.cancel()
            asking.cancel()
            await asyncio.wait((asking, one_more))

    def _deliver(self, ended: Sequence[EndedJob]) -> None:
        for one in ended:
            error = one.error
            for future in self._waiting.pop(one.job_id, ()):
                if future.done():
                    continue
                if error is None:
                    future.set_result(one)
                else:
                    future.set_exception(copy_of(error))

    def _fail_all(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        for futures in waiting.values():
            for future in futures:
                if not future.done():
                    told = copy_of(error) if isinstance(error, RPCError) else error
                    future.set_exception(told)


def _delay_s(error: RPCError, failures: int, random: Callable[[], float]) -> float | None:
    if error.status is RPCStatusCode.DEADLINE_EXCEEDED:  # of the poll; the wait has no limit
        return backoff_s(failures, random)
    return retry_delay_s(error, failures, random)


def _canonical(job_id: str) -> str:
    """One id that the engine refuses would have it refuse those of all others."""
    try:
        return str(UUID(job_id))
    except ValueError:
        message = "job_id: must be a UUID in canonical text form"
        raise RPCError(
            message, RPCStatusCode.INVALID_ARGUMENT, field_violations=[("job_id", message)]
        ) from None
