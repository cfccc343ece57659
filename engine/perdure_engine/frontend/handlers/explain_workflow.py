"""ExplainWorkflow: why a run does not move."""

from __future__ import annotations

import msgspec

from perdure_engine.core.explain import Explanation, WaitReason, waits_for_a_worker
from perdure_engine.core.intents import ExplainWorkflow
from perdure_engine.frontend import checks
from perdure_engine.frontend.frontend import Frontend


class Explained(msgspec.Struct, frozen=True):
    """A reason and, where it is a worker that is missing, how many poll the queue on this node."""

    reason: WaitReason
    pollers: int


class Why(msgspec.Struct, frozen=True):
    run_id: bytes
    reasons: list[Explained]


async def explain_workflow(frontend: Frontend, explain: ExplainWorkflow) -> Why:
    checks.workflow_id("workflow_id", explain.workflow_id)
    explanation = await frontend.submit(explain)
    assert isinstance(explanation, Explanation)
    return Why(
        explanation.run_id,
        [
            Explained(reason, _pollers(frontend, explain.namespace_id, reason))
            for reason in explanation.reasons
        ],
    )


def _pollers(frontend: Frontend, namespace_id: bytes, reason: WaitReason) -> int:
    kind = waits_for_a_worker(reason)
    if kind is None:
        return 0
    return frontend.matching.describe(namespace_id, reason.task_queue, kind).pollers
