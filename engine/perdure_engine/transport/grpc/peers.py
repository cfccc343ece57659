"""The other nodes of the cluster, reached over gRPC. Implements ports.delivery.Peers.

A message goes to the node that the ring gives its shard to. While a shard moves that may be the wrong one: it says so
and the message is sent again, like every message without a definite answer.
"""

from __future__ import annotations

import asyncio

import grpc
from google.protobuf.message import DecodeError
from google.rpc import (  # type: ignore[import-untyped]  # ships stubs but no py.typed
    error_details_pb2,
    status_pb2,
)

from perdure_api.internal.v1 import engine_service_pb2 as pb
from perdure_engine.core import limits
from perdure_engine.core.errors import Code, Rejected, unavailable
from perdure_engine.core.intents import DeliveredIntent
from perdure_engine.core.replies import RunStatus
from perdure_engine.core.status import Status
from perdure_engine.frontend.seal import Sealer
from perdure_engine.ports.membership import Membership
from perdure_engine.transport.grpc.convert.delivered import encode_intent
from perdure_engine.transport.grpc.errors import DETAILS_KEY
from perdure_engine.transport.grpc.server import OPTIONS

METHOD = "/perdure_api.internal.v1.EngineService/Deliver"
CALL_LIMIT_S = (
    10.0  # a commit takes milliseconds; a database that is away for longer is asked again
)
CLOSE_GRACE_S = 1.0
# Refused by gRPC without a word of ours. Only a failure of nearly a whole request could come so far: it is an alarm.
INTENT_BYTES_MAX = limits.REQUEST_BYTES_MAX - 1024
# What the receiver itself says; all else (no connection, a deadline, a method unknown to an older version) tells
# nothing of whether it arrived.
DEFINITE = frozenset(
    (
        Code.INVALID_ARGUMENT,
        Code.NOT_FOUND,
        Code.ALREADY_EXISTS,
        Code.PERMISSION_DENIED,
        Code.RESOURCE_EXHAUSTED,
        Code.FAILED_PRECONDITION,
        Code.INTERNAL,
        Code.DATA_LOSS,
    )
)


class GrpcPeers:
    """`stop` it when nothing is delivered any more; stopping twice is fine."""

    def __init__(self, membership: Membership, sealer: Sealer) -> None:
        self._membership = membership
        self._sealer = sealer
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()
        membership.subscribe(self._forget_the_dead)

    async def deliver(self, shard_id: int, intent: DeliveredIntent) -> RunStatus | None:
        """Of replies only a run's status is carried; else that there is one says that it is done."""
        owner = self._membership.owner_of(shard_id)
        if owner is None or owner.node_id == self._membership.node_id:
            raise unavailable("SHARD_MOVED", f"shard {shard_id} is on its way to a node")
        payload = encode_intent(intent)
        if len(payload) > INTENT_BYTES_MAX:
            raise Rejected(
                Code.INTERNAL,
                "MESSAGE_TOO_LARGE",
                f"{len(payload)} bytes for shard {shard_id}; at most {INTENT_BYTES_MAX} travel between nodes",
            )
        seal = self._sealer.seal_of_node(shard_id, payload)
        request = pb.DeliverRequest(shard_id=shard_id, intent=payload, seal=seal)
        call = self._channel(owner.address).unary_unary(
            METHOD,
            request_serializer=pb.DeliverRequest.SerializeToString,
            response_deserializer=pb.DeliverResponse.FromString,
        )
        try:
            answer: pb.DeliverResponse = await call(request, timeout=CALL_LIMIT_S)
        except grpc.aio.AioRpcError as error:
            raise _rejected(error) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled us: the channel was closed under the call (`_forget_the_dead`), and gRPC tells it so.
            # Passed on, it would end whoever sends this message again.
            raise unavailable("NOT_DELIVERED", "the node's lease has ended") from None
        return RunStatus(Status(answer.run_status)) if answer.run_status else None

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = grpc.aio.insecure_channel(address, OPTIONS)
        return channel

    def _forget_the_dead(self) -> None:
        live = {node.address for node in self._membership.live_nodes()}
        for address in self._channels.keys() - live:
            channel = self._channels.pop(address)
            task = asyncio.get_running_loop().create_task(channel.close(CLOSE_GRACE_S))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def stop(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        await asyncio.gather(*(channel.close() for channel in channels), *self._closing)


def _rejected(error: grpc.aio.AioRpcError) -> Rejected:
    """What the other node said, or that nothing is known."""
    number = error.code().value[0]
    reason = _reason(error)
    if reason and number in DEFINITE:
        return Rejected(Code(number), reason, error.details() or "")
    return unavailable("NOT_DELIVERED", f"the node did not answer: {error.code().name}")


def _reason(error: grpc.aio.AioRpcError) -> str:
    """ "" when it is not one of ours."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return _reason_in(value)
    return ""


def _reason_in(encoded: bytes) -> str:
    info = error_details_pb2.ErrorInfo()
    try:
        for detail in status_pb2.Status.FromString(encoded).details:
            if detail.Unpack(info):
                reason: str = info.reason
                return reason
    except DecodeError:
        pass
    return ""
