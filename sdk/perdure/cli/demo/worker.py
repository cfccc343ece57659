"""The worker of the demo, a process of its own, to be killed.

python -m perdure.cli.demo.worker --address HOST:PORT --task-queue NAME --ledger FILE
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from perdure.bench.worker import run_until_terminated
from perdure.cli.demo.ledger import Ledger
from perdure.cli.demo.order import OrderWorkflow, Shop
from perdure.client import Client
from perdure.worker import Worker


async def serve(arguments: argparse.Namespace) -> None:
    # Lazy: the engine is started at the same time.
    async with await Client.connect(arguments.address, identity="demo-worker", lazy=True) as client:
        shop = Shop(Ledger(arguments.ledger))
        await run_until_terminated(
            Worker(
                client,
                task_queue=arguments.task_queue,
                workflows=[OrderWorkflow],
                activities=[shop.reserve, shop.charge, shop.notify],
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--task-queue", required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
