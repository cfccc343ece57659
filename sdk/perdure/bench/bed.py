"""What a workload stands on: an engine with its database, a worker, a client, and a meter."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from perdure.bench.accounting import Component, Meter, Pids, Usage
from perdure.bench.engine import LocalEngine
from perdure.bench.job_log import JobLogReader
from perdure.bench.processes import Child, ProcessFailed
from perdure.bench.profiling import Profiler
from perdure.client import Client

Say = Callable[[str], None]
"""Progress, one line at a time."""

# The run of the bench in ids: workflows of an earlier run on the same engine are not ours.
RUN_TOKEN_BYTES = 4
EFFECTS = "effects"  # the file of perdure.bench.effects
OTHER_QUEUE = "-other"
OF_JOBS = ("W4", "W5", "schedules", "sustained")
WITH_OTHER_QUEUE = ("W5",)
POLLERS_POLL_S = 0.02
POLLERS_PATIENCE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where the engine is: one of our own unless there is an address."""

    address: str | None = None
    namespace: str = "default"
    shards: int | None = None


class Bed:
    """Made by `prepare`."""

    def __init__(
        self,
        *,
        client: Client,
        engine: LocalEngine | None,
        worker: Child,
        folder: Path,
        task_queue: str,
        profiler: Profiler | None,
        say: Say,
    ) -> None:
        self.client = client
        self.engine = engine
        """None: somebody else's, whose processes can be neither measured nor killed."""
        self.worker = worker
        self.effects = folder / EFFECTS
        self.job_log = JobLogReader(folder)
        self.task_queue = task_queue
        self.other_queue = task_queue + OTHER_QUEUE
        """Polled by the worker too, where the workload has something for it."""
        self.say = say
        self.meter = Meter(self.pids)
        self._profiler = profiler

    def pids(self) -> Pids:
        worker = self.worker.pid
        ours: dict[Component, Sequence[int]] = {
            Component.WORKER: [] if worker is None else [worker]
        }
        if self.engine is not None:
            ours[Component.ENGINE] = self.engine.engine_pids
            ours[Component.DATABASE] = self.engine.database_pids
        return ours

    def workflow_id(self, number: int | str) -> str:
        return f"{self.task_queue}-{number}"

    @contextmanager
    def measuring(self) -> Generator[None]:
        """Between this and its end CPU counts and, if asked to, py-spy looks; then `usage`."""
        if self._profiler is not None:
            pids = {
                str(component): next(iter(pids))
                for component, pids in self.pids().items()
                if component is not Component.DATABASE and pids
            }
            self._profiler.start(pids)
        self.meter.begin()
        try:
            yield
            self._usage = self.meter.end()
        finally:
            if self._profiler is not None:
                self._profiler.stop()

    @property
    def usage(self) -> Usage:
        """Of the last `measuring` that came to its end."""
        return self._usage

    def check(self) -> None:
        """Raises ProcessFailed when something ended that nobody has stopped."""
        self.worker.check()
        if self.engine is not None:
            self.engine.child.check()

    async def wait_for_pollers(self) -> None:
        """Returns when a worker polls for both kinds of tasks."""
        try:
            async with asyncio.timeout(POLLERS_PATIENCE_S):
                while not await self._is_polled():
                    self.worker.check()
                    await asyncio.sleep(POLLERS_POLL_S)
        except TimeoutError:
            raise ProcessFailed(f"no worker polls after {POLLERS_PATIENCE_S:.0f} s") from None

    async def _is_polled(self) -> bool:
        found = await self.client.operator.describe_task_queue(self.task_queue)
        return bool(found.workflow.pollers and found.activity.pollers)


@asynccontextmanager
async def prepare(
    workload: str, target: Target, profiler: Profiler | None, say: Say
) -> AsyncGenerator[Bed]:
    """Starts everything, and leaves nothing behind, however the block ends."""
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        folder = Path(name)
        engine = None
        children: list[Child] = []
        try:
            if target.address is None:
                say("Starting an engine and a database of our own")
                engine = LocalEngine(folder / "data", folder, shards=target.shards)
                children.append(engine.child)
                await engine.start()
            address = engine.address if engine is not None else str(target.address)
            task_queue = f"bench-{workload.lower()}-{os.urandom(RUN_TOKEN_BYTES).hex()}"
            worker = _worker(workload, address, target.namespace, task_queue, folder)
            children.append(worker)
            worker.start()
            async with await Client.connect(
                address, namespace=target.namespace, identity="bench-client"
            ) as client:
                bed = Bed(
                    client=client,
                    engine=engine,
                    worker=worker,
                    folder=folder,
                    task_queue=task_queue,
                    profiler=profiler,
                    say=say,
                )
                await bed.wait_for_pollers()
                yield bed
        except Exception:
            for child in children:
                if text := child.tail():
                    say(f"The last lines of the {child.name}:\n{text}")
            raise
        finally:
            for child in reversed(children):
                child.stop()


def _worker(workload: str, address: str, namespace: str, task_queue: str, folder: Path) -> Child:
    arguments = ["-m", "perdure.bench.worker", "--address", address, "--namespace", namespace]
    arguments += ["--task-queue", task_queue, "--folder", str(folder)]
    if workload in OF_JOBS:
        arguments += ["--jobs"]
    if workload in WITH_OTHER_QUEUE:
        arguments += ["--other-queue", task_queue + OTHER_QUEUE]
    return Child("worker", arguments, folder / "worker.log")
