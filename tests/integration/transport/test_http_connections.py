"""The API over real sockets: callers who are slow, greedy, many, or gone (reliability §4, B8, B43, B44, B46; F45)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.unit.frontend.fakes import Room, turn

from perdure_engine.core import limits
from perdure_engine.ports.metrics import Metrics
from perdure_engine.transport.http import connections, server
from perdure_engine.transport.http.rest.api import routes
from perdure_engine.transport.http.rest.reading import DRAINED_BYTES_MAX
from perdure_engine.transport.http.server import HttpServer, application

START = b"POST /workflows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


class Door:
    def __init__(self, room: Room, port: int) -> None:
        self.room = room
        self.history = room.history
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def is_open(self) -> bool:
        async with httpx.AsyncClient() as http:
            return (await http.get(f"{self.url}/health/live")).status_code == 200


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    room = Room()
    app = application(lambda: True, lambda: "perdure\n", rest=routes(room.frontend, Metrics()))
    http = HttpServer(app, "127.0.0.1", 0)
    await http.start()
    async with asyncio.timeout(30):
        yield Door(room, http.port)
    await http.stop()


async def test_b43_headers_that_dribble_end_the_connection(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.1)
    silent, silent_out = await door.connect()
    slow, slow_out = await door.connect()
    slow_out.write(b"GET /workflows HTTP/1.1\r\nhost: loc")
    await slow_out.drain()

    assert await silent.read() == b""
    assert await slow.read() == b""
    silent_out.close()
    slow_out.close()
    assert await door.is_open()


async def test_b43_the_next_request_of_a_connection_has_its_time_too(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = await door.connect()
    writer.write(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert (await reader.readuntil(b"live\n")).startswith(b"HTTP/1.1 200")
    monkeypatch.setattr(connections, "HEADERS_S", 0.1)
    writer.write(b"GET /health/li")
    await writer.drain()

    assert await reader.read() == b""
    writer.close()


async def test_a_request_under_way_is_not_cut_short(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only headers are timed: a call may wait for a minute."""
    monkeypatch.setattr(connections, "HEADERS_S", 0.05)
    async with httpx.AsyncClient() as http:
        told = await http.get(f"{door.url}/workflows/w1/result?timeout=0.3")

    assert told.json() == {"status": "RUNNING"}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("megabytes", [5, 10])
async def test_b8_who_sends_too_much_reads_why(door: Door, megabytes: int, chunked: bool) -> None:
    body = b'{"a":' * (megabytes * 200_000)

    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 65_536):
            yield body[at : at + 65_536]

    async with httpx.AsyncClient() as http:
        response = await http.post(
            f"{door.url}/workflows",
            content=parts() if chunked else body,
            headers={"content-type": "application/json"},
        )

    assert (response.status_code, response.json()["reason"]) == (413, "BODY_TOO_LARGE")
    assert not door.room.touched
    assert await door.is_open()


async def test_b8_what_just_fits_is_served(door: Door) -> None:
    """As much as a gRPC message may have; the limit of a payload is the handlers'."""
    frame = b'{"args":["%s"]}'
    body = frame % (b"x" * (limits.REQUEST_BYTES_MAX - len(frame) + 2))
    assert len(body) == limits.REQUEST_BYTES_MAX
    async with httpx.AsyncClient() as http:
        typed = {"content-type": "application/json"}
        url = f"{door.url}/workflows/w1/signals/s"
        fits = await http.post(url, content=body, headers=typed)
        over = await http.post(url, content=body + b" ", headers=typed)

    assert (fits.status_code, fits.json()["field"]) == (400, "args")
    assert over.status_code == 413


async def test_b46_chunks_that_never_end_are_refused_at_the_limit(door: Door) -> None:
    """With the first byte past what is drained. Who sent on would meet a reset, and lose the answer to it."""
    reader, writer = await door.connect()
    writer.write(START + b"transfer-encoding: chunked\r\n\r\n")
    assert DRAINED_BYTES_MAX % 0x10000 == 0
    for _ in range(DRAINED_BYTES_MAX // 0x10000):
        writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        await writer.drain()
    writer.write(b"1\r\n.\r\n")
    answer = await reader.readuntil(b"\r\n")
    assert answer.startswith(b"HTTP/1.1 413")
    writer.close()
    assert await door.is_open()


async def test_a_length_of_terabytes_is_refused_at_once(door: Door) -> None:
    reader, writer = await door.connect()
    writer.write(START + b"content-length: 1000000000000\r\n\r\n{")

    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_a_body_that_breaks_off_starts_nothing(door: Door) -> None:
    _, writer = await door.connect()
    writer.write(START + b'content-length: 100\r\n\r\n{"workflow_id":"w1"')
    await writer.drain()
    writer.close()
    await writer.wait_closed()

    assert await door.is_open()
    assert not door.room.touched


async def test_f45_who_waits_and_goes_leaves_nothing_parked(door: Door) -> None:
    reader, writer = await door.connect()
    writer.write(b"GET /workflows/w1/result HTTP/1.1\r\nhost: localhost\r\n\r\n")
    while not door.history.futures:
        await turn()
    assert len(door.room.frontend.parking) == 1
    writer.close()
    del reader
    while not door.history.futures[0].cancelled():
        await turn()

    while len(door.room.frontend.parking):
        await turn()


async def test_b44_connections_have_a_limit_and_an_answer_beyond_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    http = HttpServer(application(lambda: True, lambda: "perdure\n"), "127.0.0.1", 0)
    await http.start()
    door = Door(Room(), http.port)
    idle = [await door.connect() for _ in range(3)]
    async with httpx.AsyncClient() as client:
        refused = await client.get(f"{door.url}/health/live")
    for _, writer in idle:
        writer.close()
        await writer.wait_closed()

    assert refused.status_code == 503
    async with asyncio.timeout(10):
        while not await door.is_open():
            await turn()
    await http.stop()


async def test_head_has_the_headers_of_get_and_no_body(door: Door) -> None:
    async with httpx.AsyncClient() as http:
        get = await http.get(f"{door.url}/workflows")
        head = await http.head(f"{door.url}/workflows")

    assert head.content == b""
    assert head.headers["content-length"] == str(len(get.content))


async def test_an_id_is_told_from_its_path_by_how_it_was_quoted(door: Door) -> None:
    reader, writer = await door.connect()
    for target in (b"/workflows/a%2Fb:cancel", b"/workflows/a%253Ab:cancel"):
        writer.write(
            b"POST " + target + b" HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"
        )
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
    writer.close()

    found = [intent.workflow_id for _, intent in door.history.submitted]
    assert found == ["a/b", "a%3Ab"]
