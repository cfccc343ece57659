"""The audit log, as plain calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from perdure._wire.connection import Connection
from perdure._wire.errors import sent
from perdure_api.v1 import audit_service_pb2 as pb
from perdure_api.v1.audit_service_pb2_grpc import AuditServiceStub


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHead:
    """Where a chain of the log ends. Kept elsewhere, it proves later that nothing before it was changed."""

    chain: int
    """A shard's number; 0 is the installation's own."""
    seq: int
    hash: bytes
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One thing that was done."""

    place: AuditHead
    action: str
    namespace: str
    namespace_id: str
    workflow_id: str
    run_id: str
    identity: str
    """Who did it."""
    reason: str
    request_id: str
    subject: str
    """Which activity, compensation, namespace or batch operation it was done to."""
    before: str
    after: str
    content: bytes
    """What the hash covers, beside the hash before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenChain:
    chain: int
    seq: int
    """The first row at which the chain does not hold."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification:
    rows: int
    heads: Sequence[AuditHead]
    broken: Sequence[BrokenChain]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    entries: Sequence[AuditEntry]
    next_page_token: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPage:
    found: AuditVerification
    next_page_token: bytes


class AuditService:
    """Every method raises RPCError, and sends once."""

    def __init__(self, connection: Connection) -> None:
        self._stub = AuditServiceStub(connection.channel)

    async def list(
        self,
        namespace: str,
        workflow_id: str,
        action: str,
        time_min_us: int,
        time_max_us: int,
        page_size: int,
        page_token: bytes,
        timeout_s: float,
    ) -> AuditPage:
        request = pb.ListAuditRequest(
            namespace=namespace,
            workflow_id=workflow_id,
            action=action,
            time_min_us=time_min_us,
            time_max_us=time_max_us,
            page_size=page_size,
            page_token=page_token,
        )
        answer = await sent(self._stub.ListAudit, request, timeout_s)
        return AuditPage(
            entries=[_entry(one) for one in answer.entries],
            next_page_token=answer.next_page_token,
        )

    async def heads(self, timeout_s: float) -> Sequence[AuditHead]:
        answer = await sent(self._stub.GetAuditHeads, pb.GetAuditHeadsRequest(), timeout_s)
        return [_head(one) for one in answer.heads]

    async def verify(
        self, expected: Sequence[AuditHead], page_token: bytes, timeout_s: float
    ) -> VerifiedPage:
        request = pb.VerifyAuditRequest(
            expected=[
                pb.AuditHead(chain=one.chain, seq=one.seq, hash=one.hash) for one in expected
            ],
            page_token=page_token,
        )
        answer = await sent(self._stub.VerifyAudit, request, timeout_s)
        found = AuditVerification(
            rows=answer.rows,
            heads=[_head(one) for one in answer.heads],
            broken=[
                BrokenChain(chain=one.chain, seq=one.seq, why=one.why) for one in answer.broken
            ],
        )
        return VerifiedPage(found=found, next_page_token=answer.next_page_token)


def _head(message: pb.AuditHead) -> AuditHead:
    return AuditHead(
        chain=message.chain,
        seq=message.seq,
        hash=message.hash,
        time=datetime.fromtimestamp(message.time_us / 1_000_000, UTC),
    )


def _entry(message: pb.AuditEntry) -> AuditEntry:
    return AuditEntry(
        place=_head(message.place),
        action=message.action,
        namespace=message.namespace,
        namespace_id=message.namespace_id,
        workflow_id=message.workflow_id,
        run_id=message.run_id,
        identity=message.identity,
        reason=message.reason,
        request_id=message.request_id,
        subject=message.subject,
        before=message.before,
        after=message.after,
        content=message.content,
    )
