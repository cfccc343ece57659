"""Resets in a shard: histories read beside it, one commit for the run that ends and the one that begins."""

from __future__ import annotations

import asyncio

from tests.unit.history.room import (
    BODY,
    FINISH,
    NAMESPACE,
    Node,
    Room,
    cmd,
    ev,
    in_room,
    nothing_said,
    pass_time,
    refused,
    schedule,
    timer,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.ids import reset_run_id
from perdure_engine.core.intents import (
    PollUpdate,
    Reapply,
    StartUpdate,
    UpdateStage,
    UpdateWorkflow,
)
from perdure_engine.core.retry import RetryPolicy
from perdure_engine.core.status import Status
from perdure_engine.history import resetting
from perdure_engine.history.loading import restore
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import Moment

AGAIN = cmd.ContinueAsNew("", "", b"next", b"", b"", 0, 0, None)
REQUEST = b"reset-request-1."


def current(room: Room) -> tuple[bytes, int]:
    [row] = room.tables.current_runs.all()
    return row.run_id, row.status


def statuses(room: Room) -> dict[bytes, int]:
    """Heads and lists agree."""
    heads = {row.run_id: row.status for row in room.tables.executions.all()}
    assert heads == {row.run_id: row.status for row in room.tables.visibility.all()}
    return heads


async def assert_memory_is_what_is_saved(room: Room, node: Node, run_id: bytes) -> None:
    """Invariant 4."""
    record = await room.store.load_run(1, run_id, room.codec.task_keys_of_head)
    assert record is not None
    saved, _, _ = restore(record, room.codec)
    state = node.shard().runs[run_id].state
    encode = room.codec.encode_snapshot
    assert encode(saved.folded) == encode(state.folded)
    assert list(saved.tasks) == list(state.tasks)
    assert saved.timer_rows.keys() == state.timer_rows.keys()


def set_update(stage: UpdateStage) -> UpdateWorkflow:
    return UpdateWorkflow(
        namespace_id=NAMESPACE,
        workflow_id="order",
        run_id=b"",
        update_id="u-1",
        update_name="set",
        body_hash=BODY,
        wait_stage=stage,
    )


async def talked_to(node: Node, turns: int) -> bytes:
    """A run with a long history: 18 events a turn."""
    worker = node.room.worker()
    run_id = await node.at("order", worker, [timer(500)])
    for _ in range(turns):
        await asyncio.gather(*[node.signal("order") for _ in range(14)])
        await node.complete(await node.workflow_task(worker), [])
    return run_id


@in_room()
async def test_the_reset_run_goes_on_from_its_workflow_task(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    base = await node.at("order", worker, [schedule("a"), timer(500)])
    held = await node.activity_task(worker)
    await node.complete_activity(held.token)
    await node.complete(await node.workflow_task(worker), [schedule("b")])
    reset = await node.reset("order", 11)

    task = await node.workflow_task(worker)
    assert task.run_id == reset.run_id != base
    names = [type(event).__name__ for event in task.events]
    assert names[-3:] == ["WorkflowTaskFailed", "WorkflowTaskScheduled", "WorkflowTaskStarted"]
    assert "ActivityTaskCompleted" in names, "what was before the point is there"
    await assert_memory_is_what_is_saved(room, node, reset.run_id)
    await node.complete(task, [FINISH])
    assert statuses(room) == {base: Status.TERMINATED, reset.run_id: Status.COMPLETED}


@in_room()
async def test_an_activity_that_was_pending_keeps_its_key_and_its_old_worker_is_not_heard(
    room: Room,
) -> None:
    """Invariant 30; and whatever the activity calls must see that it may have done its work in the first run."""
    node = await room.node(1)
    worker = room.worker()
    base = await node.at("order", worker, [schedule("a")])
    held = await node.activity_task(worker)
    assert held.key_run_id == b"", "its own run's"
    await node.signal("order")
    await node.complete(await node.workflow_task(worker), [])
    first = await node.reset("order")
    assert (await refused(node.complete_activity(held.token))).code is Code.NOT_FOUND
    second = await node.activity_task(worker)
    assert (second.run_id, second.key_run_id) == (first.run_id, base)
    assert second.scheduled.event_id == held.scheduled.event_id
    await node.complete(await node.workflow_task(worker), [])
    await node.reset("order")
    third = await (await room.node(1)).activity_task(worker, timeout_s=30)
    assert third.key_run_id == base, "also through the reset of a reset, and from rows"


@in_room()
async def test_invariants_5_and_6_the_two_runs_change_in_one_statement(room: Room) -> None:
    """While it is in flight the old run is the current one; after it the new one, for everybody at once."""
    node = await room.node(1)
    base = await node.at("order", room.worker(), [timer(500)])
    result = node.result("order", run_id=base)
    hold = node.holds.hold("commit")
    reset = node.reset("order")
    await hold.reached()
    await pass_time(1)
    nothing_said(result, reset)
    assert current(room) == (base, Status.RUNNING)
    assert statuses(room) == {base: Status.RUNNING}
    hold.release()
    run_id = (await reset).run_id
    assert current(room) == (run_id, Status.RUNNING)
    assert statuses(room) == {base: Status.TERMINATED, run_id: Status.RUNNING}
    closed = await result
    assert closed.status is Status.TERMINATED, "as Temporal: its result is that it was terminated"
    assert closed.event.reset_run_id == run_id
    assert closed.event.reason.endswith(": a bug")


@in_room()
async def test_invariants_5_and_10_a_commit_that_fails_leaves_no_half_of_a_reset(
    room: Room,
) -> None:
    """Wherever a statement can fail: both runs have changed, or neither, and the repeat is the same run."""
    for error, moment in (
        (StoreUnavailable("no connection"), Moment.BEFORE),
        (OutcomeUnknown("reply lost"), Moment.BEFORE),
        (OutcomeUnknown("reply lost"), Moment.AFTER),
    ):
        node = await room.node(1)
        name = f"order-{type(error).__name__}-{moment.name}"
        base = await node.at(name, room.worker(), [timer(500)])
        node.faults.fail_next("commit", error, moment)
        reset = await node.reset(name, request_id=REQUEST)
        assert reset.run_id == reset_run_id(NAMESPACE, name, REQUEST)
        runs = {r.run_id: r.status for r in room.tables.executions.all() if r.workflow_id == name}
        assert runs == {base: Status.TERMINATED, reset.run_id: Status.RUNNING}
        [row] = [row for row in room.tables.current_runs.all() if row.workflow_id == name]
        assert row.run_id == reset.run_id
        await node.complete(await node.workflow_task(room.worker()), [FINISH])


@in_room()
async def test_invariants_13_and_25_an_owner_that_dies_leaves_both_runs_or_neither(
    room: Room,
) -> None:
    """Killed before the commit nothing has happened; killed after it the next owner knows the new run, and says so."""
    old = await room.node(1)
    base = await old.at("order", room.worker(), [timer(500)])
    hold = old.holds.hold("commit")
    reset = old.reset("order", request_id=REQUEST)
    await hold.reached()
    new = await room.node(1)
    hold.release()
    assert (await refused(reset)).code is Code.UNAVAILABLE
    assert statuses(room) == {base: Status.RUNNING}

    said = await new.reset("order", request_id=REQUEST)
    assert statuses(room) == {base: Status.TERMINATED, said.run_id: Status.RUNNING}
    third = await room.node(1)
    assert await third.reset("order", request_id=REQUEST) == said
    assert len(room.tables.executions.all()) == 2
    task = await third.workflow_task(room.worker(), timeout_s=30)
    assert task.run_id == said.run_id


@in_room()
async def test_a_repeat_begins_nothing_even_when_the_new_run_has_closed_or_gone_on(
    room: Room,
) -> None:
    """Invariant 5, §1: the answer is the same, the effect is once. Another body is an error."""
    node = await room.node(1)
    base = await node.at("order", room.worker(), [timer(500)])
    asked = [
        node.reset("order", request_id=REQUEST, run_id=base),
        node.reset("order", request_id=REQUEST, run_id=base),
    ]
    first, second = await asyncio.gather(*asked)
    assert first == second
    await node.complete(await node.workflow_task(room.worker()), [AGAIN])
    await node.complete(await node.workflow_task(room.worker()), [FINISH])
    fresh = await room.node(1)  # none of the runs is in memory
    assert await fresh.reset("order", request_id=REQUEST, run_id=base) == first
    assert len(room.tables.executions.all()) == 3
    other = await refused(fresh.reset("order", request_id=REQUEST, run_id=base, body_hash=b"other"))
    assert (other.code, other.field) == (Code.INVALID_ARGUMENT, "request_id")


@in_room(seeds=(0,), runs_cached_max=16)
async def test_a_long_history_is_read_in_pages_and_copied_whole(room: Room) -> None:
    """More events than memory keeps: the rest comes from the database, and goes back into rows of readable size."""
    node = await room.node(1)
    worker = room.worker()
    base = await talked_to(node, turns=90)
    before = await room.history(base)
    assert len(before) > 1_500
    assert node.shard().runs[base].events_from > 1, "memory has the end only"
    last = max(e.event_id for e in before if isinstance(e, ev.WorkflowTaskCompleted))
    reset = await node.reset("order", last)
    after = await room.history(reset.run_id)
    assert after[1 : last - 1] == before[1 : last - 1]
    firsts = [r.first_event_id for r in room.tables.history.all() if r.run_id == reset.run_id]
    assert firsts[:2] == [1, 1_001]
    await assert_memory_is_what_is_saved(room, node, reset.run_id)
    task = await node.workflow_task(worker)
    await node.complete(task, [FINISH])


@in_room()
async def test_a_closed_run_is_reset_and_an_open_one_of_its_id_gives_way(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    base = await node.at("order", worker, [FINISH])
    other = await node.at("order", worker, [timer(500)])
    fresh = await room.node(1)
    reset = await fresh.reset("order", run_id=base)
    assert statuses(room) == {
        base: Status.COMPLETED,
        other: Status.TERMINATED,
        reset.run_id: Status.RUNNING,
    }
    assert current(room) == (reset.run_id, Status.RUNNING)
    assert (await room.names(base))[-1] == "WorkflowExecutionCompleted", "it never changes"


@in_room()
async def test_signals_to_the_runs_that_it_continued_as_are_applied_again(room: Room) -> None:
    """Invariants 41, 42: in order, once; read from the database, and from memory where the last run is open."""
    node = await room.node(1)
    worker = room.worker()
    base = await node.at("order", worker, [timer(500)])
    for name in ("one", "two"):
        await node.signal("order", name)
        await node.complete(await node.workflow_task(worker), [AGAIN] if name == "one" else [])
    await node.signal("order", "three")
    task = await node.workflow_task(worker)
    assert task.run_id != base
    request_id = room.ids.new_id()
    await node.signal("order", "four", request_id=request_id)  # waits: the task is out
    reset = await node.reset("order", 4, run_id=base)
    signals = [
        e.signal_name
        for e in await room.history(reset.run_id)
        if isinstance(e, ev.WorkflowExecutionSignaled)
    ]
    assert signals == ["one", "two", "three", "four"]
    await node.signal("order", "four", request_id=request_id)
    assert len(await room.history(reset.run_id)) == 9, "a repeated call signals nobody twice"

    fresh = await room.node(1)
    without = await fresh.reset(
        "order", 4, run_id=base, reapply_exclude=frozenset({Reapply.SIGNAL, Reapply.UPDATE})
    )
    assert "WorkflowExecutionSignaled" not in await room.names(without.run_id)


@in_room()
async def test_invariant_43_who_waits_for_an_update_has_its_outcome_from_the_new_run(
    room: Room,
) -> None:
    """Admitted, and no worker has looked at it: it goes along, and so does the call that waits for it."""
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(500)])
    waiting = node.history.submit(1, set_update(UpdateStage.COMPLETED))
    await pass_time(0.1)
    reset = await node.reset("order")
    await pass_time(0.1)
    nothing_said(waiting)
    task = await node.workflow_task(worker)
    assert [one.update_id for one in task.updates] == ["u-1"]
    await node.complete(
        task, [cmd.AcceptUpdate("u-1"), cmd.CompleteUpdate("u-1", b"updated", None)]
    )
    status = await waiting
    assert (status.run_id, status.result) == (reset.run_id, b"updated")
    poll = PollUpdate(namespace_id=NAMESPACE, workflow_id="order", run_id=b"", update_id="u-1")
    assert (await node.history.submit(1, poll)).stage is UpdateStage.COMPLETED


@in_room()
async def test_what_cannot_be_reset_says_why_and_changes_nothing(room: Room) -> None:
    """B56: event 0, n + 1, one in the middle of a batch."""
    node = await room.node(1)
    base = await node.at("order", room.worker(), [timer(500)])
    await node.start("fresh")
    rows = room.rows()
    for event_id in (1, 2, 5, 6, 99):
        refusal = await refused(node.reset("order", event_id))
        assert refusal.code is Code.INVALID_ARGUMENT
        assert refusal.field == "workflow_task_finish_event_id"
    unknown = await refused(node.reset("order", run_id=b"no-such-run-....."[:16]))
    assert unknown.code is Code.NOT_FOUND
    assert (await refused(node.reset("nobody"))).code is Code.NOT_FOUND
    assert (await refused(node.reset("other", run_id=base))).code is Code.NOT_FOUND
    assert (await refused(node.reset("fresh"))).reason == "NO_RESET_POINT"
    assert room.rows() == rows
    assert not node.shard().resetting.busy


@in_room(seeds=(0,))
async def test_a_history_that_is_too_large_and_a_chain_that_is_too_long_are_refused(
    room: Room,
) -> None:
    node = await room.node(1)
    base = await node.at("order", room.worker(), [AGAIN])
    limit, resetting.RUNS_FOLLOWED_MAX = resetting.RUNS_FOLLOWED_MAX, 1
    try:
        refusal = await refused(node.reset("order", run_id=base))
    finally:
        resetting.RUNS_FOLLOWED_MAX = limit
    assert refusal.reason == "CHAIN_TOO_LONG"
    node.shard().runs[base].state.history_bytes = 9 * 1024 * 1024
    large = await refused(node.reset("order", run_id=base))
    assert (large.code, large.reason) == (Code.RESOURCE_EXHAUSTED, "HISTORY_TOO_LARGE")


@in_room()
async def test_a_shard_that_leaves_and_a_database_that_is_away_refuse_who_waits(
    room: Room,
) -> None:
    await talked_to(await room.node(1), turns=8)
    node = await room.node(1)  # which has read the run from its snapshot on
    node.faults.fail_next("load_history", StoreUnavailable("no connection"))
    assert (await refused(node.reset("order", 4))).code is Code.UNAVAILABLE
    hold = node.holds.hold("load_history")
    waiting = [node.reset("order", 4) for _ in range(4)]
    await hold.reached()
    await pass_time(1)
    assert node.shard().resetting.busy
    nothing_said(*waiting)
    node.shard().close()
    assert [(await refused(one)).code for one in waiting] == [Code.UNAVAILABLE] * 4
    hold.release()
    await pass_time(1)
    assert statuses(room) == {run_id: Status.RUNNING for run_id in statuses(room)}


ACCEPT, ANSWER = cmd.AcceptUpdate("u-1"), cmd.CompleteUpdate("u-1", b"updated", None)


@in_room()
async def test_an_update_with_start_follows_its_update_to_the_run_that_has_it(room: Room) -> None:
    """Accepted in the run that was reset: the callers hear its one outcome, from the new run (invariant 43)."""
    node = await room.node(1)
    worker = room.worker()
    update = StartUpdate("u-1", "set", b"", b"", BODY, UpdateStage.COMPLETED)
    asked = {"update": update, "run_id": REQUEST, "request_id": REQUEST}
    waiting = node.start("order", **asked)
    await node.complete(await node.workflow_task(worker), [ACCEPT])
    reset = await node.reset("order")
    await pass_time(0.1)
    nothing_said(waiting)
    task = await node.workflow_task(worker)
    again = node.start("order", **asked)
    await pass_time(0.1)
    nothing_said(again)
    await node.complete(task, [ACCEPT, ANSWER])
    for status in (await waiting, await again, await node.start("order", **asked)):
        assert (status.run_id, status.result) == (reset.run_id, b"updated")


@in_room()
async def test_an_update_with_start_does_not_go_round_in_circles(room: Room) -> None:
    """Its run has continued as new with the update, and nothing of that is in memory: asked again, it is answered."""
    node = await room.node(1)
    worker = room.worker()
    update = StartUpdate("u-1", "set", b"", b"", BODY, UpdateStage.COMPLETED)
    asked = {"update": update, "run_id": REQUEST, "request_id": REQUEST}
    await node.start(
        "order",
        run_id=REQUEST,
        request_id=REQUEST,
        run_timeout_ms=5_000,
        retry_policy=RetryPolicy(1_000),
    )
    await node.complete(await node.workflow_task(worker), [timer(500)])
    waiting = node.start("order", **asked)
    await pass_time(6)
    task = await node.workflow_task(worker, timeout_s=20)
    assert [one.update_id for one in task.updates] == ["u-1"]
    await node.complete(task, [ACCEPT, ANSWER])
    assert (await waiting).result == b"updated"
    fresh = await room.node(1)
    assert (await fresh.start("order", **asked)).result == b"updated"


@in_room()
async def test_an_update_that_was_left_out_ends_with_its_run(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    await node.at("order", worker, [timer(500)])
    waiting = node.history.submit(1, set_update(UpdateStage.COMPLETED))
    await pass_time(0.1)
    reset = await node.reset("order", reapply_exclude=frozenset({Reapply.UPDATE}))
    assert (await refused(waiting)).reason == "WORKFLOW_CLOSED"
    assert (await node.workflow_task(worker)).updates == ()
    assert reset.run_id == current(room)[0]


@in_room(runs_cached_max=2)
async def test_inv9_the_run_that_is_reset_to_is_the_current_one_whatever_was_forgotten(
    room: Room,
) -> None:
    """The id's row left memory, its open run did not, and an older run of the id is read again."""
    node = await room.node(1)
    first = await node.at("order", room.worker(), [FINISH])
    await node.start("order")
    open_run = await node.workflow_task(room.worker())  # and so it stays in memory
    for number in range(3):
        await node.at(f"other{number}", room.worker(), [FINISH])
    for number in range(8):
        await refused(node.describe(f"nobody{number}"))
    assert first not in node.shard().runs
    assert open_run.run_id in node.shard().runs
    assert (NAMESPACE, "order") not in node.shard().currents

    reset = await node.reset("order", run_id=first)

    assert (await node.describe("order")).info.run_id == reset.run_id
    [row] = [row for row in room.tables.current_runs.all() if row.workflow_id == "order"]
    assert (row.run_id, row.status) == (reset.run_id, Status.RUNNING)
    assert not node.alarms
    other = await room.node(1)
    assert (await other.describe("order")).info.run_id == reset.run_id
