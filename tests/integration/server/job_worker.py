"""A worker process whose jobs say what they do in a file, and end when they are told to (SIGUSR1).

Each job adds a line when it begins and one when it ends: its number, its attempt and the process. SIGTERM stops the
worker in order.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

from perdure import activity
from perdure.client import Client
from perdure.worker import Worker


class Jobs:
    def __init__(self, log: Path, *, held: bool) -> None:
        self._log = log
        self.released = asyncio.Event()
        if not held:
            self.released.set()

    @activity.defn(name="hold")
    async def hold(self, number: int) -> int:
        self._say("begun", number)
        await self.released.wait()
        self._say("done", number)
        return number

    def _say(self, what: str, number: int) -> None:
        """A line is written at once and whole, beside those of other processes."""
        line = f"{what} {number} {activity.info().attempt} {os.getpid()}\n"
        descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


async def serve(arguments: argparse.Namespace) -> None:
    jobs = Jobs(arguments.log, held=arguments.held)
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    loop.add_signal_handler(signal.SIGUSR1, jobs.released.set)
    client = await Client.connect(arguments.address, lazy=True)
    worker = Worker(
        client,
        task_queue=arguments.queue,
        activities=[jobs.hold],
        max_concurrent_activities=arguments.places,
        graceful_shutdown_timeout=timedelta(seconds=arguments.grace_s),
    )
    async with worker:
        print("polling", flush=True)
        await asked.wait()
        print("stopping", flush=True)
    await client.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--queue", default="work")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--places", type=int, default=50)
    parser.add_argument("--grace-s", type=float, default=10.0)
    parser.add_argument("--held", action="store_true")
    asyncio.run(serve(parser.parse_args()))
