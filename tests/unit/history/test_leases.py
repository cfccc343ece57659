"""Leases beside the inbox, one attempt only, start numbers and tokens (design §6)."""

from unittest import mock

import pytest
from tests.unit.history.room import (
    FINISH,
    ONCE,
    Room,
    beats,
    cmd,
    codes,
    ev,
    held_activity,
    in_room,
    nothing_said,
    outcomes,
    pass_time,
    turns,
)

from perdure_engine.core.errors import Code
from perdure_engine.core.failures import FailureKind
from perdure_engine.core.ids import SEQUENCE_BITS
from perdure_engine.core.limits import DEFAULT_RUN_LIMITS
from perdure_engine.core.tasks import TaskKind, TaskState
from perdure_engine.history import shard as shard_module
from perdure_engine.history.rooms import HistoryConfig
from perdure_engine.history.shard import Shard
from perdure_engine.ports.store import OutcomeUnknown, StoreUnavailable
from perdure_engine.store.memory import Moment

# ---- leases


@in_room()
async def test_a_lease_without_heartbeats_ends_and_the_task_is_ready_again_uncounted(
    room: Room,
) -> None:
    """Invariants 13, 16, 31: the worker's poll waits, so it may live: it has the whole lease."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    poll = node.polling(worker, timeout_s=20, queue="another")
    await node.nothing(room.worker("w2"), timeout_s=room.config.lease_s - 0.5)
    again = await node.activity_task(room.worker("w2"), timeout_s=2)
    assert again.attempt == task.attempt == 1
    assert again.token.start_no > task.token.start_no
    await poll


@in_room()
async def test_heartbeats_renew_without_a_commit(room: Room) -> None:
    """Invariant 16: they never enter the inbox, and the database hears nothing of them."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    await pass_time(2)
    before = node.writer.statements
    assert await beats(node, worker, 60, task.token) == [None]
    assert node.writer.statements == before
    await node.nothing(room.worker("w2"))
    await node.complete_activity(task.token)


@in_room()
async def test_renewals_take_effect_while_a_commit_is_in_flight(room: Room) -> None:
    """Invariant 16: design §6, on arrival, with no await."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    await pass_time(2)
    hold = node.holds.hold("commit")
    signal = node.signal("order")
    await hold.reached()
    await beats(node, worker, 30, task.token)
    [held] = node.shard().leases._held.values()
    assert held.handout.lease_until > node.clock.monotonic() + room.config.lease_s - 1
    nothing_said(signal)
    hold.release()
    await signal
    await pass_time(1)
    await node.complete_activity(task.token)


@in_room()
async def test_a_gap_of_the_owners_own_prolongs_all_leases(room: Room) -> None:
    """Invariants 16, 35: a slow owner is not a dead worker. Its renewals may wait unread in the socket."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    await pass_time(room.config.lease_s - 1)
    node.clock.jump(30)  # SIGSTOP and SIGCONT
    await node.nothing(room.worker("w2"), timeout_s=room.config.lease_s - 1)
    assert node.beat(worker, task.token) == [None]
    await node.complete_activity(task.token)


@in_room()
async def test_a_commit_in_flight_for_longer_than_2_s_prolongs_all_leases(room: Room) -> None:
    """Invariants 16, 35."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    await pass_time(2)
    hold = node.holds.hold("commit")
    signal = node.signal("order")
    await hold.reached()
    await pass_time(30)
    hold.release()
    await signal
    await node.nothing(room.worker("w2"), timeout_s=room.config.lease_s - 1, workflow=0)
    await node.complete_activity(task.token)


@in_room()
async def test_an_unlisted_task_is_put_back_after_2_s_uncounted(room: Room) -> None:
    """Invariants 16, 17: the answer of its poll was lost; the worker lives."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    await pass_time(1)
    node.beat(worker)
    await node.nothing(room.worker("w2"), timeout_s=1.0)
    await pass_time(0.5)
    node.beat(worker)
    again = await node.activity_task(room.worker("w2"), timeout_s=0.5)
    assert again.attempt == 1
    assert again.token.start_no > task.token.start_no
    assert await codes(node.complete_activity(task.token)) == [Code.NOT_FOUND]


@in_room()
async def test_a_broken_poll_leaves_4_seconds(room: Room) -> None:
    """Invariant 17: and a heartbeat makes it whole again."""
    node = await room.node(1)
    worker = room.worker()
    await held_activity(room, node, worker)
    node.history.poll_broken(worker.worker_id)
    await node.nothing(room.worker("w2"), timeout_s=3.5)
    await node.activity_task(room.worker("w2"), timeout_s=2)
    _, other = await held_activity(room, node, worker, "other")
    node.history.poll_broken(worker.worker_id)
    await beats(node, worker, 20, other.token)
    await node.complete_activity(other.token)


@pytest.mark.parametrize("timeout", ["heartbeat_timeout_ms", "start_to_close_timeout_ms"])
def test_invariant_35_a_dead_workers_task_has_crashed_though_its_time_was_shorter(
    timeout: str,
) -> None:
    """A broken connection and a time that is over: code that kills its worker at once must not pass for slow."""

    @in_room()
    async def story(room: Room) -> None:
        node = await room.node(1)
        worker = room.worker()
        await held_activity(room, node, worker, **{timeout: 2_000})
        node.history.poll_broken(worker.worker_id)
        again = await node.activity_task(room.worker("w2"), timeout_s=3)
        assert (again.attempt, again.crashes) == (1, 1)

    story()


@in_room()
async def test_a_worker_that_is_heard_of_again_is_slow_and_not_dead(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker, heartbeat_timeout_ms=3_000)
    node.history.poll_broken(worker.worker_id)
    await beats(node, worker, 2, task.token)
    again = await node.activity_task(room.worker("w2"), timeout_s=4)
    assert (again.attempt, again.crashes) == (2, 0)


@in_room()
async def test_a_goodbye_releases_at_once(room: Room) -> None:
    """Invariant 35: a drained worker counts no crash."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    node.history.goodbye(worker, [])
    again = await node.activity_task(room.worker("w2"), timeout_s=0.5)
    assert again.attempt == task.attempt


@in_room()
async def test_a_start_is_saved_by_itself_after_a_second(room: Room) -> None:
    """Invariant 13: the next owner must know what may be running."""
    node = await room.node(1)
    _, task = await held_activity(room, node, room.worker())
    [row] = room.tasks(TaskKind.ACTIVITY)
    assert row.state == TaskState.READY
    await pass_time(2)
    [row] = room.tasks(TaskKind.ACTIVITY)
    assert (row.state, row.start_no) == (TaskState.STARTED, task.token.start_no)


@in_room()
async def test_a_short_task_never_costs_a_commit_for_its_start(room: Room) -> None:
    node = await room.node(1)
    _, task = await held_activity(room, node, room.worker())
    before = node.writer.statements
    await node.complete_activity(task.token)
    assert node.writer.statements == before + 1


@in_room()
async def test_invariant_24_start_to_close_times_an_attempt_out_once(room: Room) -> None:
    """Invariants 24, 31: though its worker lives and lists it."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker, start_to_close_timeout_ms=5_000)
    verdicts = await beats(node, worker, 8, task.token)
    assert verdicts[0].lost
    again = await node.activity_task(worker, timeout_s=2)
    assert again.attempt == 2
    assert await codes(node.complete_activity(task.token)) == [Code.NOT_FOUND]
    await node.complete_activity(again.token)


@in_room()
async def test_invariant_24_heartbeat_timeout_counts_from_the_last_details(room: Room) -> None:
    """Invariants 24, 34: a listing without details is the process's sign of life, not the activity's."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker, heartbeat_timeout_ms=5_000)
    for _ in range(6):
        await pass_time(2)
        assert node.beat(worker, task.token, details=b"on") == [None]
    await pass_time(4)
    assert node.beat(worker, task.token) == [None]
    await pass_time(3)
    assert node.beat(worker, task.token)[0].lost
    again = await node.activity_task(worker, timeout_s=3)
    assert again.attempt == 2
    assert again.token.start_no > task.token.start_no


@in_room()
async def test_invariant_33_the_next_attempt_has_the_last_details(room: Room) -> None:
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker, start_to_close_timeout_ms=35_000)
    for number in range(16):
        await pass_time(2)
        node.beat(worker, task.token, details=b"step %d" % number)
    saved = room.codec.decode_task(room.tasks(TaskKind.ACTIVITY)[0])
    assert saved.progress in (b"step 13", b"step 14"), "saved once in 30 s"
    assert saved.progress_version == 1
    await pass_time(4)
    again = await node.activity_task(worker, timeout_s=3)
    assert (again.attempt, again.progress) == (2, b"step 15")


@in_room()
async def test_invariant_32_a_cancel_request_is_told_in_the_heartbeat_once_saved(
    room: Room,
) -> None:
    """Invariants 5, 32, 46."""
    node = await room.node(1)
    worker = room.worker()
    _, task = await held_activity(room, node, worker)
    await node.signal("order")
    workflow_task = await node.workflow_task(worker)
    hold = node.holds.hold("commit")
    done = node.complete(workflow_task, [cmd.RequestCancelActivity(task.token.scheduled_event_id)])
    await hold.reached()
    assert node.beat(worker, task.token) == [None]
    hold.release()
    await done
    [verdict] = node.beat(worker, task.token)
    assert verdict.cancel_requested
    assert not verdict.lost


@in_room()
async def test_invariant_30_of_two_hand_outs_only_the_newest_counts(room: Room) -> None:
    node = await room.node(1)
    run_id, first = await held_activity(room, node, room.worker())
    await pass_time(11)
    second = await node.activity_task(room.worker("w2"), timeout_s=2)
    assert await codes(node.complete_activity(first.token, b"old")) == [Code.NOT_FOUND]
    await node.complete_activity(second.token, b"new")
    assert await codes(node.complete_activity(second.token, b"twice")) == [Code.NOT_FOUND]
    history = await room.history(run_id)
    [completed] = [e for e in history if isinstance(e, ev.ActivityTaskCompleted)]
    assert completed.result == b"new"


@in_room()
async def test_invariant_18_a_workflow_task_whose_worker_died_is_handed_out_anew(
    room: Room,
) -> None:
    """Invariants 16, 18, 42: and what was buffered meanwhile is numbered first."""
    node = await room.node(1)
    started = await node.start("order", task_timeout_ms=60_000)
    first = await node.workflow_task(room.worker())
    await node.signal("order")
    assert room.tables.inbox.in_order((1, started.run_id)), "buffered while it is out"
    second = await node.workflow_task(room.worker("w2"), timeout_s=14)
    names = [type(event).__name__ for event in second.events]
    assert names[-2:] == ["WorkflowExecutionSignaled", "WorkflowTaskStarted"]
    assert await codes(node.complete(first, [FINISH])) == [Code.NOT_FOUND]
    await node.complete(second, [FINISH])


@in_room()
async def test_invariant_17_a_task_whose_poll_was_cancelled_is_offered_again_at_once(
    room: Room,
) -> None:
    node = await room.node(1)
    await node.start("order")
    task = await node.workflow_task(room.worker())
    node.history.undo_start(task)
    again = await node.workflow_task(room.worker("w2"), timeout_s=1)
    assert again.attempt == 1
    assert again.token is not None
    assert task.token is not None
    assert again.token.start_no > task.token.start_no


# ---- one attempt only


@in_room()
async def test_maximum_attempts_1_is_saved_before_a_worker_hears_of_it(room: Room) -> None:
    """Invariants 5, 31: the exception to the exception (design §3)."""
    node = await room.node(1)
    worker = room.worker()
    await node.at_activity("order", worker, retry_policy=ONCE)
    hold = node.holds.hold("commit")
    poll = node.polling(worker, workflow=0, timeout_s=5)
    await hold.reached()
    await turns(20)
    nothing_said(poll)
    hold.release()
    [task] = (await poll).activity_tasks
    [row] = room.tasks(TaskKind.ACTIVITY)
    assert (row.state, row.start_no) == (TaskState.STARTED, task.token.start_no)
    await node.complete_activity(task.token)


@in_room()
async def test_maximum_attempts_1_ends_with_worker_lost_when_its_worker_dies(room: Room) -> None:
    """Invariant 31: no second attempt, whatever happened to the first."""
    node = await room.node(1)
    run_id, _ = await held_activity(room, node, room.worker(), retry_policy=ONCE)
    await pass_time(12)
    [failed] = [e for e in await room.history(run_id) if isinstance(e, ev.ActivityTaskFailed)]
    assert failed.failure.cause is not None
    assert failed.failure.cause.kind is FailureKind.WORKER_LOST


@in_room()
async def test_maximum_attempts_1_whose_start_could_not_be_saved_has_not_run(room: Room) -> None:
    """Invariants 13, 31: no worker ever heard of it, so it is offered again and nobody is lost."""
    node = await room.node(1)
    worker = room.worker()
    run_id = await node.at_activity("order", worker, retry_policy=ONCE)
    for _ in range(30):
        node.faults.fail_next("commit", StoreUnavailable("away"))
    await node.nothing(worker, timeout_s=9)
    node.faults._planned.clear()
    task = await node.activity_task(room.worker("w2"), timeout_s=20)
    await node.complete_activity(task.token)
    assert outcomes(await room.history(run_id), ev.ActivityTaskCompleted) == 1


# ---- start numbers


class Numbers:
    """All numbers that shards give out, while it is entered."""

    def __init__(self) -> None:
        self.given: list[int] = []
        real = Shard.new_number

        def note(shard: Shard) -> int:
            number = real(shard)
            self.given.append(number)
            return number

        self._patch = mock.patch.object(Shard, "new_number", note)

    def __enter__(self) -> list[int]:
        self._patch.start()
        return self.given

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


@in_room()
async def test_invariant_27_start_numbers_are_never_used_again(room: Room) -> None:
    """Invariants 16, 27: over bumps of our own, lapses and take-overs."""
    with Numbers() as given:
        worker = room.worker()
        for round_ in range(3):
            node = await room.node(1)
            await node.at_activity(f"o{round_}", worker)
            node.faults.fail_next("commit", OutcomeUnknown("?"), Moment.AFTER)
            await node.at_activity(f"p{round_}", worker)
            node.history.lapsed()
            await node.at_activity(f"q{round_}", worker)
            await node.activity_task(worker)
    assert len(given) == len(set(given)) > 20
    assert given == sorted(given)


@in_room()
async def test_a_range_that_runs_out_is_replaced_before_it_ends(room: Room) -> None:
    """Invariants 16, 27: the sequence starts over behind a new range, under load."""
    with (
        mock.patch.object(shard_module, "SEQUENCE_MAX", 300),
        mock.patch.object(shard_module, "NUMBERS_SPARE", 200),
        Numbers() as given,
    ):
        node = await room.node(1)
        before = room.fence_of().range_id
        worker = room.worker()
        for number in range(60):
            await node.at_activity(f"o{number}", worker)
            task = await node.activity_task(worker)
            await node.complete_activity(task.token)
    assert room.fence_of().range_id > before + 1
    assert len(given) == len(set(given))
    assert max(number & ((1 << SEQUENCE_BITS) - 1) for number in given) <= 300
    assert not node.alarms


def test_a_batch_cannot_run_past_the_end_of_its_range() -> None:
    """Invariant 27: past 2^24 the numbers would be those of the next range."""
    largest_batch = HistoryConfig().group_intents_max * DEFAULT_RUN_LIMITS.commands_max
    assert largest_batch < shard_module.NUMBERS_SPARE
