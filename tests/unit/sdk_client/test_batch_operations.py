"""`client.operator.start_batch_operation`: what is asked of the engine when an answer is lost."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio

from perdure._wire.connection import Connection
from perdure.client import BatchOperationType, Client
from perdure.codecs import EncryptionCodec, KeyRing
from perdure.converter import DataConverter
from perdure_api.v1 import batch_service_pb2 as pb


async def test_an_encrypted_batch_operation_is_sent_again_with_the_same_bytes() -> None:
    """Invariant: once per job id. Other bytes under one id are refused by the engine, and what is
    encrypted twice is other bytes."""
    sent: list[bytes] = []

    class Stub:
        async def StartBatchOperation(self, message: Any, **_: Any) -> Any:
            sent.append(message.SerializeToString(deterministic=True))
            if len(sent) == 1:
                nothing = grpc.aio.Metadata()
                raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing)
            return pb.StartBatchOperationResponse(total=3)

    async def at_once(_: float) -> None: ...

    codec = EncryptionCodec(KeyRing("k", {"k": b"k" * 32}))
    connection = Connection("localhost:1")
    client = Client(connection, data_converter=DataConverter(payload_codec=codec))
    client.core.batch_service._stub = Stub()  # type: ignore[assignment]
    object.__setattr__(client.core.surroundings, "sleep", at_once)

    await client.operator.start_batch_operation(
        "WorkflowType='Order'", BatchOperationType.SIGNAL, signal="note", signal_args=["secret"]
    )

    first, second = sent
    assert first == second
    assert b"secret" not in first
    await client.close()
    await connection.close()
