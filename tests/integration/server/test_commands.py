"""`perdure db` and `perdure server`, as processes of their own."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import grpc
import psycopg
from tests.integration.server.calls import (
    POLL_S,
    SERVING,
    describe_workflow,
    health_of,
    start_workflow,
)
from tests.integration.server.engine_process import EngineProcess, run

ANY_FREE_PORTS = ("--grpc-port", "0", "--http-port", "0")


def database(dsn: str) -> dict[str, str]:
    return {"PERDURE_DATABASE_URL": dsn, "PERDURE_DATABASE_ALLOW_UNSAFE": "true"}


def test_migrate_and_status(empty_dsn: str) -> None:
    before = run("db", "status", "-o", "json", more=database(empty_dsn))
    migrated = run("db", "migrate", "--shards", "8", more=database(empty_dsn))
    again = run("db", "migrate", more=database(empty_dsn))
    other = run("db", "migrate", "--shards", "9", more=database(empty_dsn))
    after = run("db", "status", "-o", "json", more=database(empty_dsn))

    assert before.returncode == 1
    assert json.loads(before.stdout)["schema"] is None
    assert migrated.returncode == again.returncode == 0, migrated.stderr + again.stderr
    assert "8 shards" in again.stdout
    assert other.returncode == 2
    assert "8 shards" in other.stderr
    assert after.returncode == 0
    facts = json.loads(after.stdout)
    assert (facts["number_of_shards"], facts["ready"]) == (8, True)


def test_a_server_needs_a_database_with_the_schema(empty_dsn: str) -> None:
    nowhere = run("server")
    empty = run("server", more=database(empty_dsn))
    gone = run("server", more=database(f"{empty_dsn}&dbname=nothing&password=s3cret"))

    assert nowhere.returncode == 2
    assert "PERDURE_DATABASE_URL" in nowhere.stderr
    assert empty.returncode == 1
    assert "perdure db migrate" in empty.stderr
    assert gone.returncode == 1
    assert "does not answer" in gone.stderr
    assert "s3cret" not in gone.stderr
    assert "Traceback" not in nowhere.stderr + empty.stderr + gone.stderr


async def test_a_server_takes_its_settings_from_a_file_and_stops_on_sigterm(
    database_dsn: str, tmp_path: Path
) -> None:
    file = tmp_path / "perdure.toml"
    file.write_text(
        f"[database]\nurl = '{database_dsn}'\nallow_unsafe = true\n[log]\nlevel = 'warning'\n"
    )

    with EngineProcess("server", "--config", str(file), *ANY_FREE_PORTS) as engine:
        address = engine.grpc_address()
        assert await health_of(address) == SERVING
        assert engine.stop(signal.SIGTERM) == 0

    with psycopg.connect(database_dsn) as connection:
        assert connection.execute("select count(*) from nodes").fetchone() == (0,)


async def test_a_server_takes_over_from_one_that_was_killed(database_dsn: str) -> None:
    with EngineProcess("server", *ANY_FREE_PORTS, more=database(database_dsn)) as killed:
        run_id = await start_workflow(killed.grpc_address(), "idle")
        with EngineProcess("server", *ANY_FREE_PORTS, more=database(database_dsn)) as heir:
            address = heir.grpc_address()
            killed.stop(signal.SIGKILL)
            assert await _described_within(address, 15.0) == run_id
            assert heir.stop(signal.SIGTERM) == 0


async def _described_within(address: str, deadline_s: float) -> str:
    """Asks until the shard has come to the node."""
    async with asyncio.timeout(deadline_s):
        while True:
            try:
                return await describe_workflow(address, "idle")
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(POLL_S)
