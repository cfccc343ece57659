"""A worker of code that takes its process down, and of code that only happens to be beside it.

    python -P -m tests.chaos.poisonous --task-queue NAME --folder FOLDER --address HOST:PORT

What kills does so until the file `cured` is in the folder. Every attempt leaves a line in `attempts`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from tests.waiting import wait_until

from perdure import activity, workflow
from perdure.client import Client
from perdure.worker import SurgicalPool, Worker

STEP_TIMEOUT = timedelta(minutes=5)
MEMORY_LIMIT_BYTES = 300 * 1024 * 1024
LEAKED_BYTES = 2 * MEMORY_LIMIT_BYTES
LEAK_STEP_BYTES = 4 * 1024 * 1024

_folder = Path()


class Attempt(NamedTuple):
    name: str
    pid: int
    crashes: int

    def note(self) -> None:
        line = f"{self.name} {self.pid} {self.crashes}\n".encode()
        descriptor = os.open(_folder / "attempts", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)


def attempts_in(folder: Path, name: str) -> list[Attempt]:
    """Of one task, in their order."""
    noted = folder / "attempts"
    lines = noted.read_text().splitlines() if noted.exists() else []
    found = [Attempt(words[0], int(words[1]), int(words[2])) for words in map(str.split, lines)]
    return [attempt for attempt in found if attempt.name == name]


def _begin(name: str) -> bool:
    """Whether it is cured."""
    Attempt(name, os.getpid(), activity.info().crashes).note()
    return (_folder / "cured").exists()


@activity.defn(name="kill")
async def kill(name: str) -> str:
    if not _begin(name):
        os.kill(os.getpid(), signal.SIGKILL)
    return name


@activity.defn(name="leak")
def leak(name: str) -> str:
    """Where nobody stops it, it goes down like one that the kernel has killed."""
    if not _begin(name):
        kept = []
        for _ in range(LEAKED_BYTES // LEAK_STEP_BYTES):
            kept.append(b"x" * LEAK_STEP_BYTES)
            activity.heartbeat()
        os.kill(os.getpid(), signal.SIGKILL)
    return name


@activity.defn(name="bystand")
async def bystand(name: str) -> str:
    """Ends when it is told to, by a file of its name."""
    Attempt(name, os.getpid(), activity.info().crashes).note()
    await asyncio.to_thread(
        wait_until, (_folder / f"{name}.go").exists, STEP_TIMEOUT.total_seconds()
    )
    return name


@workflow.defn
class WithActivity:
    @workflow.run
    async def run(self, name: str) -> str:
        return await workflow.execute_activity(kill, name, start_to_close_timeout=STEP_TIMEOUT)


@workflow.defn(sandboxed=False)
class Fatal:
    """Its own code kills, once it is signalled. It has no `info().crashes` to note."""

    def __init__(self) -> None:
        self._told = False

    @workflow.run
    async def run(self, name: str) -> str:
        await workflow.wait_condition(lambda: self._told)
        if not (_folder / "cured").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return name

    @workflow.signal
    def tell(self) -> None:
        self._told = True


ACTIVITIES = (kill, leak, bystand)
WORKFLOWS = (WithActivity, Fatal)


async def serve(arguments: argparse.Namespace) -> None:
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    client = await Client.connect(arguments.address, lazy=True)
    worker = Worker(
        client,
        task_queue=arguments.task_queue,
        workflows=WORKFLOWS,
        activities=ACTIVITIES,
        surgical=SurgicalPool(memory_limit_bytes=MEMORY_LIMIT_BYTES),
        graceful_shutdown_timeout=timedelta(seconds=1),
    )
    async with worker:
        await asked.wait()
    await client.close()


def use(folder: Path) -> None:
    global _folder
    _folder = folder


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--task-queue", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args(given)
    use(arguments.folder)
    asyncio.run(serve(arguments))


if __name__ == "__main__":
    main()
