"""What a call to the engine raises, under the names of `temporalio.service`."""

from __future__ import annotations

from perdure.errors import RPCError, RPCStatusCode

__all__ = ["RPCError", "RPCStatusCode"]
