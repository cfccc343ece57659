"""A node on an embedded PostgreSQL of its own, in a folder that is removed with it. Time is real."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from typing import Self

from perdure_engine.server import schema
from perdure_engine.server.config import Config, DatabaseConfig, GrpcConfig, HttpConfig
from perdure_engine.server.embedded import EmbeddedPostgres, EmbeddedPostgresError
from perdure_engine.server.errors import ServerError
from perdure_engine.server.wiring import start_node

# What is lost when the machine stops is no loss here.
SETTINGS = {"fsync": "off", "max_wal_size": "256MB"}


class LocalEngine:
    """Implements server.in_process.Engine."""

    skips_time = False

    def __init__(self, address: str, undo: AsyncExitStack) -> None:
        self.address = address
        self._undo = undo

    @classmethod
    async def start(cls) -> Self:
        try:
            return await cls._start()
        except (EmbeddedPostgresError, ServerError) as error:
            raise RuntimeError(f"no local engine: {error}") from error

    @classmethod
    async def _start(cls) -> Self:
        async with AsyncExitStack() as undo:
            folder = Path(tempfile.mkdtemp(prefix="perdure-local-"))
            undo.push_async_callback(asyncio.to_thread, shutil.rmtree, folder)
            postgres = EmbeddedPostgres(folder / "postgres", settings=SETTINGS)
            undo.push_async_callback(asyncio.to_thread, postgres.stop)
            url = await asyncio.to_thread(postgres.start)
            config = Config(
                database=DatabaseConfig(url=url, allow_unsafe=True),
                grpc=GrpcConfig(port=0),
                http=HttpConfig(port=0),
            )
            await asyncio.to_thread(schema.migrate, config, schema.SHARDS_DEFAULT_DEV)
            node = await start_node(config)
            undo.push_async_callback(node.stop)
            return cls(node.address, undo.pop_all())

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def time_held(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def stop(self) -> None:
        await self._undo.aclose()
