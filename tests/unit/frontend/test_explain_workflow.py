"""Why a run does not move, where others than its shard know: who polls for it, and what its saga waits for."""

from __future__ import annotations

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID, RUN_ID, Room

from perdure_engine.core.audit import Action, Entry, Head, append
from perdure_engine.core.explain import Explanation, WaitKind, WaitReason
from perdure_engine.core.intents import ExplainWorkflow
from perdure_engine.core.tasks import TaskKind
from perdure_engine.frontend.deployments import Deployments
from perdure_engine.frontend.handlers.explain_workflow import Why, explain_workflow
from perdure_engine.ports.matching import QueueInfo

EVENT = WaitReason(kind=WaitKind.EVENT, since_us=1)
TIMER = WaitReason(kind=WaitKind.TIMER, since_us=0, until_us=9, subject="t")
CLOSED = WaitReason(kind=WaitKind.CLOSED, since_us=1)


async def why(room: Room, *reasons: WaitReason) -> Why:
    room.history.answer = lambda _: Explanation(RUN_ID, list(reasons))
    asked = ExplainWorkflow(namespace_id=NAMESPACE_ID, workflow_id="order-1", run_id=b"")
    return await explain_workflow(room.frontend, asked)


async def said(room: Room, *outcomes: tuple[str, str], **changes: object) -> None:
    """The audit log has what became of compensations, oldest first: (compensation, outcome)."""
    heads = await room.operations.load_audit_heads([1])
    head = heads[0] if heads else Head(1)
    for name, outcome in outcomes:
        fields = {
            "time_us": head.time_us + 5,
            "action": Action.COMPENSATION,
            "namespace_id": NAMESPACE_ID,
            "workflow_id": "order-1",
            "run_id": RUN_ID,
            "subject": name,
            "reason": "BankClosed",
            "after": outcome,
        } | changes
        row, head = append(head, Entry(**fields))  # type: ignore[arg-type]  # a dict of all
        await room.operations.append_audit(row)


def kinds(found: Why) -> list[WaitKind]:
    return [one.reason.kind for one in found.reasons]


async def test_a_compensation_that_waits_for_an_operator_is_named() -> None:
    room = Room()
    await said(room, ("refund", "parked"), ("refund", "retried"), ("refund", "parked"))
    found = await why(room, EVENT)

    (saga,) = found.reasons
    assert (saga.reason.kind, saga.reason.subject) == (WaitKind.SAGA, "refund")
    assert saga.reason.since_us == 15
    assert saga.reason.last_failure is not None
    assert saga.reason.last_failure.type == "BankClosed"
    assert kinds(await why(room, TIMER)) == [WaitKind.TIMER, WaitKind.SAGA]


@pytest.mark.parametrize("outcome", ["completed", "retried", "skipped"])
async def test_what_came_of_it_later_counts(outcome: str) -> None:
    room = Room()
    await said(room, ("refund", "parked"), ("refund", outcome))

    assert kinds(await why(room, EVENT)) == [WaitKind.EVENT]


async def test_each_compensation_by_itself() -> None:
    room = Room()
    await said(room, ("refund", "parked"), ("release", "parked"), ("release", "skipped"))

    assert [one.reason.subject for one in (await why(room, EVENT)).reasons] == ["refund"]


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": b"another run....."},
        {"workflow_id": "order-2"},
        {"namespace_id": OTHER_NAMESPACE_ID},
        {"action": Action.SAGA_WORD},
    ],
)
async def test_other_runs_sagas_are_not_its_own(changes: dict[str, object]) -> None:
    room = Room()
    await said(room, ("refund", "parked"), **changes)

    assert kinds(await why(room, EVENT)) == [WaitKind.EVENT]


async def test_a_closed_run_waits_for_no_operator() -> None:
    room = Room()
    await said(room, ("refund", "parked"))

    assert kinds(await why(room, CLOSED)) == [WaitKind.CLOSED]


def lacking(kind: WaitKind, version: str = "") -> WaitReason:
    return WaitReason(kind=kind, since_us=1, task_queue="orders", version=version)


async def current(registry: Deployments, build_id: str) -> None:
    await registry.change(
        NAMESPACE_ID,
        "shop",
        lambda found: type(found)("shop", found.revision, build_id, builds=found.builds),
    )


async def test_the_pollers_are_those_of_the_version_that_would_get_the_task() -> None:
    """Three that poll are no help to a run that is pinned to a version without any."""
    room = Room()
    room.matching.info = QueueInfo(0, 0, 3)
    for build_id in ("1", "2"):
        await room.deployments.seen(NAMESPACE_ID, "shop", build_id, "orders", 1)
    await current(room.deployments, "2")
    found = await why(
        room,
        lacking(WaitKind.WORKER_FOR_WORKFLOW_TASK, "shop.1"),
        lacking(WaitKind.WORKER_FOR_ACTIVITY, "shop.1"),
        lacking(WaitKind.WORKER_FOR_WORKFLOW_TASK),
        TIMER,
    )

    versions = ["shop.1", "shop.1", "shop.2"]
    assert [one.reason.version for one in found.reasons] == [*versions, ""]
    assert room.matching.described == versions
    assert [one.pollers for one in found.reasons] == [3, 3, 3, 0]
    assert room.deployments.version_for(NAMESPACE_ID, "orders", TaskKind.WORKFLOW, RUN_ID, "") == (
        "shop.2"
    )
