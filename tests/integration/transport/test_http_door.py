"""The HTTP door and what it is not asked for in good faith (reliability §4, B46): it answers shortly, and lives on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from perdure_engine.transport.http.server import HttpServer, application


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = HttpServer(application(lambda: True, lambda: "perdure\n"), "127.0.0.1", 0)
    await server.start()
    yield server.port
    await server.stop()


async def said(port: int, raw: bytes) -> bytes:
    """All that comes back until the server closes."""
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw)
        await writer.drain()
        answer = await reader.read()
        writer.close()
    return answer


def request(target: bytes, method: bytes = b"GET", *headers: bytes, body: bytes = b"") -> bytes:
    lines = (method + b" " + target + b" HTTP/1.1", b"host: a", b"connection: close", *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (request(b"/health/live/../../etc/passwd"), b"404"),
        (request(b"/..%2f..%2fetc/passwd"), b"404"),
        (request(b"/%2e%2e/%2e%2e/etc/passwd"), b"404"),
        (request(b"/..;/metrics"), b"404"),
        (request(b"/%252e%252e/metrics"), b"404"),
        (request(b"/metrics", b"POST", b"content-length: 4", body=b"a=b&"), b"405"),
        (request(b"/health/live", b"DELETE"), b"405"),
        (request(b"/metrics", b"GET", b"content-length: x"), b"400"),
        (request(b"/metrics", b"GET", b"transfer-encoding: chunked", body=b"zz\r\n"), b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500) + b"\r\n\r\n", b"400"),
    ],
)
async def test_b46_what_is_no_request_of_ours_gets_a_short_refusal(
    port: int, raw: bytes, status: bytes
) -> None:
    answer = await said(port, raw)

    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]
    assert len(answer) < 1_000
    assert b"Traceback" not in answer
    assert b"root:" not in answer
    assert (await said(port, request(b"/health/live"))).endswith(b"live\n")
