"""The audit log, for those who look after an installation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from perdure._client.core import ClientCore
from perdure._wire.audit_service import AuditEntry, AuditHead, AuditVerification, BrokenChain

PAGE_SIZE = 500


class AuditOperations:
    """What operators did: rows that outlive the runs, chained so that a change of them shows."""

    _core: ClientCore

    async def list_audit(
        self,
        *,
        namespace: str | None = None,
        workflow_id: str = "",
        action: str = "",
        time_min: datetime | None = None,
        time_max: datetime | None = None,
        rpc_timeout: timedelta | None = None,
    ) -> AsyncIterator[AuditEntry]:
        """Newest first. Of all namespaces, and of the installation itself, unless one is named.

        A `workflow_id` is one of the client's own namespace unless another is named. `time_min`
        inclusive, `time_max` exclusive; `rpc_timeout` is each page's.
        """
        core = self._core
        if namespace is None and workflow_id:
            namespace = core.namespace
        ask = partial(
            core.audit_service.list,
            namespace or "",
            workflow_id,
            action,
            _us(time_min),
            _us(time_max),
            PAGE_SIZE,
        )
        token = b""
        while True:
            page = await core.unary(partial(ask, token), rpc_timeout)
            for entry in page.entries:
                yield entry
            token = page.next_page_token
            if not token:
                return

    async def audit_heads(self, *, rpc_timeout: timedelta | None = None) -> Sequence[AuditHead]:
        """Where each chain ends now. Keep them elsewhere, and give them to `verify_audit` later."""
        return await self._core.unary(self._core.audit_service.heads, rpc_timeout)

    async def verify_audit(
        self, expected: Sequence[AuditHead] = (), *, rpc_timeout: timedelta | None = None
    ) -> AuditVerification:
        """Walks every chain. `broken` names the first row of each at which it does not hold.

        Without `expected` heads a tail that was cut off cannot show, nor a log that was forged whole.
        `rpc_timeout` is each call's: the engine walks a stretch with each.
        """
        rows = 0
        heads: list[AuditHead] = []
        broken: list[BrokenChain] = []
        ask = partial(self._core.audit_service.verify, expected)
        token = b""
        while True:
            page = await self._core.unary(partial(ask, token), rpc_timeout)
            rows += page.found.rows
            heads += page.found.heads
            broken += page.found.broken
            token = page.next_page_token
            if not token:
                return AuditVerification(rows=rows, heads=heads, broken=broken)


def _us(time: datetime | None) -> int:
    return 0 if time is None else int(time.timestamp() * 1_000_000)
