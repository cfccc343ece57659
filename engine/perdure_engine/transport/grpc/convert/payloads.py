"""Payloads that the engine makes itself: it reads none."""

from __future__ import annotations

from perdure_api.v1 import common_pb2 as pb


def json_payload(json: bytes) -> bytes:
    """Payloads of one JSON document, as the SDK's JSON converter reads it."""
    payload = pb.Payload(encoding="json/plain", data=json)
    return pb.Payloads(payloads=[payload]).SerializeToString()
