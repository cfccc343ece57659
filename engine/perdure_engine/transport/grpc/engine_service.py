"""EngineService: what the other nodes of the cluster ask of this one."""

from __future__ import annotations

from perdure_api.internal.v1 import engine_service_pb2 as pb
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.replies import RunStatus
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.delivery import Receiver
from perdure_engine.transport.grpc.convert.delivered import decode_intent
from perdure_engine.transport.grpc.decode import Context


class EngineService:
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend, receiver: Receiver) -> None:
        self._frontend = frontend
        self._receiver = receiver

    async def Deliver(self, request: pb.DeliverRequest, _: Context) -> pb.DeliverResponse:
        if not self._frontend.sealer.is_of_node(request.seal, request.shard_id, request.intent):
            raise Rejected(
                Code.PERMISSION_DENIED, "NOT_A_NODE", "seal: only nodes of this cluster may call"
            )
        intent = decode_intent("intent", request.intent)
        reply = await self._receiver.receive(request.shard_id, intent)
        status = reply.status if isinstance(reply, RunStatus) else 0
        return pb.DeliverResponse(run_status=status)
