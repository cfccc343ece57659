"""Which errors are worth another try, and when."""

from __future__ import annotations

from collections.abc import Callable

from perdure.errors import RPCError, RPCStatusCode

FIRST_DELAY_S = 0.1
# Long enough to be no burden on an engine that has just come back, short enough that a restart of
# it is no more than a hiccup: everyone is back within two delays.
DELAY_S_MAX = 3.0
# The doubling is over long before; the cap keeps the power small for those who try for days.
_DOUBLINGS_MAX = 16
# ErrorInfo.reason of an engine node that is not, or no longer, the owner of what was asked for.
REASON_MOVED = "SHARD_MOVED"


def backoff_s(attempt: int, random: Callable[[], float]) -> float:
    """How long to wait after failure number `attempt` (from 1): doubling, half of it by chance."""
    whole_s = min(DELAY_S_MAX, FIRST_DELAY_S * 2.0 ** min(attempt - 1, _DOUBLINGS_MAX))
    return whole_s * (0.5 + 0.5 * random())


def retry_delay_s(error: RPCError, attempt: int, random: Callable[[], float]) -> float | None:
    """How long to wait before the same call goes out again; None when it must not.

    Calls carry a request id, so that repeating one whose fate is unknown is safe.
    """
    if error.status is RPCStatusCode.UNAVAILABLE or error.reason == REASON_MOVED:
        return backoff_s(attempt, random)
    if error.status is RPCStatusCode.RESOURCE_EXHAUSTED and error.retry_delay_s is not None:
        # The engine says when; chance keeps those that were turned away together from coming back
        # together. Without its word (a message that is too large) trying again is no use.
        return error.retry_delay_s * (1.0 + 0.2 * random())
    return None


def is_too_large(error: RPCError) -> bool:
    """A message that is over the limit. An engine that is merely busy says when to come back."""
    return error.status is RPCStatusCode.RESOURCE_EXHAUSTED and error.retry_delay_s is None
