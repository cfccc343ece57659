"""An engine and a database of our own: `perdure dev` as a child, durable, in a folder of its own."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from perdure.bench import proc
from perdure.bench.processes import Child, ProcessFailed, free_port
from perdure.client import Client
from perdure.errors import RPCError

# initdb on a busy machine, or the recovery after a kill.
READY_PATIENCE_S = 60.0
PROBE_TIMEOUT = timedelta(seconds=2)
PROBE_PAUSE_S = 0.1


class LocalEngine:
    """Ports stay the same over restarts, and so do the data: that is what restarts are for."""

    def __init__(self, data: Path, logs: Path, *, shards: int | None = None) -> None:
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self._data = data
        arguments = ["-m", "perdure", "dev", "--data", str(data)]
        arguments += ["--grpc-port", str(port), "--http-port", str(free_port())]
        environment = {"PERDURE_LOG_LEVEL": "warning"}
        if shards is not None:
            environment["PERDURE_DATABASE_NUMBER_OF_SHARDS"] = str(shards)
        self.child = Child("engine", arguments, logs / "engine.log", environment)

    @property
    def engine_pids(self) -> list[int]:
        pid = self.child.pid
        return [] if pid is None else [pid]

    @property
    def database_pids(self) -> list[int]:
        """All that the engine has started: the watcher, PostgreSQL and its backends."""
        pid = self.child.pid
        return [] if pid is None else proc.descendants(pid)

    @property
    def database_bytes(self) -> int:
        """Tables and indexes, without the write-ahead log."""
        return sum(
            path.stat().st_size
            for base in self._data.rglob("pgdata/base")
            for path in base.rglob("*")
            if path.is_file()
        )

    async def start(self) -> None:
        """Returns when it answers calls. Raises ProcessFailed when it ends or takes too long."""
        self.child.start()
        await self.wait_ready()

    async def wait_ready(self) -> None:
        client = await Client.connect(self.address, lazy=True)
        try:
            async with asyncio.timeout(READY_PATIENCE_S):
                while not await _answers(client):
                    self.child.check()
                    await asyncio.sleep(PROBE_PAUSE_S)
        except TimeoutError:
            raise ProcessFailed(
                f"the engine does not answer after {READY_PATIENCE_S:.0f} s."
                f" Its last lines:\n{self.child.tail()}"
            ) from None
        finally:
            await client.close()


async def _answers(client: Client) -> bool:
    try:
        await client.operator.describe_namespace("default", rpc_timeout=PROBE_TIMEOUT)
    except RPCError:
        return False
    return True
