"""Ways to the engine for tests that call it without the SDK: they try again, as every client has to.

An engine whose process stood still for a second does not trust its lease until it is renewed, and
refuses for that long with UNAVAILABLE: on a busy machine that happens in the middle of any test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import grpc
import httpx

ATTEMPTS = 5
FIRST_PAUSE_S = 0.1

RETRIES: Mapping[str, object] = {
    "methodConfig": [
        {
            "name": [{}],  # every method
            "retryPolicy": {
                "maxAttempts": ATTEMPTS,
                "initialBackoff": f"{FIRST_PAUSE_S}s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


def channel_to(address: str) -> grpc.aio.Channel:
    """A channel to the engine at `address` ("host:port")."""
    return grpc.aio.insecure_channel(address, [("grpc.service_config", json.dumps(RETRIES))])


def http_to(address: str) -> httpx.AsyncClient:
    """A client of the engine's HTTP at `address` ("host:port")."""
    return httpx.AsyncClient(
        base_url=f"http://{address}", timeout=30, transport=_RetryingTransport()
    )


class _RetryingTransport(httpx.AsyncHTTPTransport):
    """HTTP to an engine: a 503 is tried again."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for attempt in range(ATTEMPTS - 1):
            response = await super().handle_async_request(request)
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return response
            await response.aclose()
            await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)  # noqa: TID251 - a retry's
        return await super().handle_async_request(request)
