"""A worker's doors that lead to every engine node, until nodes route calls to each other.

Polls go to the worker's own node. Completions go there first and, when that does not own the task's
shard any more or does not answer, to the others. Heartbeats and farewells go to all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from perdure._replay.messages import Event
from perdure._wire.completions import Completion
from perdure._wire.connection import Connection
from perdure._wire.edge import PLAIN, PayloadEdge
from perdure._wire.held import HeldTaskNews, HeldTaskState
from perdure._wire.tasks import PolledTasks
from perdure._wire.worker_service import BlockingWorkerService, WorkerIdentity, WorkerService
from perdure._worker import rooms
from perdure.errors import RPCError, RPCStatusCode

# A stopped node answers nothing, and the next one must still hear of the tasks before it hands them
# out anew (3 s after a take-over).
TRY_S = 1.0
ELSEWHERE = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED)

Send = Callable[..., Awaitable[tuple[dict[int, RPCError], PolledTasks]]]

_addresses: list[str] = []


def install(addresses: Sequence[str]) -> None:
    """Every worker of this process made from now on."""
    _addresses[:] = addresses
    setattr(rooms, "WorkerService", RoutedService)  # noqa: B010  # not exported from there
    setattr(rooms, "BlockingWorkerService", RoutedBlockingService)  # noqa: B010


class RoutedService(WorkerService):
    def __init__(
        self,
        connection: Connection,
        identity: WorkerIdentity,
        task_queue: str,
        edge: PayloadEdge = PLAIN,
    ) -> None:
        super().__init__(connection, identity, task_queue, edge)
        self._others = [
            WorkerService(Connection(address), identity, task_queue, edge)
            for address in _addresses
            if address != connection.target
        ]

    async def complete_tasks(
        self, completions: list[Completion], max_workflow_tasks: int, max_activity_tasks: int
    ) -> tuple[dict[int, RPCError], PolledTasks]:
        failed, tasks = await self._try(
            super().complete_tasks, completions, max_workflow_tasks, max_activity_tasks
        )
        for other in self._others:
            again = [index for index, error in failed.items() if error.status in ELSEWHERE]
            if not again:
                break
            found, _ = await self._try(
                other.complete_tasks, [completions[index] for index in again], 0, 0
            )
            for place, index in enumerate(again):
                del failed[index]
                if place in found:
                    failed[index] = found[place]
        return failed, tasks

    async def _try(
        self, send: Send, completions: list[Completion], *max_tasks: int
    ) -> tuple[dict[int, RPCError], PolledTasks]:
        try:
            async with asyncio.timeout(TRY_S):
                return await send(completions, *max_tasks)
        except RPCError as error:
            failure = error
        except TimeoutError:
            failure = RPCError("no answer in time", RPCStatusCode.DEADLINE_EXCEEDED)
        return dict.fromkeys(range(len(completions)), failure), PolledTasks([], [])

    async def task_history(self, page_token: bytes) -> tuple[list[Event], bytes]:
        for read in (super().task_history, *(other.task_history for other in self._others)):
            try:
                return await read(page_token)
            except RPCError as error:
                if error.status not in ELSEWHERE:
                    raise
                failure = error
        raise failure

    async def say_goodbye(self, released_tokens: Sequence[bytes], timeout_s: float) -> None:
        await asyncio.gather(
            super().say_goodbye(released_tokens, timeout_s),
            *(other.say_goodbye(released_tokens, timeout_s) for other in self._others),
            return_exceptions=True,
        )


class RoutedBlockingService(BlockingWorkerService):
    """Heartbeats to all at once. A node passes over tasks of shards that are not its own."""

    def __init__(self, target: str, identity: WorkerIdentity) -> None:
        super().__init__(target, identity)
        self._others = [
            BlockingWorkerService(address, identity) for address in _addresses if address != target
        ]

    def heartbeat(
        self, held: Sequence[HeldTaskNews], loop_stalled_ms: int, timeout_s: float
    ) -> list[tuple[int, HeldTaskState]]:
        beats = [super().heartbeat, *(other.heartbeat for other in self._others)]
        with ThreadPoolExecutor(len(beats)) as pool:
            answers = [pool.submit(beat, held, loop_stalled_ms, TRY_S) for beat in beats]
        states: list[tuple[int, HeldTaskState]] = []
        errors: list[RPCError] = []
        for answer in answers:
            try:
                states += answer.result()
            except RPCError as error:
                errors.append(error)
        if len(errors) == len(beats):
            raise errors[0]
        return states

    def close(self) -> None:
        super().close()
        for other in self._others:
            other.close()
