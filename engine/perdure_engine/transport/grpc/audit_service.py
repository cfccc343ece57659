"""AuditService: what operators did, and whether the log still says so."""

from __future__ import annotations

from perdure_api.v1 import audit_service_pb2 as pb
from perdure_engine.core.audit import Head
from perdure_engine.core.ids import uuid_text
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.frontend.handlers.list_audit import Shown, audit_heads, list_audit
from perdure_engine.frontend.handlers.verify_audit import verify_audit
from perdure_engine.ports.audit import AuditFilter
from perdure_engine.transport.grpc.decode import Context


class AuditService:
    """One function per RPC, by its name: message in, message out, errors raised."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def ListAudit(self, request: pb.ListAuditRequest, _: Context) -> pb.ListAuditResponse:
        namespace_id = None
        if request.namespace:
            namespace_id = await self._frontend.namespaces.id_of(request.namespace)
        where = AuditFilter(
            namespace_id,
            request.workflow_id,
            request.action,
            request.time_min_us,
            request.time_max_us,
        )
        answer = await list_audit(self._frontend, where, request.page_size, request.page_token)
        return pb.ListAuditResponse(
            entries=[_entry(row) for row in answer.rows],
            next_page_token=answer.next_page_token,
        )

    async def GetAuditHeads(
        self, _: pb.GetAuditHeadsRequest, __: Context
    ) -> pb.GetAuditHeadsResponse:
        heads = await audit_heads(self._frontend)
        return pb.GetAuditHeadsResponse(heads=[_head(head) for head in heads])

    async def VerifyAudit(
        self, request: pb.VerifyAuditRequest, _: Context
    ) -> pb.VerifyAuditResponse:
        expected = [Head(one.chain, one.seq, one.hash, one.time_us) for one in request.expected]
        found = await verify_audit(self._frontend, expected, request.page_token)
        return pb.VerifyAuditResponse(
            rows=found.rows,
            heads=[_head(head) for head in found.heads],
            broken=[
                pb.BrokenChain(chain=one.chain, seq=one.seq, why=one.why) for one in found.broken
            ],
            next_page_token=found.next_page_token,
        )


def _head(head: Head) -> pb.AuditHead:
    return pb.AuditHead(chain=head.chain, seq=head.seq, hash=head.hash, time_us=head.time_us)


def _entry(row: Shown) -> pb.AuditEntry:
    entry = row.entry
    return pb.AuditEntry(
        place=_head(row.place),
        action=entry.action,
        namespace=row.namespace,
        namespace_id=_uuid(entry.namespace_id),
        workflow_id=entry.workflow_id,
        run_id=_uuid(entry.run_id),
        identity=entry.identity,
        reason=entry.reason,
        request_id=_uuid(entry.request_id),
        subject=entry.subject,
        before=entry.before,
        after=entry.after,
        content=row.content,
    )


def _uuid(raw: bytes) -> str:
    return uuid_text(raw) if raw else ""
