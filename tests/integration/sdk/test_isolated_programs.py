"""Whole programs with tasks that run alone: how they are started, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.sdk import alone_code as code
from tests.integration.sdk.fake_engine import PATIENCE_S, FakeEngine

from perdure.client import Client

QUEUE = "queue"
ROOT = Path(__file__).parents[3]

PROGRAM = """
import asyncio, os, sys
from tests.integration.sdk import alone_code as code
from perdure import activity
from perdure.client import Client
from perdure.worker import Worker

with open({log!r}, "a") as log:
    print("begins", file=log)

@activity.defn
async def of_the_script(unused: object) -> list[int]:
    return [os.getpid(), os.getppid()]

async def main() -> None:
    async with await Client.connect({address!r}) as client:
        await Worker(
            client, task_queue={queue!r}, workflows=[code.CallOne],
            activities=[*code.ACTIVITIES, of_the_script],
        ).run()

"""
GUARDED = 'if __name__ == "__main__":\n    asyncio.run(main())\n'
UNGUARDED = "asyncio.run(main())\n"


class Program:
    def __init__(self, folder: Path, address: str) -> None:
        self.log = folder / "log"
        self._script = folder / "program.py"
        self._text = PROGRAM.format(log=str(self.log), address=address, queue=QUEUE)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, end: str) -> None:
        self._script.write_text(self._text + end)
        path = os.pathsep.join([str(ROOT), *(one for one in sys.path if one)])
        self.process = subprocess.Popen(
            [sys.executable, str(self._script)], env={**os.environ, "PYTHONPATH": path}
        )

    @property
    def beginnings(self) -> int:
        return self.log.read_text().count("begins")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def program(tmp_path: Path, engine: FakeEngine) -> Iterator[Program]:
    engine.runs.attempts_have_crashed = 2
    program = Program(tmp_path, engine.address)
    yield program
    program.stop()


async def call(client: Client, name: str, arg: object = None) -> list[int]:
    found: list[int] = await client.execute_workflow(
        "CallOne", args=[name, arg], id=name, task_queue=QUEUE
    )
    return found


async def test_a_guarded_script_is_imported_again(
    program: Program, engine: FakeEngine, client: Client
) -> None:
    program.start(GUARDED)
    assert program.process is not None
    pid, parent = await call(client, "of_the_script")
    assert pid != parent == program.process.pid
    assert program.beginnings == 2


async def test_a_script_without_a_guard_is_not_run_again(
    program: Program, engine: FakeEngine, client: Client
) -> None:
    """It would start a second worker: it is forked instead."""
    program.start(UNGUARDED)
    assert program.process is not None
    pid, parent = await call(client, "of_the_script")
    assert pid != parent == program.process.pid
    assert program.beginnings == 1
    workers = {request.worker_id for request in engine.requests["PollTasks"]}
    assert len(workers) == 1


@pytest.mark.parametrize("end", [GUARDED, UNGUARDED], ids=["spawn", "fork"])
async def test_nothing_outlives_a_worker_that_is_killed(
    program: Program, engine: FakeEngine, client: Client, tmp_path: Path, end: str
) -> None:
    place = tmp_path / "place"
    os.mkfifo(place)
    program.start(end)
    assert program.process is not None
    await client.start_workflow(
        code.CallOne.run, args=["stubborn", str(place)], id="stubborn", task_queue=QUEUE
    )
    async with asyncio.timeout(PATIENCE_S):
        pid = int(await asyncio.to_thread(place.read_text))
    descriptor = os.pidfd_open(pid)
    try:
        program.process.send_signal(signal.SIGKILL)
        ready, _, _ = await asyncio.to_thread(select.select, [descriptor], [], [], PATIENCE_S)
    finally:
        os.close(descriptor)
    if not ready:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert ready
