"""How the fake engine fails on demand."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def status(code: grpc.StatusCode, message: str, *details: Message) -> status_pb2.Status:
    packed: list[AnyMessage] = []
    for detail in details:
        one = AnyMessage()
        one.Pack(detail)
        packed.append(one)
    return status_pb2.Status(code=code.value[0], message=message, details=packed)


def retry_info(seconds: float) -> Message:
    delay = Duration()
    delay.FromMilliseconds(int(seconds * 1000))
    return error_details_pb2.RetryInfo(retry_delay=delay)


@dataclass
class Fault:
    status: status_pb2.Status
    after_effect: bool = False
