"""The registry of deployments and the verbs that change it: compare-and-set, refusals, bad input."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.frontend.fakes import (
    NAMESPACE_ID,
    OTHER_NAMESPACE_ID,
    RUN_ID,
    WORKER_ID,
    Room,
    task_token,
)

from perdure_engine.core import deployments, limits
from perdure_engine.core.audit import entry_of
from perdure_engine.core.deployments import Deployment
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import CompleteActivity, CompleteWorkflowTask, WorkAhead
from perdure_engine.core.search_attributes import of_versioning, to_json
from perdure_engine.core.status import Status
from perdure_engine.core.tasks import TaskKind
from perdure_engine.core.versions import Behavior, Versioning
from perdure_engine.frontend.deployments import Deployments
from perdure_engine.frontend.handlers.complete_tasks import Completion, complete_tasks
from perdure_engine.frontend.handlers.describe_deployment import list_deployments
from perdure_engine.frontend.handlers.get_reachability import get_reachability
from perdure_engine.frontend.handlers.poll_tasks import PollTasks, poll_tasks
from perdure_engine.frontend.handlers.retire_version import RetireVersion, retire_version
from perdure_engine.frontend.handlers.set_current_version import (
    SetCurrentVersion,
    set_current_version,
)
from perdure_engine.frontend.handlers.set_ramping_version import (
    SetRampingVersion,
    set_ramping_version,
)
from perdure_engine.frontend.handlers.start_workflow import check_override
from perdure_engine.ports.history import WorkerRef
from perdure_engine.ports.matching import PollAnswer
from perdure_engine.ports.rows import VisibilityRow
from perdure_engine.ports.store import StoreUnavailable, VisibilityFilter
from perdure_engine.server.following import REFRESH_S
from perdure_engine.store.memory.filters import listed

QUEUE = "orders"


def poll(build_id: str = "1", deployment: str = "shop", queue: str = QUEUE) -> PollTasks:
    version = f"{deployment}.{build_id}"
    return PollTasks(
        namespace_id=NAMESPACE_ID,
        task_queue=queue,
        worker=WorkerRef(WORKER_ID, "w", build_id, deployment, version),
        max_workflow_tasks=1,
        max_activity_tasks=0,
        timeout_ms=0,
    )


async def polled(room: Room, asked: PollTasks) -> None:
    room.matching.answers.append(PollAnswer([], []))
    await poll_tasks(room.frontend, asked)


def current(build_id: str = "1", token: int = 0, **changes: Any) -> SetCurrentVersion:
    facts: dict[str, Any] = {
        "namespace_id": NAMESPACE_ID,
        "deployment_name": "shop",
        "build_id": build_id,
        "conflict_token": token,
        "identity": "ops",
        "reason": "roll-out",
        "ignore_missing_queues": False,
        "allow_no_pollers": False,
    }
    return SetCurrentVersion(**(facts | changes))


def retirement(build_id: str = "1", **changes: Any) -> RetireVersion:
    facts: dict[str, Any] = {
        "namespace_id": NAMESPACE_ID,
        "deployment_name": "shop",
        "build_id": build_id,
        "conflict_token": 0,
        "identity": "ops",
        "reason": "roll-out",
        "grace_ms": None,
    }
    return RetireVersion(**(facts | changes))


async def seen(registry: Deployments, *build_ids: str) -> None:
    for build_id in build_ids:
        await registry.seen(NAMESPACE_ID, "shop", build_id, QUEUE, 1)


def routed(registry: Deployments, run_id: bytes = b"r" * 16) -> str:
    return registry.version_for(NAMESPACE_ID, QUEUE, TaskKind.WORKFLOW, run_id, "")


async def test_a_first_poll_makes_the_version_known_and_the_next_ones_write_nothing() -> None:
    room = Room()
    await polled(room, poll())
    await polled(room, poll())

    [row] = room.store.deployments.values()
    assert row.conflict_token == 1
    [found] = await list_deployments(room.frontend, NAMESPACE_ID)
    assert found.deployment.require("1").queues == (QUEUE,)
    assert await list_deployments(room.frontend, OTHER_NAMESPACE_ID) == []


async def test_a_poll_without_a_version_asks_for_nothing() -> None:
    room = Room()
    worker = WorkerRef(WORKER_ID, "w", "build")
    asked = PollTasks(
        namespace_id=NAMESPACE_ID,
        task_queue=QUEUE,
        worker=worker,
        max_workflow_tasks=1,
        max_activity_tasks=0,
        timeout_ms=0,
    )

    await polled(room, asked)

    assert not room.store.deployments
    assert not room.deployments.active


async def test_workers_of_one_version_that_begin_together_are_all_known() -> None:
    """Each of the compare-and-sets but one is lost, and made again."""
    room = Room()
    await asyncio.gather(*(polled(room, poll(queue=f"q{n}")) for n in range(5)))

    found = await room.deployments.describe(NAMESPACE_ID, "shop")
    assert set(found.require("1").queues) == {f"q{n}" for n in range(5)}


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (poll(deployment="a.b"), "deployment_name"),
        (poll(build_id=""), "build_id"),
        (poll(deployment="\0"), "deployment_name"),
    ],
)
async def test_bad_names_are_refused_at_the_poll(asked: PollTasks, field: str) -> None:
    room = Room()
    with pytest.raises(Rejected) as caught:
        await polled(room, asked)

    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, field)
    assert not room.store.deployments


async def test_a_change_made_here_counts_at_once_and_elsewhere_after_a_refresh() -> None:
    room = Room()
    elsewhere = Deployments(room.store)
    heard: list[str] = []
    elsewhere.on_change(lambda: heard.append(routed(elsewhere)))
    await seen(room.deployments, "1")

    await set_current_version(room.frontend, current())

    assert routed(room.deployments) == "shop.1"
    assert routed(elsewhere) == ""
    await elsewhere.refresh()
    assert heard == ["shop.1"]
    assert REFRESH_S <= 1


async def test_a_node_that_cannot_read_goes_on_with_what_it_knows() -> None:
    room = Room()
    await seen(room.deployments, "1")
    await set_current_version(room.frontend, current())
    room.store.down = True

    with pytest.raises(StoreUnavailable):
        await room.deployments.refresh()

    assert routed(room.deployments) == "shop.1"


async def test_a_read_that_is_older_than_a_change_made_here_does_not_undo_it() -> None:
    room = Room()
    await seen(room.deployments, "1")
    old = dict(room.store.deployments)
    await set_current_version(room.frontend, current())
    room.store.deployments = old

    await room.deployments.refresh()

    assert routed(room.deployments) == "shop.1"


async def test_of_two_changes_with_one_token_the_second_is_refused() -> None:
    room = Room()
    await seen(room.deployments, "1", "2")
    token = (await room.deployments.describe(NAMESPACE_ID, "shop")).revision
    await set_current_version(room.frontend, current("1", token))

    with pytest.raises(Rejected) as caught:
        await set_current_version(room.frontend, current("2", token))

    assert (caught.value.code, caught.value.field) == (Code.ABORTED, "conflict_token")
    assert routed(room.deployments) == "shop.1"


async def test_a_change_that_another_node_made_first_is_decided_anew() -> None:
    """The second decides on what the first has saved: a version that was retired meanwhile is refused."""
    room = Room()
    await seen(room.deployments, "1")
    stale = Deployments(room.store)
    await stale.refresh()
    await retire_version(room.frontend, retirement())

    with pytest.raises(Rejected) as caught:
        await stale.change(
            NAMESPACE_ID, "shop", lambda found: deployments.set_current(found, "1", 1, "")
        )

    assert caught.value.reason == "VERSION_RETIRED"


@pytest.mark.parametrize(
    ("asked", "code", "field"),
    [
        (current(deployment_name=""), Code.INVALID_ARGUMENT, "deployment_name"),
        (current(deployment_name="a.b"), Code.INVALID_ARGUMENT, "deployment_name"),
        (current(build_id="\n"), Code.INVALID_ARGUMENT, "build_id"),
        (current(token=-1), Code.INVALID_ARGUMENT, "conflict_token"),
        (current(identity="x" * 501), Code.INVALID_ARGUMENT, "identity"),
        (current(deployment_name="other"), Code.NOT_FOUND, ""),
        (current("9"), Code.NOT_FOUND, ""),
    ],
)
async def test_bad_input(asked: SetCurrentVersion, code: Code, field: str) -> None:
    room = Room()
    await seen(room.deployments, "1")
    rows = dict(room.store.deployments)

    with pytest.raises(Rejected) as caught:
        await set_current_version(room.frontend, asked)

    assert (caught.value.code, caught.value.field) == (code, field)
    assert room.store.deployments == rows


@pytest.mark.parametrize("grace_ms", [-1, limits.DURATION_MS_MAX + 1])
async def test_a_grace_that_is_none(grace_ms: int) -> None:
    room = Room()
    await seen(room.deployments, "1")
    with pytest.raises(Rejected) as caught:
        await retire_version(room.frontend, retirement(grace_ms=grace_ms))

    assert caught.value.field == "grace_ms"


async def test_b16_after_its_retirement_a_version_gets_nothing_and_pins_nothing() -> None:
    """Its polls are refused, and a task that it still had does not pin its run to it."""
    room = Room()
    await polled(room, poll())
    await retire_version(room.frontend, retirement())

    with pytest.raises(Rejected, match="new build id") as caught:
        await polled(room, poll())
    assert caught.value.code is Code.FAILED_PRECONDITION
    for behavior, refused in ((Behavior.PINNED, True), (Behavior.AUTO_UPGRADE, False)):
        failures, _ = await complete_tasks(room.frontend, [Completion(completed(behavior), [])])
        assert bool(failures) is refused
        ahead = WorkAhead(completed(behavior), 3, False)
        result = CompleteActivity(task_token(TaskKind.ACTIVITY), b"r", "w", ahead)
        failures, _ = await complete_tasks(room.frontend, [Completion(result, [])])
        assert not failures, "the result counts"
        assert (room.history.completed[-1].ahead is None) is refused


def completed(behavior: Behavior) -> CompleteWorkflowTask:
    return CompleteWorkflowTask(
        task_token(), [], False, WORKER_ID, "w", "1", deployment_name="shop", behavior=behavior
    )


async def test_b16_a_run_that_was_pinned_while_its_version_was_retired_takes_that_back() -> None:
    """A task that was out when the runs were counted comes back in between."""
    room = Room()
    await seen(room.deployments, "1")
    counts = iter([0, 0, 1, 0])

    async def count_runs(_: object) -> int:
        return next(counts)

    room.store.count_runs = count_runs  # type: ignore[method-assign]

    with pytest.raises(Rejected) as caught:
        await retire_version(room.frontend, retirement())

    assert caught.value.reason == "VERSION_IN_USE"
    assert not (await room.deployments.describe(NAMESPACE_ID, "shop")).require("1").retired_us
    assert [(before, after) for _, _, before, after in log_of(room)] == [
        ("NOT RETIRED", "RETIRED"),
        ("RETIRED", "NOT RETIRED"),
    ]


def log_of(room: Room) -> list[tuple[str, str, str, str]]:
    """Of operators' actions: what, to what, before, after."""
    entries = [entry_of(row) for row in room.store.audited if row is not None]
    assert {(one.identity, one.reason, one.namespace_id) for one in entries} <= {
        ("ops", "roll-out", NAMESPACE_ID)
    }
    return [(one.action, one.subject, one.before, one.after) for one in entries]


def ramp(build_id: str, share: int) -> SetRampingVersion:
    return SetRampingVersion(
        namespace_id=NAMESPACE_ID,
        deployment_name="shop",
        build_id=build_id,
        ramp_share=share,
        conflict_token=0,
        identity="ops",
        reason="roll-out",
        ignore_missing_queues=False,
        allow_no_pollers=False,
    )


async def test_what_operators_do_to_versions_stands_in_the_audit_log() -> None:
    """Who, why, before and after, with the change; not what workers do by polling."""
    room = Room()
    await seen(room.deployments, "1", "2")
    await set_current_version(room.frontend, current("1"))
    await set_ramping_version(room.frontend, ramp("2", 1_250))
    await set_ramping_version(room.frontend, ramp("", 0))
    await set_current_version(room.frontend, current(""))
    await retire_version(room.frontend, retirement("1", grace_ms=0))
    await retire_version(room.frontend, retirement("1", grace_ms=0))  # it is

    assert log_of(room) == [
        ("deployment.set_current", "shop.1", "current (unversioned)", "current 1"),
        ("deployment.set_ramping", "shop.2", "current 1", "current 1, 12.5 % to 2"),
        ("deployment.set_ramping", "shop", "current 1, 12.5 % to 2", "current 1"),
        ("deployment.set_current", "shop", "current 1", "current (unversioned)"),
        ("deployment.retire", "shop.1", "NOT RETIRED", "RETIRED"),
    ]


async def test_a_change_of_versions_that_is_refused_is_no_action() -> None:
    room = Room()
    await seen(room.deployments, "1")
    await set_current_version(room.frontend, current("1"))
    for action in (
        set_current_version(room.frontend, current("9")),
        set_current_version(room.frontend, current("1", reason="x" * 5_000)),
        set_ramping_version(room.frontend, ramp("1", 100)),
        retire_version(room.frontend, retirement("1")),
    ):
        with pytest.raises(Rejected):
            await action

    assert len(log_of(room)) == 1


async def test_b16_a_paused_run_is_open_and_keeps_its_version() -> None:
    """Retired, nobody could go on with it once it is unpaused."""
    room = Room()
    await seen(room.deployments, "1")
    pinned_to = of_versioning(Versioning(Behavior.PINNED, "shop", "1"))
    paused = VisibilityRow(
        *(1, RUN_ID, NAMESPACE_ID, 0, "order", "Order", QUEUE, Status.PAUSED, 1, None, 3, 100),
        *(b"", to_json(pinned_to, None)),
    )

    async def count_runs(where: VisibilityFilter) -> int:
        return sum(listed(where, row) for row in [paused])

    room.store.count_runs = count_runs  # type: ignore[method-assign]

    reached = await get_reachability(room.frontend, NAMESPACE_ID, "shop", "1")
    assert (reached.reach.pinned_runs, reached.retirable_us) == (1, 0)
    with pytest.raises(Rejected) as caught:
        await retire_version(room.frontend, retirement())
    assert caught.value.reason == "VERSION_IN_USE"


async def test_reachability_of_a_version_that_nobody_knows() -> None:
    room = Room()
    await seen(room.deployments, "1")
    for name, build_id in (("other", "1"), ("shop", "9")):
        with pytest.raises(Rejected) as caught:
            await get_reachability(room.frontend, NAMESPACE_ID, name, build_id)
        assert caught.value.code is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("override", "code", "field"),
    [
        (Versioning(Behavior.UNSPECIFIED), Code.INVALID_ARGUMENT, "versioning_override.behavior"),
        (
            Versioning(Behavior.PINNED),
            Code.INVALID_ARGUMENT,
            "versioning_override.deployment_name",
        ),
        (
            Versioning(Behavior.PINNED, "shop"),
            Code.INVALID_ARGUMENT,
            "versioning_override.build_id",
        ),
        (
            Versioning(Behavior.AUTO_UPGRADE, "shop", "1"),
            Code.INVALID_ARGUMENT,
            "versioning_override.deployment_name",
        ),
        (Versioning(Behavior.PINNED, "shop", "9"), Code.NOT_FOUND, ""),
        (Versioning(Behavior.PINNED, "other", "1"), Code.NOT_FOUND, ""),
    ],
)
async def test_an_override_that_would_let_a_run_wait_for_ever(
    override: Versioning, code: Code, field: str
) -> None:
    room = Room()
    await seen(room.deployments, "1")
    check_override(room.frontend, NAMESPACE_ID, Versioning(Behavior.PINNED, "shop", "1"))
    check_override(room.frontend, NAMESPACE_ID, Versioning(Behavior.AUTO_UPGRADE))

    with pytest.raises(Rejected) as caught:
        check_override(room.frontend, NAMESPACE_ID, override)

    assert (caught.value.code, caught.value.field) == (code, field)


async def test_deployments_are_bounded() -> None:
    room = Room()
    for number in range(limits.DEPLOYMENTS_MAX):
        await polled(room, poll(deployment=f"d{number}"))

    with pytest.raises(Rejected) as caught:
        await polled(room, poll(deployment="more"))

    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    assert isinstance(await room.deployments.describe(NAMESPACE_ID, "d7"), Deployment)
