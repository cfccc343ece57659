"""Code that takes its process down, against a real engine and a real worker that is started again each time it dies.

Invariants 35 to 40 and F9, F10, end to end: the guilty one ends in the surgical pool, and nobody who was beside it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.machines import Process, Scene, scene
from tests.chaos.poisonous import Attempt, Fatal, WithActivity, attempts_in

from perdure.client import Client, JobHandle, WorkflowHandle
from perdure.job import JobStatus

pytestmark = pytest.mark.timeout(240)

# A dead worker is noticed after 4 s (its connection broke) to 10 s, twice; the third death is that of a child.
POISONED_WITHIN_S = 90.0
SOON_S = 60.0
LOOK_EVERY_S = 0.1
BYSTANDERS = 3


class Keeper:
    """Starts the worker again whenever it has died, as whoever runs it would."""

    def __init__(self, worker: Process) -> None:
        self.worker = worker
        self.deaths = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def begin(self) -> None:
        self.worker.start()
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            if self.worker.pid is None:
                self.deaths += 1
                self.worker.restart()


class Stage:
    def __init__(self, played: Scene, client: Client, keeper: Keeper) -> None:
        self.client = client
        self.queue = played.task_queue
        self.folder = played.folder
        self.keeper = keeper

    async def job(self, task: str, name: str) -> JobHandle[Any]:
        return await self.client.jobs.create(task, name, result_type=str, queue=self.queue)

    async def workflow(self, kind: Any, name: str) -> WorkflowHandle[Any, Any]:
        return await self.client.start_workflow(kind.run, name, id=name, task_queue=self.queue)

    def attempts(self, name: str) -> list[Attempt]:
        return attempts_in(self.folder, name)

    def let(self, name: str) -> None:
        (self.folder / name).touch()


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    with scene(number_of_shards=2) as played:
        engine, address = played.engine("engine")
        engine.start()
        client = await Client.connect(address)
        keeper = Keeper(poisonous_worker(played, address))
        keeper.begin()
        try:
            yield Stage(played, client, keeper)
        finally:
            keeper.end()
            await client.close()
        assert played.alarms() == []


def poisonous_worker(played: Scene, address: str) -> Process:
    arguments = ["-m", "tests.chaos.poisonous", "--task-queue", played.task_queue]
    arguments += ["--address", address, "--folder", str(played.folder)]
    return played.program("worker", arguments)


async def until(what: Callable[[], Awaitable[bool]], within_s: float) -> None:
    between = threading.Event()
    async with asyncio.timeout(within_s):
        while not await what():
            await asyncio.to_thread(between.wait, LOOK_EVERY_S)


async def poisoned(handle: JobHandle[Any]) -> None:
    async def is_poisoned() -> bool:
        return (await handle.describe()).status is JobStatus.POISONED

    await until(is_poisoned, POISONED_WITHIN_S)


@pytest.mark.soak
async def test_a_job_that_kills_its_workers_harms_nobody_beside_it() -> None:
    async with stage() as on:
        beside = [await on.job("bystand", f"b{number}") for number in range(BYSTANDERS)]
        guilty = await on.job("kill", "guilty")
        await poisoned(guilty)

        # Two workers died of it, and then only a process that it had to itself.
        assert [attempt.crashes for attempt in on.attempts("guilty")] == [0, 1, 2]
        assert on.keeper.deaths == 2
        told = await guilty.describe()
        assert told.attempt == 1
        assert told.crashes == 3
        assert told.last_crash is not None
        assert "SIGKILL" in str(told.last_crash)
        for handle in beside:
            assert (await handle.describe()).status is not JobStatus.POISONED

        for number in range(BYSTANDERS):
            on.let(f"b{number}.go")
        for number, handle in enumerate(beside):
            assert await handle.result(rpc_timeout=timedelta(seconds=SOON_S)) == f"b{number}"

        on.let("cured")
        await guilty.resume(reason="the code is mended")
        assert await guilty.result(rpc_timeout=timedelta(seconds=SOON_S)) == "guilty"
        assert on.keeper.deaths == 2


@pytest.mark.soak
async def test_a_job_that_leaks_is_stopped_at_the_limit_of_the_surgical_pool() -> None:
    async with stage() as on:
        leaking = await on.job("leak", "leaking")
        await poisoned(leaking)
        before = (await leaking.describe()).crashes
        await leaking.resume(reason="look at it")

        async def crashed_again() -> bool:
            return (await leaking.describe()).crashes == before + 1

        await until(crashed_again, SOON_S)
        told = await leaking.describe()
        assert told.status is JobStatus.POISONED
        assert told.last_crash is not None
        assert "memory" in str(told.last_crash)
        assert on.keeper.deaths == 2


@pytest.mark.soak
async def test_an_activity_and_a_workflow_s_own_code_climb_the_same_ladder() -> None:
    async with stage() as on:
        by_activity = await on.workflow(WithActivity, "by-activity")
        by_code = await on.workflow(Fatal, "by-code")
        await by_code.signal(Fatal.tell)

        async def both_poisoned() -> bool:
            one, other = await by_activity.describe(), await by_code.describe()
            activities, task = one.pending_activities, other.pending_workflow_task
            return bool(
                activities and activities[0].crashes >= 3 and task is not None and task.crashes >= 3
            )

        await until(both_poisoned, 2 * POISONED_WITHIN_S)
        deaths = on.keeper.deaths
        on.let("cured")
        for handle in (by_activity, by_code):
            await handle.resume(reason="the code is mended")
        for handle in (by_activity, by_code):
            assert await handle.result(rpc_timeout=timedelta(seconds=SOON_S)) == handle.id
        assert on.keeper.deaths == deaths


def test_the_ledger_of_attempts_reads_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "attempts").write_text("a 1 0\nb 2 0\na 3 1\n")
    assert attempts_in(tmp_path, "a") == [Attempt("a", 1, 0), Attempt("a", 3, 1)]
