"""Channels to the engine: how they are opened, limited and kept alive."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio

from perdure.errors import RPCError, RPCStatusCode

# One request's limit everywhere in Perdure: 4 MiB of content, 64 KiB for what surrounds it.
MESSAGE_BYTES_MAX = 4 * 1024 * 1024 + 64 * 1024
# Where a sender cuts a batch: half of the limit, so that the last item may be a payload at its own
# limit (2 MiB) and the message still passes.
BATCH_BYTES_MAX = 2 * 1024 * 1024

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # The engine's own limit for what it sends: one task may bring two payloads of 2 MiB and more.
    ("grpc.max_receive_message_length", 2 * MESSAGE_BYTES_MAX),
    # An engine that vanished without closing its connection is noticed after 40 s even though
    # nothing but parked polls is under way; without calls under way nobody needs to know.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # An engine that restarts is found again within a second (gRPC's own limit is 2 minutes).
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # Retries are ours: they keep the request id and honour what the engine says.
    ("grpc.enable_retries", 0),
)
# The heartbeat's channel must not share a connection with the calls, whose flow control a blocked
# event loop brings to a halt.
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


class Connection:
    """One asyncio channel to the engine, bound to the running event loop.

    Opening never fails: an engine that is not there is an UNAVAILABLE of the first call.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self._channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        self._closed = False

    @property
    def channel(self) -> grpc.aio.Channel:
        """Raises RPCError CANCELLED once it is closed: gRPC crashes the process that makes a stub of one."""
        if self._closed:
            raise RPCError(f"the connection to {self.target} is closed", RPCStatusCode.CANCELLED)
        return self._channel

    async def wait_ready(self, timeout_s: float) -> None:
        """Returns once the engine answers; RPCError UNAVAILABLE when it does not in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.channel.channel_ready()
        except TimeoutError:
            message = f"no engine answers at {self.target}"
            raise RPCError(message, RPCStatusCode.UNAVAILABLE) from None

    async def close(self) -> None:
        """Calls under way are cancelled. Closing twice is fine."""
        self._closed = True
        await self._channel.close()


def open_blocking_channel(target: str) -> grpc.Channel:
    """A channel for use from threads, on a connection of its own."""
    return grpc.insecure_channel(target, options=_OPTIONS + _OWN_CONNECTION)
