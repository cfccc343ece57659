"""The load: W1 with signals, queries, timers and cancels among it, and what was acknowledged of it."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.chaos.callers import Nodes
from tests.chaos.program import Collecting, Napping, Recorded, Waiting

from perdure._client.options import StartOptions, build_start
from perdure._wire.calls import (
    Call,
    StartedRun,
    Target,
    cancel_workflow,
    describe_workflow,
    query_workflow,
    signal_workflow,
    start_workflow,
)
from perdure._wire.results import RunResult
from perdure.common import WorkflowStatus
from perdure.errors import RPCError

NAMESPACE = "default"
SIGNALS = 3  # of each Collecting
REPEATED = 0.1  # share of the calls that are made again, after their answer, with the same id


class Told(NamedTuple):
    """An acknowledged signal or cancel."""

    workflow_id: str
    request_id: str
    number: int


@dataclass
class Acknowledged:
    """What the engine has promised, as its callers heard it."""

    starts: dict[str, str] = field(default_factory=dict)  # workflow id -> run id
    numbers: dict[str, int] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)  # workflow id -> value or status
    expected: dict[str, Any] = field(default_factory=dict)
    signals: list[Told] = field(default_factory=list)
    cancels: list[Told] = field(default_factory=list)
    repeats: int = 0
    queries: int = 0
    describes: int = 0
    wrong: list[str] = field(default_factory=list)  # answers that cannot be
    stale: list[str] = field(default_factory=list)  # answers older than what was acknowledged
    result_times_s: list[float] = field(default_factory=list)  # wall clock, ascending
    in_flight: dict[str, float] = field(default_factory=dict)  # workflow id -> started at

    def figures(self) -> dict[str, int]:
        return {
            "starts": len(self.starts),
            "results": len(self.results),
            "signals": len(self.signals),
            "cancels": len(self.cancels),
            "repeats": self.repeats,
            "queries": self.queries,
            "describes": self.describes,
            "wrong": len(self.wrong),
            "stale": len(self.stale),
        }


class Load:
    """Lanes of workflows one after the other, until `stop` is set; then each ends what it has begun."""

    def __init__(self, nodes: Nodes, task_queue: str, seed: int, *, prefix: str = "t") -> None:
        self.nodes = nodes
        self.acked = Acknowledged()
        self.stop = asyncio.Event()
        self.errors: list[BaseException] = []
        self._task_queue = task_queue
        self._prefix = prefix
        self._random = random.Random(seed)
        self._numbers = itertools.count(1)
        self._converter = nodes.client.core.converter

    async def run(self, lanes: int, pause_s: float, limit: int | None = None) -> None:
        """`pause_s` between the workflows of a lane. `limit`: so many in all."""
        async with asyncio.TaskGroup() as group:
            for _ in range(lanes):
                group.create_task(self._lane(pause_s, limit))

    async def _lane(self, pause_s: float, limit: int | None) -> None:
        while not self.stop.is_set():
            number = next(self._numbers)
            if limit is not None and number > limit:
                return
            kind = self._random.choices(
                (self.recorded, self.collecting, self.napping, self.waiting), (70, 15, 10, 5)
            )[0]
            await self.watched(kind, number)
            if pause_s:
                await wait_for(self.stop, pause_s)

    async def watched(self, kind: Callable[[str, int], Awaitable[None]], number: int) -> None:
        """An error is a finding, not the end of the load."""
        workflow_id = f"{self._prefix}-{number}"
        self.acked.in_flight[workflow_id] = time.time()
        try:
            await kind(workflow_id, number)
        except RPCError as error:
            self.acked.wrong.append(f"{workflow_id}: {error.status.name} {error.reason} {error}")
        finally:
            del self.acked.in_flight[workflow_id]

    # ---- one workflow of each kind

    async def recorded(self, workflow_id: str, number: int) -> None:
        await self.start(workflow_id, Recorded.__name__, number, [number])
        await self.result(workflow_id, number)

    async def napping(self, workflow_id: str, number: int) -> None:
        await self.start(workflow_id, Napping.__name__, number, [number])
        await self.result(workflow_id, number)

    async def collecting(self, workflow_id: str, number: int) -> None:
        await self.start(workflow_id, Collecting.__name__, number, [number, SIGNALS])
        for sent in range(1, SIGNALS + 1):
            await self.signal(workflow_id, sent)
            if sent < SIGNALS and self._random.random() < 0.5:
                await self.check_seen(workflow_id, sent)
        await self.result(workflow_id, list(range(1, SIGNALS + 1)))

    async def waiting(self, workflow_id: str, number: int) -> None:
        await self.start(workflow_id, Waiting.__name__, number, [number])
        await self.cancel(workflow_id)
        await self.result(workflow_id, WorkflowStatus.CANCELED)

    # ---- calls, and what their answers promise

    async def start(self, workflow_id: str, kind: str, number: int, args: list[Any]) -> None:
        call = self._start_call(workflow_id, kind, args)
        started = await self.nodes.call(workflow_id, call)
        self.acked.starts[workflow_id] = started.run_id
        self.acked.numbers[workflow_id] = number
        if self._repeat():
            again = await self.nodes.call(workflow_id, call)
            if again.run_id != started.run_id:
                self.acked.wrong.append(f"{workflow_id}: a repeated start made another run")

    async def signal(self, workflow_id: str, number: int) -> None:
        request_id = str(uuid.uuid4())
        call = signal_workflow(
            self._target(workflow_id),
            "tell",
            self._converter.to_payloads([number]),
            request_id=request_id,
            identity="caller",
        )
        await self.nodes.call(workflow_id, call)
        self.acked.signals.append(Told(workflow_id, request_id, number))
        if number < SIGNALS and self._repeat():  # after the last one the run may be closed
            await self.nodes.call(workflow_id, call)

    async def cancel(self, workflow_id: str) -> None:
        request_id = str(uuid.uuid4())
        call = cancel_workflow(
            self._target(workflow_id), "torture", request_id=request_id, identity="caller"
        )
        await self.nodes.call(workflow_id, call)
        self.acked.cancels.append(Told(workflow_id, request_id, 0))

    async def check_seen(self, workflow_id: str, acknowledged: int) -> None:
        """A query sees every signal that was acknowledged before it was asked."""
        seen = await self.nodes.query(workflow_id, self.query_call(workflow_id))
        self.acked.queries += 1
        self.judge_seen(workflow_id, acknowledged, seen)

    def judge_seen(self, workflow_id: str, acknowledged: int, seen: list[Any]) -> None:
        numbers = self.decode(seen)
        if numbers[:acknowledged] != list(range(1, acknowledged + 1)):
            self.acked.stale.append(f"{workflow_id}: {acknowledged} signals, but {numbers} seen")

    async def result(self, workflow_id: str, expected: Any) -> None:
        target = Target(NAMESPACE, workflow_id, self.acked.starts[workflow_id])
        value = await self._result(target)
        self.acked.expected[workflow_id] = expected
        self.acked.results[workflow_id] = value
        self.acked.result_times_s.append(time.time())
        if value != expected:
            self.acked.wrong.append(f"{workflow_id}: {value!r} instead of {expected!r}")
        if self._repeat():
            if await self._result(target) != value:
                self.acked.wrong.append(f"{workflow_id}: another result when asked again")
            described = await self.nodes.call(
                workflow_id, describe_workflow(self._target(workflow_id), lambda payload: payload)
            )
            self.acked.describes += 1
            if described.status is WorkflowStatus.RUNNING:
                self.acked.stale.append(f"{workflow_id}: has a result and is described as running")

    async def _result(self, target: Target) -> Any:
        outcome: RunResult = await self.nodes.result(target)
        if outcome.status is not WorkflowStatus.COMPLETED:
            return outcome.status
        return self.decode(outcome.result)

    # ----

    def query_call(self, workflow_id: str) -> Call[list[Any]]:
        return query_workflow(self._target(workflow_id), "seen", [])

    def decode(self, payloads: list[Any]) -> Any:
        return self._converter.from_payload(payloads[0]) if payloads else None

    def _start_call(self, workflow_id: str, kind: str, args: list[Any]) -> Call[StartedRun]:
        options: StartOptions = {"id": workflow_id, "task_queue": self._task_queue}
        return start_workflow(
            build_start(
                options,
                workflow_type=kind,
                args=args,
                namespace=NAMESPACE,
                identity="caller",
                request_id=str(uuid.uuid4()),
                converter=self._converter,
            )
        )

    def _target(self, workflow_id: str) -> Target:
        return Target(NAMESPACE, workflow_id, self.acked.starts.get(workflow_id, ""))

    def _repeat(self) -> bool:
        if self._random.random() >= REPEATED:
            return False
        self.acked.repeats += 1
        return True


async def wait_for(event: asyncio.Event, limit_s: float) -> bool:
    """Whether it was set in that time: how these tests pace themselves."""
    try:
        async with asyncio.timeout(limit_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
