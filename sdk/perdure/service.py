"""Errors of calls and how to connect, under the names of `temporalio.service`."""

from __future__ import annotations

from perdure._client.plugins import ConnectConfig, ServiceClient
from perdure.errors import RPCError, RPCStatusCode

__all__ = ["ConnectConfig", "RPCError", "RPCStatusCode", "ServiceClient"]
