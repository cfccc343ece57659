"""All waits for results of one client share one stream.

A stream that breaks is opened again, with back-off, and every wait that is still open is sent
again: the engine keeps nothing of a stream that is gone, and asking twice is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from perdure._wire.errors import copy_of
from perdure._wire.results import ResultWait, RunResult, WaitedResult
from perdure._wire.retry import backoff_s, retry_delay_s
from perdure._wire.surroundings import Surroundings
from perdure.errors import RPCError, RPCStatusCode

# Keeps one message of waits far below the limit, whatever the ids: 1,000 waits of 1.1 KB each.
WAITS_PER_MESSAGE_MAX = 1_000


class Stream(Protocol):
    async def send(self, waits: Sequence[ResultWait], forget: Sequence[int]) -> None: ...

    async def receive(self) -> list[WaitedResult]:
        """The next answers; RPCError when the stream is over, however it ended."""
        ...

    def cancel(self) -> None: ...


class OpenStream(Protocol):
    def __call__(self) -> Stream: ...


class _Pending:
    __slots__ = ("attempt", "future", "wait")

    def __init__(self, wait: ResultWait, future: asyncio.Future[RunResult]) -> None:
        self.wait = wait
        self.future = future
        self.attempt = 0


class ResultWaits:
    """Waits until runs have closed. The first wait opens the stream; it stays from then on."""

    def __init__(self, open_stream: OpenStream, surroundings: Surroundings) -> None:
        self._open_stream = open_stream
        self._surroundings = surroundings
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, _Pending] = {}
        self._to_send: list[int] = []
        self._to_forget: list[int] = []
        self._something_to_send = asyncio.Event()
        self._last_wait_id = 0
        self._stream_no = 0  # grows with every stream opened
        self._keeper: asyncio.Task[None] | None = None
        self._later: set[asyncio.Task[None]] = set()

    async def wait(self, namespace: str, workflow_id: str, run_id: str) -> RunResult:
        """Returns when the run has closed, however long that takes. Cancelling it is free.

        Raises RPCError when the engine refuses the wait (no such run).
        """
        self._last_wait_id += 1
        wait_id = self._last_wait_id
        wait = ResultWait(wait_id, namespace, workflow_id, run_id)
        future: asyncio.Future[RunResult] = self._loop.create_future()
        self._pending[wait_id] = _Pending(wait, future)
        self._send_soon(wait_id)
        if self._keeper is None or self._keeper.done():
            self._keeper = self._loop.create_task(self._keep_stream())
        try:
            return await future
        finally:
            if self._pending.pop(wait_id, None) is not None:
                self._to_forget.append(wait_id)
                self._something_to_send.set()

    async def close(self) -> None:
        tasks = set(self._later)
        if self._keeper is not None:
            tasks.add(self._keeper)
        for task in tasks:
            task.cancel()
        self._fail_all(RPCError("the client was closed", RPCStatusCode.CANCELLED))
        if tasks:
            await asyncio.wait(tasks)

    def _send_soon(self, wait_id: int) -> None:
        self._to_send.append(wait_id)
        self._something_to_send.set()

    async def _keep_stream(self) -> None:
        """Until a stream ends that nobody needs."""
        failures = 0
        while True:
            stream = self._open_stream()
            self._stream_no += 1
            self._to_send = list(self._pending)
            self._to_forget.clear()
            self._something_to_send.set()
            sender = self._loop.create_task(self._send_all(stream))
            try:
                while True:
                    answers = await stream.receive()
                    failures = 0
                    self._deliver(answers)
            except RPCError as error:
                failures += 1
                if retry_delay_s(error, failures, self._surroundings.random) is None:
                    self._fail_all(error)
            except Exception as error:  # a defect of ours: the callers must hear of it, not wait
                self._fail_all(error)
                raise
            finally:
                sender.cancel()
                stream.cancel()
            if not self._pending:
                return
            await self._surroundings.sleep(backoff_s(failures, self._surroundings.random))

    async def _send_all(self, stream: Stream) -> None:
        """What has collected since the last message was taken travels together."""
        while True:
            await self._something_to_send.wait()
            self._something_to_send.clear()
            while self._to_send or self._to_forget:
                wait_ids = self._to_send[:WAITS_PER_MESSAGE_MAX]
                forget = self._to_forget[:WAITS_PER_MESSAGE_MAX]
                del self._to_send[:WAITS_PER_MESSAGE_MAX]
                del self._to_forget[:WAITS_PER_MESSAGE_MAX]
                waits = [
                    self._pending[wait_id].wait for wait_id in wait_ids if wait_id in self._pending
                ]
                try:
                    await stream.send(waits, forget)
                except RPCError:
                    return  # the receiving side hears of it too, and sends everything again

    def _deliver(self, answers: list[WaitedResult]) -> None:
        for answer in answers:
            pending = self._pending.get(answer.wait_id)
            if pending is None:  # forgotten meanwhile
                continue
            outcome = answer.outcome
            if isinstance(outcome, RunResult):
                del self._pending[answer.wait_id]
                if not pending.future.done():
                    pending.future.set_result(outcome)
                continue
            pending.attempt += 1
            delay_s = retry_delay_s(outcome, pending.attempt, self._surroundings.random)
            if delay_s is None:
                self._fail(pending, outcome)
            else:
                again = self._send_again(answer.wait_id, delay_s, self._stream_no)
                task = self._loop.create_task(again)
                self._later.add(task)
                task.add_done_callback(self._later.discard)

    async def _send_again(self, wait_id: int, delay_s: float, stream_no: int) -> None:
        """Unless the stream has broken meanwhile: the next one has been sent all waits."""
        await self._surroundings.sleep(delay_s)
        if wait_id in self._pending and stream_no == self._stream_no:
            self._send_soon(wait_id)

    def _fail(self, pending: _Pending, error: Exception) -> None:
        self._pending.pop(pending.wait.wait_id, None)
        if not pending.future.done():
            pending.future.set_exception(copy_of(error) if isinstance(error, RPCError) else error)

    def _fail_all(self, error: Exception) -> None:
        for pending in list(self._pending.values()):
            self._fail(pending, error)
