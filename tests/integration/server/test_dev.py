"""`perdure dev` as its user runs it: start, Ctrl-C, start again, and kill -9."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.server.calls import (
    SERVING,
    describe_workflow,
    get,
    health_of,
    start_workflow,
)
from tests.integration.server.engine_process import EngineProcess, assert_no_postgres, run

ANY_FREE_PORTS = ("--grpc-port", "0", "--http-port", "0")


@pytest.fixture
def data(scratch_dir: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A data folder; nothing of its PostgreSQL may be left when the test ends."""
    folder = scratch_dir / f"dev-{request.node.name}"
    yield folder
    assert_no_postgres(folder)


def dev(data: Path, *more: str) -> EngineProcess:
    return EngineProcess("dev", "--data", str(data), *ANY_FREE_PORTS, *more)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_starts_and_a_signal_stops_it_cleanly(data: Path, number: signal.Signals) -> None:
    with dev(data) as engine:
        address = engine.grpc_address()
        http_address = engine.wait_for(r"HTTP +http://(\S+)")
        assert engine.wait_for(r"Data +(\S+)") == str(data)
        assert await health_of(address) == SERVING
        assert "4 of 4" in get(http_address, "/")[1]

        assert engine.stop(number) == 0
        assert_no_postgres(data)


async def test_the_number_of_shards_is_fixed_by_the_first_start(data: Path) -> None:
    with dev(data, "--number-of-shards", "7") as engine:
        http_address = engine.wait_for(r"HTTP +http://(\S+)")
        assert "7 of 7" in get(http_address, "/")[1]
        assert engine.stop(signal.SIGINT) == 0
    with dev(data) as engine:
        http_address = engine.wait_for(r"HTTP +http://(\S+)")
        assert "7 of 7" in get(http_address, "/")[1]
        assert engine.stop(signal.SIGINT) == 0
    other = run("dev", "--data", str(data), *ANY_FREE_PORTS, "--number-of-shards", "8")
    assert other.returncode == 2
    assert "7 shards" in other.stderr


async def test_a_second_start_finds_the_same_workflows(data: Path) -> None:
    with dev(data) as engine:
        run_id = await start_workflow(engine.grpc_address(), "idle")
        assert engine.stop(signal.SIGINT) == 0
    with dev(data) as engine:
        assert await describe_workflow(engine.grpc_address(), "idle") == run_id
        assert engine.stop(signal.SIGINT) == 0


async def test_a_start_after_kill_9_has_all_shards_at_once(data: Path) -> None:
    with dev(data) as engine:
        run_id = await start_workflow(engine.grpc_address(), "idle")
        assert engine.stop(signal.SIGKILL) == -signal.SIGKILL
    with dev(data) as engine:
        address = engine.grpc_address()
        http_address = engine.wait_for(r"HTTP +http://(\S+)")
        # Not after the six seconds of the dead node's lease.
        assert "4 of 4" in get(http_address, "/")[1]
        assert await describe_workflow(address, "idle") == run_id
        assert engine.stop(signal.SIGINT) == 0


def test_a_folder_in_use_is_refused(data: Path) -> None:
    with dev(data) as engine:
        engine.grpc_address()
        second = run("dev", "--data", str(data), *ANY_FREE_PORTS)
        assert engine.stop(signal.SIGINT) == 0

    assert second.returncode == 1
    assert f"in use by process {engine.process.pid}" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_port_in_use_is_refused_and_nothing_is_left(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = run("dev", "--data", str(data), "--grpc-port", port, "--http-port", "0")

    assert refused.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert_no_postgres(data)
