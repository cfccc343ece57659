"""Checkpoints: an attempt's progress, saved before its code goes on."""

from __future__ import annotations

from collections.abc import Callable

from perdure._wire.activity_service import ActivityService, AttemptAddress, Heard
from perdure._wire.connection import Connection
from perdure._wire.retry import backoff_s, retry_delay_s
from perdure._wire.surroundings import Surroundings
from perdure._wire.worker_service import WorkerIdentity
from perdure.errors import AttemptLostError, RPCError, RPCStatusCode

# A commit takes milliseconds, one that has to be resolved first seconds.
SAVE_TIMEOUT_S = 30.0


class ProgressDoor:
    def __init__(
        self, connection: Connection, identity: WorkerIdentity, surroundings: Surroundings
    ) -> None:
        self._service = ActivityService(connection)
        self._identity = identity
        self._surroundings = surroundings

    async def save(
        self, token: bytes, details: bytes, version: int, may_go_on: Callable[[], bool]
    ) -> Heard | None:
        """Returns when it, or something newer that the same attempt said, is saved (None: newer).

        Tries as long as the engine is away and `may_go_on`. Raises AttemptLostError, RPCError.
        """
        who = self._identity
        address = AttemptAddress(namespace=who.namespace, token=token)
        attempt = 0
        while True:
            try:
                return await self._service.heartbeat(
                    address, who.identity, details, version, SAVE_TIMEOUT_S
                )
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    raise AttemptLostError from None
                if error.status is RPCStatusCode.ABORTED:
                    return None
                attempt += 1
                delay_s = self._delay_s(error, attempt)
                if delay_s is None or not may_go_on():
                    raise
            await self._surroundings.sleep(delay_s)

    def _delay_s(self, error: RPCError, attempt: int) -> float | None:
        if error.status is RPCStatusCode.DEADLINE_EXCEEDED:  # saying it again does no harm
            return backoff_s(attempt, self._surroundings.random)
        return retry_delay_s(error, attempt, self._surroundings.random)
