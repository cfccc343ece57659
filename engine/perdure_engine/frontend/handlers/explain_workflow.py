"""ExplainWorkflow: why a run does not move."""

from __future__ import annotations

import msgspec

from perdure_engine.core.audit import Action, Entry, entry_of
from perdure_engine.core.errors import Rejected
from perdure_engine.core.explain import Explanation, WaitKind, WaitReason, waits_for_a_worker
from perdure_engine.core.failures import Failure, FailureKind
from perdure_engine.core.intents import ExplainWorkflow
from perdure_engine.frontend import checks
from perdure_engine.frontend.archived import refusal_of_archived
from perdure_engine.frontend.frontend import Frontend
from perdure_engine.ports.audit import AuditFilter

COMPENSATIONS_MAX = 100  # looked at, newest first: a saga that waits for an operator said so last
PARKED = "parked"  # as the SDK's marker says it of a compensation


class Explained(msgspec.Struct, frozen=True):
    """A reason and, where it is a worker that is missing, how many poll the queue on this node."""

    reason: WaitReason
    pollers: int


class Why(msgspec.Struct, frozen=True):
    run_id: bytes
    reasons: list[Explained]


async def explain_workflow(frontend: Frontend, explain: ExplainWorkflow) -> Why:
    checks.workflow_id("workflow_id", explain.workflow_id)
    try:
        explanation = await frontend.submit(explain)
    except Rejected as refusal:
        raise await refusal_of_archived(
            frontend, refusal, explain.namespace_id, explain.workflow_id, explain.run_id
        ) from None
    assert isinstance(explanation, Explanation)
    reasons = explanation.reasons
    if reasons[0].kind is not WaitKind.CLOSED:
        parked = await _of_sagas(frontend, explain, explanation.run_id)
        if parked:  # then somebody's signal is not all that there is to say
            reasons = [one for one in reasons if one.kind is not WaitKind.EVENT] + parked
    return Why(
        explanation.run_id,
        [_polled(frontend, explain.namespace_id, explanation.run_id, one) for one in reasons],
    )


def _polled(
    frontend: Frontend, namespace_id: bytes, run_id: bytes, reason: WaitReason
) -> Explained:
    """With the version of workers that would get the task, and how many of those poll."""
    kind = waits_for_a_worker(reason)
    if kind is None:
        return Explained(reason, 0)
    queue = reason.task_queue
    version = frontend.deployments.version_for(namespace_id, queue, kind, run_id, reason.version)
    info = frontend.matching.describe(namespace_id, queue, kind, version)
    return Explained(msgspec.structs.replace(reason, version=version), info.pollers)


async def _of_sagas(
    frontend: Frontend, explain: ExplainWorkflow, run_id: bytes
) -> list[WaitReason]:
    """What became of each compensation last stands in the audit log; to the run itself it is its code's affair."""
    where = AuditFilter(explain.namespace_id, explain.workflow_id, Action.COMPENSATION)
    last: dict[str, Entry] = {}
    for row in await frontend.audit.list_audit(where, None, COMPENSATIONS_MAX):
        entry = entry_of(row)
        if entry.run_id == run_id:
            last.setdefault(entry.subject, entry)
    return [
        WaitReason(
            kind=WaitKind.SAGA,
            since_us=entry.time_us,
            subject=entry.subject,
            last_failure=Failure(FailureKind.APPLICATION, entry.reason, type=entry.reason),
        )
        for entry in last.values()
        if entry.after == PARKED
    ]
