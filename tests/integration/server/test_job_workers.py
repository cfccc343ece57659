"""Workers and engines that are stopped with jobs in hand, and workers that come and go with the backlog."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine_node import running_node
from tests.integration.server.calls import CALL_S, until
from tests.integration.server.engine_process import EngineProcess, environment

from perdure import job
from perdure.client import Client, TaskQueueKindInfo
from perdure.job import JobStatus
from perdure_engine.server import addresses

PROGRAM = Path(__file__).with_name("job_worker.py")
GRACE_S = 10.0
QUEUE = "work"


class JobWorker:
    """A worker process, and what its jobs have said."""

    def __init__(self, address: str, log: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), "--address", address, "--log", str(log), *options],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.wait_for("polling")

    def wait_for(self, word: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.strip() == word, line

    def release(self) -> None:
        """Its jobs may end, and those to come as soon as they have begun."""
        self.process.send_signal(signal.SIGUSR1)

    def ask_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self, deadline_s: float) -> int:
        return self.process.wait(deadline_s)


@contextmanager
def worker(address: str, log: Path, *options: str) -> Iterator[JobWorker]:
    started = JobWorker(address, log, *options)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait()
        assert started.process.stdout is not None
        started.process.stdout.close()


def said(log: Path, what: str, pid: int | None = None) -> Counter[int]:
    """The numbers of the jobs that have begun, or are done; how often each."""
    if not log.exists():
        return Counter()
    lines = [line.split() for line in log.read_text().splitlines()]
    return Counter(
        int(number)
        for word, number, _, of_pid in lines
        if word == what and pid in (None, int(of_pid))
    )


async def create(client: Client, count: int) -> None:
    jobs = [job.new("hold", number, queue=QUEUE) for number in range(count)]
    await client.jobs.create_many(jobs)


async def completed(client: Client) -> int:
    return (await client.jobs.count(status=JobStatus.COMPLETED)).count


async def all_completed(client: Client, count: int) -> None:
    async with asyncio.timeout(6 * CALL_S):
        async for one in client.jobs.list():
            await client.jobs.get(one.id).result()
    assert await completed(client) == count


async def test_a_worker_that_is_stopped_ends_the_jobs_it_has_and_takes_no_others(
    database_dsn: str, tmp_path: Path
) -> None:
    """None lost, none run twice, and the process ends as soon as the last of them has."""
    log = tmp_path / "log"
    async with running_node(database_dsn) as node:
        client = await Client.connect(node.address)
        with worker(node.address, log, "--held") as first:
            await create(client, 80)
            await until(lambda: len(said(log, "begun")) == 50, CALL_S, "its places are taken")
            first.ask_to_stop()
            await asyncio.to_thread(first.wait_for, "stopping")
            first.release()
            code = await asyncio.to_thread(first.exit_code, GRACE_S)
            assert code == 0
        assert said(log, "done") == said(log, "begun")
        assert await completed(client) == len(said(log, "done")) == 50

        with worker(node.address, log) as second:
            await all_completed(client, 80)
            second.ask_to_stop()
            assert await asyncio.to_thread(second.exit_code, GRACE_S) == 0
        assert said(log, "done") == said(log, "begun") == Counter(range(80))
        await client.close()


async def test_what_does_not_end_within_the_grace_is_given_back(
    database_dsn: str, tmp_path: Path
) -> None:
    """Begun twice, then, but done once, in its first attempt, and at once: nobody waits for a lease to end."""
    log = tmp_path / "log"
    async with running_node(database_dsn, {"history.lease_s": 60}) as node:
        client = await Client.connect(node.address)
        with worker(node.address, log, "--held", "--grace-s", "0.2") as first:
            await create(client, 20)
            await until(lambda: len(said(log, "begun")) == 20, CALL_S, "all have begun")
            first.ask_to_stop()
            assert await asyncio.to_thread(first.exit_code, GRACE_S) == 0
        assert not said(log, "done")

        with worker(node.address, log):
            await all_completed(client, 20)
        assert said(log, "done") == Counter(range(20))
        assert {line.split()[2] for line in log.read_text().splitlines()} == {"1"}
        await client.close()


async def test_an_engine_that_is_stopped_leaves_jobs_with_their_workers(
    database_dsn: str, tmp_path: Path
) -> None:
    """The next engine adopts them: what was in hand is done once, and never handed out again."""
    log = tmp_path / "log"
    port = addresses.free_port("127.0.0.1")
    settings = {
        "PERDURE_DATABASE_URL": database_dsn,
        "PERDURE_DATABASE_ALLOW_UNSAFE": "true",
        "PERDURE_GRPC_PORT": str(port),
        "PERDURE_HTTP_PORT": "0",
    }
    address = f"127.0.0.1:{port}"
    client = await Client.connect(address, lazy=True)
    with EngineProcess("server", more=settings) as engine:
        engine.grpc_address()
        with worker(address, log, "--held") as holder:
            await create(client, 50)
            await until(lambda: len(said(log, "begun")) == 50, CALL_S, "all have begun")
            assert await asyncio.to_thread(engine.stop, signal.SIGTERM) == 0
            with EngineProcess("server", more=settings) as heir:
                heir.grpc_address()
                holder.release()
                await all_completed(client, 50)
                holder.ask_to_stop()
                assert await asyncio.to_thread(holder.exit_code, GRACE_S) == 0
                assert said(log, "done") == said(log, "begun") == Counter(range(50))
                assert heir.stop(signal.SIGTERM) == 0
    await client.close()


class Autoscaler:
    """As KEDA or a HorizontalPodAutoscaler does it: more workers while the oldest job waits too long, fewer when
    nothing waits."""

    def __init__(self, age_max_s: float, workers_max: int) -> None:
        self.age_max_s = age_max_s
        self.workers_max = workers_max

    def wanted(self, queue: TaskQueueKindInfo, workers: int) -> int:
        if queue.backlog_age.total_seconds() > self.age_max_s:
            return min(workers + 1, self.workers_max)
        return workers if queue.backlog_count else 1


async def test_workers_come_and_go_with_the_backlog(database_dsn: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    scaler = Autoscaler(age_max_s=0.5, workers_max=2)
    async with running_node(database_dsn) as node:
        client = await Client.connect(node.address)

        async def wanted(workers: int) -> int:
            described = await client.operator.describe_task_queue(QUEUE)
            return scaler.wanted(described.job, workers)

        async def scaled_to(number: int, workers: int) -> None:
            async with asyncio.timeout(3 * CALL_S):
                while await wanted(workers) != number:
                    pass  # each look is a call: the loop turns meanwhile

        with worker(node.address, log, "--places", "4", "--held") as first:
            assert await wanted(1) == 1
            await create(client, 300)
            described = await client.operator.describe_task_queue(QUEUE)
            assert described.job.backlog_count >= 300 - 4
            assert described.job.pollers == 1
            await scaled_to(2, workers=1)
            with worker(node.address, log, "--places", "4") as second:
                pid = second.process.pid
                await until(lambda: said(log, "done", pid), CALL_S, "the second has work")
                first.release()
                await scaled_to(1, workers=2)
                second.ask_to_stop()
                assert await asyncio.to_thread(second.exit_code, GRACE_S) == 0
            await all_completed(client, 300)
            described = await client.operator.describe_task_queue(QUEUE)
            assert described.job.backlog_count == 0
        assert said(log, "done") == said(log, "begun") == Counter(range(300))
        await client.close()
