"""The worker of the bench, a process of its own.

    python -m perdure.bench.worker --address HOST:PORT --namespace NAME --task-queue NAME
                                   --folder DIR [--jobs] [--other-queue NAME]

Runs until SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure.bench import workflows
from perdure.bench.bed import EFFECTS
from perdure.bench.effects import EffectLog
from perdure.bench.job_log import JobLog
from perdure.client import Client
from perdure.worker import Worker, tune_garbage_collector, tune_grpc

# As many places as W1 keeps workflows in flight, and as W10 starts activities at once.
WORKFLOW_TASKS_MAX = 256
ACTIVITIES_MAX = 500
# Of W4 and W5: jobs come by thousands, and a poll brings up to half of the places.
JOBS_MAX = 2_000
CACHED_WORKFLOWS_MAX = 2_000


async def serve(arguments: argparse.Namespace) -> None:
    client = await Client.connect(
        arguments.address, namespace=arguments.namespace, identity="bench-worker", lazy=True
    )
    effects, jobs = EffectLog(arguments.folder / EFFECTS), JobLog(arguments.folder)
    worker = Worker(
        client,
        task_queue=arguments.task_queue,
        workflows=workflows.ALL,
        activities=[
            *(workflows.no_op, workflows.same, effects.record),
            *(jobs.count, jobs.late),
        ],
        max_cached_workflows=CACHED_WORKFLOWS_MAX,
        max_concurrent_workflow_tasks=WORKFLOW_TASKS_MAX,
        max_concurrent_activities=JOBS_MAX if arguments.jobs else ACTIVITIES_MAX,
        graceful_shutdown_timeout=timedelta(seconds=5),
    )
    async with AsyncExitStack() as beside:
        if arguments.other_queue:
            other = Worker(client, task_queue=arguments.other_queue, activities=[jobs.count])
            await beside.enter_async_context(other)
        await run_until_terminated(worker)
    await client.close()


async def run_until_terminated(worker: Worker) -> None:
    """Returns when the worker has stopped: after SIGTERM, in order."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    async with worker:
        await asked.wait()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed, as `perdure.worker` tells users to do it."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    uvloop: Any = importlib.import_module("uvloop")
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--task-queue", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--jobs", action="store_true")
    parser.add_argument("--other-queue")
    tune_garbage_collector()
    tune_grpc()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
