"""How much comes into each task queue and how much goes out, over the last minute or so.

Two counters for each queue, and once in a while an exponential average of what was added to them: nothing is kept for
a task. Of all shards of the process together, since queues are.
"""

from __future__ import annotations

import asyncio
from math import exp

import msgspec

from perdure_engine.core.tasks import TaskKind
from perdure_engine.ports.clock import Clock

AVERAGED_OVER_S = 60.0
SAMPLE_EVERY_S = 5.0
FLOWS_MAX = 10_000  # queue names come from callers
IDLE_PER_S = 1e-3  # what flows less than this, and not at all lately, is forgotten


class Flow(msgspec.Struct, eq=False, gc=False):
    """One queue of one kind. Counts since the last sample, and tasks a second."""

    namespace_id: bytes
    queue: str
    kind: TaskKind
    added: int = 0
    dispatched: int = 0
    add_rate: float = 0.0
    dispatch_rate: float = 0.0


class Flows:
    """Start once, stop once. `by_number` goes by queue number, which tells kinds and namespaces apart."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._surplus = Flow(b"", "", TaskKind.JOB)  # of queues past FLOWS_MAX; nobody reads it
        self.by_number: dict[int, Flow] = {}

    def flow(self, queue_no: int, namespace_id: bytes, queue: str, kind: TaskKind) -> Flow:
        """To count in. Not to be kept: an idle one is forgotten."""
        found = self.by_number.get(queue_no)
        if found is None:
            if len(self.by_number) >= FLOWS_MAX:
                return self._surplus
            found = self.by_number[queue_no] = Flow(namespace_id, queue, kind)
        return found

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="flows")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        sampled_s = self._clock.monotonic()
        while True:
            await self._clock.sleep(SAMPLE_EVERY_S)
            now_s = self._clock.monotonic()
            self.sample(now_s - sampled_s)
            sampled_s = now_s

    def sample(self, seconds: float) -> None:
        """`seconds` have gone by since the last sample."""
        share = 1 - exp(-seconds / AVERAGED_OVER_S)
        idle: list[int] = []
        for queue_no, flow in self.by_number.items():
            if not (flow.added or flow.dispatched) and (
                max(flow.add_rate, flow.dispatch_rate) < IDLE_PER_S
            ):
                idle.append(queue_no)
            flow.add_rate += (flow.added / seconds - flow.add_rate) * share
            flow.dispatch_rate += (flow.dispatched / seconds - flow.dispatch_rate) * share
            flow.added = flow.dispatched = 0
        for queue_no in idle:
            del self.by_number[queue_no]
