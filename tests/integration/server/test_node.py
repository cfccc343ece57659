"""A node in this process, on a real database: it serves, it stops, and it says what is wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.engine_node import running_node
from tests.integration.server.calls import (
    SERVING,
    describe_workflow,
    get,
    health_of,
    start_workflow,
    until,
)
from tests.integration.server.engine_process import postgres_processes

from perdure_engine.server import lifecycle
from perdure_engine.server.embedded import EmbeddedPostgres
from perdure_engine.server.errors import ConfigError, StartError
from perdure_migrations import upgrade


async def test_a_node_serves_with_all_shards_and_stops(database_dsn: str) -> None:
    async with running_node(database_dsn) as node:
        assert await health_of(node.address) == SERVING
        assert node.owned_shards() == {1, 2, 3, 4}
        assert node.ready()
        run_id = await start_workflow(node.address, "idle")
        assert await describe_workflow(node.address, "idle") == run_id

    assert not node.ready()
    with socket.socket() as probe:
        assert probe.connect_ex(_pair(node.address)) != 0
    await node.stop()


async def test_http_tells_health_and_what_this_is(database_dsn: str) -> None:
    async with running_node(database_dsn) as node:
        live = await asyncio.to_thread(get, node.http_address, "/health/live")
        ready = await asyncio.to_thread(get, node.http_address, "/health/ready")
        about = await asyncio.to_thread(get, node.http_address, "/")
        missing = await asyncio.to_thread(get, node.http_address, "/nothing")

    assert live == (200, "live\n")
    assert ready == (200, "ready\n")
    assert about[0] == 200
    assert node.address in about[1]
    assert "PostgreSQL" in about[1]
    assert missing[0] == 404


async def test_a_stop_gives_lease_and_shards_back(database_dsn: str) -> None:
    async with running_node(database_dsn):
        pass

    with psycopg.connect(database_dsn) as connection:
        assert connection.execute("select count(*) from nodes").fetchone() == (0,)
        owners = connection.execute("select distinct owner_id::text from shard_fence").fetchall()
    assert owners == [("00000000-0000-0000-0000-000000000000",)]


async def test_the_next_node_finds_what_the_last_one_saved(database_dsn: str) -> None:
    async with running_node(database_dsn) as node:
        run_id = await start_workflow(node.address, "idle")
    async with running_node(database_dsn) as node:
        assert await describe_workflow(node.address, "idle") == run_id


async def test_two_nodes_share_the_shards_and_a_stop_hands_them_over(many_shards_dsn: str) -> None:
    async with running_node(many_shards_dsn) as first:
        everything = first.owned_shards()
        assert len(everything) == first.number_of_shards

        async with running_node(many_shards_dsn) as second:

            def settled() -> bool:
                one, two = first.owned_shards(), second.owned_shards()
                return bool(one and two) and one | two == everything and not one & two

            await until(settled, 20.0, "each shard has one of the two nodes")

        await until(lambda: first.owned_shards() == everything, 5.0, "the first has them all again")
        assert second.owned_shards() == frozenset()


async def test_a_port_that_is_taken_stops_the_start(database_dsn: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for setting in ("grpc.port", "http.port"):
            with pytest.raises(StartError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
                async with running_node(database_dsn, {setting: port}):
                    pytest.fail("it started")

    with psycopg.connect(database_dsn) as connection:
        assert connection.execute("select count(*) from nodes").fetchone() == (0,)


async def test_what_is_wrong_with_the_database_is_said_without_its_password(
    database_dsn: str, empty_dsn: str
) -> None:
    with pytest.raises(StartError):
        async with running_node(empty_dsn):
            pytest.fail("it started without a schema")
    with pytest.raises(ConfigError, match="has 4"):
        async with running_node(database_dsn, {"database.number_of_shards": 8}):
            pytest.fail("it started with another number of shards")
    with pytest.raises(StartError, match="does not answer") as refused:
        await _start_elsewhere()
    assert "s3cret" not in str(refused.value)


async def test_a_database_that_does_not_sync_is_refused_unless_allowed(database_dsn: str) -> None:
    with pytest.raises(StartError, match=r"fsync is off.*PERDURE_DATABASE_ALLOW_UNSAFE"):
        async with running_node(database_dsn, {"database.allow_unsafe": False}):
            pytest.fail("it started")


async def test_a_database_that_hangs_cannot_hang_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_s = 3.0
    monkeypatch.setattr(lifecycle, "STOP_S", stop_s)
    loop = asyncio.get_running_loop()
    server = EmbeddedPostgres(tmp_path, settings={"fsync": "off"})
    dsn = await asyncio.to_thread(server.start)
    try:
        await asyncio.to_thread(upgrade, dsn)
        async with running_node(dsn) as node:
            await start_workflow(node.address, "idle")
            with _frozen(tmp_path):
                began = loop.time()
                await node.stop()
                took_s = loop.time() - began
    finally:
        await asyncio.to_thread(server.stop)

    assert took_s < stop_s + 1.0


async def _start_elsewhere() -> None:
    with socket.socket() as nobody:  # bound, but not listening
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        async with running_node(
            "dbname=perdure", {"database.url": f"host=127.0.0.1 port={port} dbname=perdure"}
        ):
            pytest.fail("it started")


@contextmanager
def _frozen(folder: Path) -> Iterator[None]:
    """The server and all its backends stand still: nothing is refused, nothing is answered."""
    pids = list(postgres_processes(folder))
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
