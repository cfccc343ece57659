"""Payloads that the engine makes itself: it reads none."""

from __future__ import annotations

from perdure_api.v1 import common_pb2 as pb


def json_payload(json: bytes) -> bytes:
    """Payloads of one JSON object, as the SDK's JSON converter reads it. Its mark says that the members are parameters
    by name: a function that takes several gets each its own."""
    payload = pb.Payload(encoding="json/plain", data=json, metadata={"parameters": b"object"})
    return pb.Payloads(payloads=[payload]).SerializeToString()
