"""What is over its retention goes into the archive: put first, removed then, whole, and listed once."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest
from tests.unit.history.archive_room import (
    KEPT_S,
    Bucket,
    archive_in,
    found,
    ids,
    keep_for,
    listed,
    retention,
)
from tests.unit.history.room import (
    FINISH,
    Hold,
    Node,
    Room,
    cmd,
    in_room,
    pass_time,
    schedule,
    timer,
    turns,
    within,
)

from perdure_engine.history import archiving, closed_runs
from perdure_engine.history.retention import ARCHIVE_RETRY_S
from perdure_engine.ports.rows import HistoryRow
from perdure_engine.ports.store import StoreUnavailable, VisibilityFilter
from perdure_engine.store.archive import archive
from perdure_engine.transport.grpc.convert.events import event_message
from perdure_engine.transport.json.events import event_from_json

OVER_S = KEPT_S + 110  # over the retention, and long enough for company


async def closed(room: Room, node: Node, *workflow_ids: str) -> list[bytes]:
    worker = room.worker()
    return [await node.at(workflow_id, worker, [FINISH]) for workflow_id in workflow_ids]


async def days_pass(room: Room, *nodes: Node) -> None:
    room.database_clock.jump(24 * 3_600)
    for node in nodes:
        node.rooms.database_clock.sample(room.now_us)


def in_tables(room: Room) -> list[bytes]:
    return sorted([row.run_id for row in room.tables.executions.all()])


@in_room()
async def test_a_run_is_moved_with_its_row_and_its_whole_history(room: Room) -> None:
    node, worker, bucket = await room.node(1), room.worker(), Bucket()
    keep_for(room, KEPT_S)
    run_id = await node.at("order", worker, [schedule(), timer(1)])
    await node.complete_activity((await node.activity_task(worker)).token)
    await node.complete(await node.workflow_task(worker), [FINISH])
    running = await node.at("running", worker, [timer(100_000)])
    row = room.tables.visibility.get(1, run_id)
    assert row is not None
    history = await room.history(run_id)
    await pass_time(OVER_S)

    assert await retention(node, bucket).run_once() == 1

    assert in_tables(room) == [running]
    run = await found(room, bucket, "order", run_id)
    assert run is not None
    assert run.row._replace(bucket=row.bucket) == row
    assert [event_from_json(text) for text in run.events] == [event_message(e) for e in history]
    assert await found(room, bucket, "order") == run
    assert ids(await listed(room, bucket)) == [run_id]
    assert await found(room, bucket, "running") is None
    assert await found(room, bucket, "running", run_id) is None, "it is another workflow's"
    assert not node.alarms
    assert node.rooms.metrics.archived.value("workflows") == 1


@in_room(seeds=(0,), retention_pass_every_s=0.001)
async def test_what_is_over_its_time_waits_for_company(room: Room) -> None:
    """A parcel of one is dear: a pass an hour would make as many as there are runs."""
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    await closed(room, node, "first")
    await pass_time(70)
    await closed(room, node, "second")
    await pass_time(KEPT_S)
    keeper = retention(node, bucket)

    assert await keeper.run_once() == 0
    assert 70 <= keeper.archiving.lag_us() / 1_000_000 <= 72
    await pass_time(31)
    assert await keeper.run_once() == 2

    assert len(bucket.objects()) == 1
    assert keeper.archiving.lag_us() == 0
    assert in_tables(room) == []


@in_room(seeds=(0,), retention_pass_every_s=0.001)
async def test_many_do_not_wait_and_go_in_several_parcels(room: Room) -> None:
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    runs = await closed(room, node, *[f"o{number}" for number in range(7)])
    await pass_time(KEPT_S + 5)
    with patch.object(archiving, "PORTION_MAX", 3):
        assert await retention(node, bucket).run_once() == 6
        await pass_time(110)
        assert await retention(node, bucket).run_once() == 1

    assert len(bucket.objects()) == 3
    assert ids(await listed(room, bucket)) == sorted(runs)


@in_room()
async def test_a_crash_between_put_and_removal_leaves_both_and_the_next_owner_one(
    room: Room,
) -> None:
    """Also when the next owner finds more that is over its time, and so would put another parcel."""
    old, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    runs = await closed(room, old, "first", "second")
    await pass_time(60)
    later = await closed(room, old, "third")
    await pass_time(KEPT_S + 45)
    hold = old.holds.hold("remove_runs")
    dying = asyncio.ensure_future(retention(old, bucket).run_once())
    await hold.reached()
    assert ids(await listed(room, bucket)) == sorted([*runs, *later])
    assert in_tables(room) == sorted([*runs, *later])
    new = await room.node(1)
    hold.release()
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    assert in_tables(room) == sorted([*runs, *later])
    last = await closed(room, new, "fourth")
    await pass_time(OVER_S)

    await retention(new, bucket).run_once()

    assert in_tables(room) == []
    assert ids(await listed(room, bucket)) == sorted([*runs, *later, *last])
    for run_id, name in zip(runs, ("first", "second"), strict=True):
        assert await found(room, bucket, name, run_id) is not None
    assert not new.alarms


@in_room(seeds=(0,))
async def test_a_put_that_fails_loses_nothing_and_is_repeated(room: Room) -> None:
    """At each of the three objects of a parcel, landed or not: afterwards each run is there once."""
    for lands in (False, True):
        for failing in range(3):
            node, bucket = await room.node(1), Bucket()
            bucket.lands, bucket.fails = lands, [number == failing for number in range(3)]
            keep_for(room, KEPT_S)
            runs = await closed(room, node, f"a{failing}{lands}", f"b{failing}{lands}")
            await days_pass(room, node)
            keeper = retention(node, bucket)

            assert await keeper.run_once() == 0
            assert in_tables(room) == sorted(runs)
            assert keeper.archiving.failed
            assert keeper.archiving.lag_us() > 100_000_000
            assert node.rooms.metrics.archive_failures.value() == 1
            assert await keeper.run_once() == 2

            assert in_tables(room) == []
            assert ids(await listed(room, bucket)) == sorted(runs)
            assert await found(room, bucket, f"a{failing}{lands}", runs[0]) is not None
            assert keeper.archiving.lag_us() == 0


@in_room(seeds=(0,), retention_pass_every_s=0.001)
async def test_a_put_that_landed_unheard_is_not_repeated_with_others(room: Room) -> None:
    """Another parcel of the same day would hold its runs a second time."""
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    runs = await closed(room, node, "first", "second")
    await pass_time(105)
    bucket.lands, bucket.fails = True, [False, False, True]
    keeper = retention(node, bucket)
    runs += await closed(room, node, "third")
    await pass_time(KEPT_S - 3)
    assert await keeper.run_once() == 0
    assert len(ids(await listed(room, bucket))) == 2
    await pass_time(110)

    assert await keeper.run_once() == 3

    assert ids(await listed(room, bucket, limit=1)) == sorted(runs)
    assert len(bucket.objects()) == 2


@in_room(seeds=(0,), retention_pass_every_s=3_600.0)
async def test_an_archive_that_is_away_holds_up_nobody_else(room: Room) -> None:
    """Workflows go on while a put hangs and after it failed; then it is tried again by itself."""
    node, worker, bucket = await room.node(1), room.worker(), Bucket()
    keep_for(room, KEPT_S)
    runs = await closed(room, node, "kept")
    bucket.hold = Hold()
    await pass_time(OVER_S)
    keeper = retention(node, bucket)
    await keeper.start()
    await within(bucket.hold.reached(), 200)

    for number in range(3):
        run_id = await within(node.at(f"new{number}", worker, [FINISH]), 2)
        assert (await node.describe(f"new{number}")).info.run_id == run_id
    assert set(runs) <= set(in_tables(room))
    bucket.fails = [True]
    bucket.hold.release()
    await turns(50)
    assert set(runs) <= set(in_tables(room))
    await pass_time(ARCHIVE_RETRY_S * 1.25)
    await pass_time(5)
    assert ids(await listed(room, bucket)) == runs
    assert not set(runs) & set(in_tables(room))
    await keeper.stop()


@in_room()
async def test_a_namespace_that_does_not_archive_is_deleted(room: Room) -> None:
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S, archive=False)
    await closed(room, node, "order")
    await pass_time(KEPT_S + 1)

    assert await retention(node, bucket).run_once() == 1

    assert in_tables(room) == []
    assert bucket.by_name == {}


@in_room(seeds=(0,))
async def test_a_history_that_does_not_read_back_stays_and_its_neighbours_go(room: Room) -> None:
    """Invariant 1: what would be archived is whole, or it is not archived."""
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    gap, garbled, short, whole = await closed(room, node, "gap", "garbled", "short", "whole")
    history = room.tables.history
    history.delete(history.in_order((1, gap))[0])
    history.delete(history.in_order((1, short))[-1])
    history.put(HistoryRow(1, garbled, 1, 0, b"\x07nonsense"))
    await pass_time(OVER_S)

    assert await retention(node, bucket).run_once() == 1

    assert in_tables(room) == sorted([gap, garbled, short])
    assert ids(await listed(room, bucket)) == [whole]
    assert node.alarms == ["run_not_archived"] * 3


@in_room(seeds=(0,))
async def test_a_large_history_is_read_in_pages_and_has_a_frame_of_its_own(room: Room) -> None:
    node, worker, bucket = await room.node(1), room.worker(), Bucket()
    keep_for(room, KEPT_S)
    run_id = await node.at("large", worker, [timer(1, "t0")])
    for number in range(40):
        await pass_time(2)
        task = await node.workflow_task(worker)
        noise = b"".join([room.ids.new_id() for _ in range(2_000)])
        marker = cmd.RecordMarker("m", noise, b"", None)
        await node.complete(task, [marker, timer(1, f"t{number + 1}")])
    await pass_time(2)
    await node.complete(await node.workflow_task(worker), [FINISH])
    small = await closed(room, node, "small")
    history = await room.history(run_id)
    await pass_time(OVER_S)
    with (
        patch.object(archiving, "READ_BYTES_MAX", 100_000),
        patch.object(closed_runs, "READ_BYTES_MAX", 100_000),
    ):
        assert await retention(node, bucket).run_once() == 2

    with patch.object(archive, "BESIDE_THE_LOOP_MIN", 1 << 30):  # no threads in a simulation
        run = await found(room, bucket, "large")
    assert run is not None
    assert [event_from_json(text) for text in run.events] == [event_message(e) for e in history]
    other = await found(room, bucket, "small", small[0])
    assert other is not None
    assert len(bucket.objects()) == 1
    assert node.holds.calls.count("load_history") > 1


@in_room(seeds=(0,))
async def test_a_database_that_is_away_during_a_pass_loses_nothing(room: Room) -> None:
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    runs = await closed(room, node, "first", "second")
    await pass_time(OVER_S)
    for operation in ("load_listed_runs", "load_histories"):
        node.faults.fail_next(operation, StoreUnavailable("?"))
        with pytest.raises(StoreUnavailable):
            await retention(node, bucket).run_once()
        assert in_tables(room) == sorted(runs)
        assert bucket.by_name == {}

    assert await retention(node, bucket).run_once() == 2
    assert ids(await listed(room, bucket)) == sorted(runs)


@in_room(seeds=(0,))
async def test_passes_are_rarer_where_all_is_kept_for_long(room: Room) -> None:
    """Each pass looks at every row: what is kept for a week must not be looked at each hour."""
    node, bucket = await room.node(1), Bucket()
    keep_for(room, 8_000)  # an eighth of it is 1,000 s
    keeper = retention(node, bucket)
    await keeper.start()
    await pass_time(4_500)
    looks = node.holds.calls.count("load_closed_runs")
    assert 4 <= looks <= 7
    await keeper.stop()


@in_room(seeds=(0,))
async def test_the_newest_run_of_a_workflow_id_is_found_without_its_run_id(room: Room) -> None:
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    keeper = retention(node, bucket)
    runs = []
    for _ in range(4):
        runs += await closed(room, node, "again")
        await pass_time(OVER_S)
        await keeper.run_once()

    newest = await found(room, bucket, "again")

    assert newest is not None
    assert newest.row.run_id == runs[-1]
    for run_id in runs:
        run = await found(room, bucket, "again", run_id)
        assert run is not None
        assert run.row.run_id == run_id


@in_room(seeds=(0,))
async def test_lists_go_from_the_newest_day_to_the_oldest_in_pages(room: Room) -> None:
    node, bucket = await room.node(1, 2, 3), Bucket()
    keep_for(room, KEPT_S)
    worker, keeper, days = room.worker(), retention(node, bucket), []
    for day in range(3):
        days.append([await node.at(f"d{day}s{s}", worker, [FINISH], s) for s in (1, 2, 3)])
        await pass_time(OVER_S)
        await keeper.run_once()
        await days_pass(room, node)
    lists = archive_in(room, bucket)

    rows = await listed(room, bucket, limit=2)
    assert [sorted(ids(rows[first : first + 3])) for first in (0, 3, 6)] == [
        sorted(day) for day in reversed(days)
    ]
    young = VisibilityFilter(rows[0].namespace_id, start_min_us=rows[3].start_us)
    page = await lists.list_runs(young, None, 100)
    assert {row.run_id for row, _ in page.rows} == {*days[2], *days[1]}
    typed = VisibilityFilter(rows[0].namespace_id, workflow_id_prefix="d1")
    page = await lists.list_runs(typed, None, 100)
    assert {row.run_id for row, _ in page.rows} == {*days[1]}
    assert page.end is None
