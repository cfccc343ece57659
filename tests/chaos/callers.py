"""A caller of several engine nodes, until nodes route calls to each other.

A call goes to the node that answered last for its shard, and to the next one when that does not own
the shard, does not answer, or is gone: the same message, and so the same request id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Any, TypeVar

from perdure._client.coalescing import Coalescer
from perdure._wire.calls import Call, Target
from perdure._wire.results import RunResult
from perdure.client import Client
from perdure.errors import RPCError, RPCStatusCode

T = TypeVar("T")

TRY_S = 3.0  # of one call at one node; a stopped one does not answer
PATIENCE_S = 120.0  # of one call in all
PAUSE_S = 0.1

TRY_ELSEWHERE = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
    }
)
# No worker polls the queue, which is so until a killed worker is back.
QUERY_ELSEWHERE = TRY_ELSEWHERE | {RPCStatusCode.FAILED_PRECONDITION}


class Once(Exception):
    """An error in a wrapping that the client's own retries do not know."""

    def __init__(self, error: RPCError) -> None:
        super().__init__(str(error))
        self.error = error


class Node:
    """One engine node. Calls made at the same time travel together, and none is repeated."""

    def __init__(self, client: Client) -> None:
        self.client = client
        core = client.core
        self._calls = Coalescer(self._send, core.surroundings, batches_in_flight_max=2)
        self._queries = Coalescer(self._send, core.surroundings, batches_in_flight_max=8)

    async def call(self, call: Call[T], timeout_s: float = TRY_S) -> T:
        """Raises RPCError."""
        try:
            return await self._calls.submit(call, timeout_s)
        except Once as once:
            raise once.error from None

    async def query(self, call: Call[T], timeout_s: float = TRY_S) -> T:
        """The same for what waits for a worker, so that it holds up no other call."""
        try:
            return await self._queries.submit(call, timeout_s)
        except Once as once:
            raise once.error from None

    async def _send(self, calls: list[Call[Any]], timeout_s: float) -> Sequence[Any]:
        try:
            outcomes = await self.client.core.workflow_service.batch_call(calls, timeout_s)
        except RPCError as error:
            return [Once(error)] * len(calls)
        return [Once(one) if isinstance(one, RPCError) else one for one in outcomes]

    async def close(self) -> None:
        await self._calls.close()
        await self._queries.close()
        await self.client.close()


class Nodes:
    def __init__(self, nodes: Sequence[Node], shard_of: Callable[[str], int]) -> None:
        self.nodes = nodes
        self._shard_of = shard_of
        self._homes: dict[int, int] = {}
        self.tries = 0
        self.answers = 0

    @classmethod
    async def connect(cls, addresses: Sequence[str], shard_of: Callable[[str], int]) -> Nodes:
        clients = [await Client.connect(one, identity="caller", lazy=True) for one in addresses]
        return cls([Node(client) for client in clients], shard_of)

    @property
    def client(self) -> Client:
        return self.nodes[0].client

    async def close(self) -> None:
        for node in self.nodes:
            await node.close()

    async def call(self, workflow_id: str, call: Call[T]) -> T:
        """Until it is answered. Raises RPCError: what no other node and no waiting can mend."""
        return await self.ask(self._shard_of(workflow_id), lambda node: node.call(call))

    async def query(self, workflow_id: str, call: Call[T]) -> T:
        return await self.ask(
            self._shard_of(workflow_id), lambda node: node.query(call), QUERY_ELSEWHERE
        )

    async def result(self, target: Target) -> RunResult:
        """Asks all nodes: the owner answers, and who that is may change meanwhile."""
        waits = [
            asyncio.ensure_future(node.client.core.result(target, None)) for node in self.nodes
        ]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def ask(
        self,
        shard: int,
        send: Callable[[Node], Awaitable[T]],
        elsewhere: Container[RPCStatusCode] = TRY_ELSEWHERE,
    ) -> T:
        """Let the shard's owner answer, whoever that is. Raises RPCError, as `call` does."""
        deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            first = self._homes.get(shard, 0)
            for offset in range(len(self.nodes)):
                index = (first + offset) % len(self.nodes)
                self.tries += 1
                try:
                    answer = await send(self.nodes[index])
                except RPCError as error:
                    late = asyncio.get_running_loop().time() > deadline_s
                    if error.status not in elsewhere or late:
                        raise
                else:
                    self.answers += 1
                    self._homes[shard] = index
                    return answer
            await asyncio.sleep(PAUSE_S)
