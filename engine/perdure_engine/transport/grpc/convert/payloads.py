"""What the engine itself says to code of users, as the payloads that it passes through otherwise."""

from __future__ import annotations

from perdure_api.v1 import common_pb2


def object_of_parameters(document: bytes) -> bytes:
    """Payloads of one JSON object. Its mark tells the SDK that its members are parameters by name."""
    payload = common_pb2.Payload(
        encoding="json/plain", data=document, metadata={"parameters": b"object"}
    )
    return common_pb2.Payloads(payloads=[payload]).SerializeToString()
