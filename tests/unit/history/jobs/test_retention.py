"""Jobs that ended long ago leave the tables: deleted, or put into the archive first; with what belongs to them."""

from __future__ import annotations

import asyncio
from hashlib import shake_128
from typing import Any
from unittest.mock import patch

from tests.unit.history.archive_room import KEPT_S, Bucket, archive_in, keep_for, retention
from tests.unit.history.jobs.work import (
    FAILURE,
    ONCE,
    Concurrency,
    JobStatus,
    Unique,
    UniqueScope,
    complete,
    create,
    create_named,
    describe,
    fail,
    id_of,
    new_job,
    poll,
    redrive,
    row_of,
    status,
)
from tests.unit.history.room import (
    NAMESPACE,
    Hold,
    Node,
    Room,
    in_room,
    pass_time,
    refused,
    turns,
    within,
)

from perdure_api.v1 import job_service_pb2 as pb
from perdure_engine.core.errors import Code
from perdure_engine.core.jobs import intents as job
from perdure_engine.core.jobs.replies import JobDescription
from perdure_engine.core.schedules.model import SlotOrigin, SlotOutcome
from perdure_engine.history import archiving
from perdure_engine.history.jobs import removing
from perdure_engine.history.jobs.removing import LeavingJob
from perdure_engine.ports.archive import ArchivedJobFilter, ArchivePlace
from perdure_engine.ports.jobs import JobFilter
from perdure_engine.ports.rows import JobRunRow, ScheduleSlotRow
from perdure_engine.ports.store import Conflict, OutcomeUnknown, StoreError, StoreUnavailable
from perdure_engine.store.memory import Moment
from perdure_engine.transport.grpc.convert.job_replies import details_message, info_fields
from perdure_engine.transport.json.jobs import details_from_json, info_from_json

OVER_S = KEPT_S + 110
DAY_S = 24 * 3_600


async def done(room: Room, node: Node, *names: str, **fields: Any) -> None:
    await create_named(node, *names, **fields)
    tasks = await poll(node, room.worker(), queue=fields.get("queue", "mail"))
    assert len(tasks) == len(names)
    await complete(node, *tasks)


async def failed(room: Room, node: Node, name: str, **fields: Any) -> None:
    await create_named(node, name, retry=ONCE, **fields)
    await fail(node, *await poll(node, room.worker()))
    assert await status(node, name) is JobStatus.FAILED


def in_tables(room: Room) -> list[str]:
    """By their inputs, which are their names."""
    codec = room.codec
    rows = room.tables.job_runs.all()
    return sorted([codec.decode_job_spec(row.spec).input.decode() for row in rows])


def jump(room: Room, seconds: float, *nodes: Node) -> None:
    room.database_clock.jump(seconds)
    for node in nodes:
        node.rooms.database_clock.sample(room.now_us)


async def listed(
    room: Room, bucket: Bucket, limit: int = 2, failure_type: str = "", **where: Any
) -> list[pb.JobInfo]:
    """All pages."""
    archive, infos = archive_in(room, bucket), list[pb.JobInfo]()
    place: ArchivePlace | None = None
    asked = ArchivedJobFilter(JobFilter(NAMESPACE, **where), failure_type)
    while True:
        page = await archive.list_jobs(asked, place, limit)
        infos += [info_from_json(one.text) for one, _ in page.rows]
        place = page.end
        if place is None:
            return infos


def ids(infos: list[pb.JobInfo]) -> list[str]:
    return sorted([info.job_id.replace("-", "") for info in infos])


def ids_of(*names: str) -> list[str]:
    return sorted([id_of(name).hex() for name in names])


async def details_of(room: Room, bucket: Bucket, name: str) -> pb.JobDetails | None:
    found = await archive_in(room, bucket).find_job(NAMESPACE, 1, id_of(name))
    return None if found is None else details_from_json(found.text)


@in_room()
async def test_without_an_archive_old_jobs_are_deleted_and_open_ones_stay(room: Room) -> None:
    node = await room.node(1)
    keep_for(room, KEPT_S, archive=False)
    await done(room, node, "a", "b")
    await create_named(node, "waits", due_us=room.now_us + 10**12)
    await pass_time(KEPT_S - 5)
    await done(room, node, "young")
    assert await retention(node, Bucket()).run_once() == 0
    await pass_time(10)

    assert await retention(node, Bucket()).run_once() == 2

    assert in_tables(room) == ["waits", "young"]
    assert (await refused(describe(node, "a"))).code is Code.NOT_FOUND
    assert await status(node, "young") is JobStatus.COMPLETED
    created = await create_named(node, "a")
    assert created.jobs[0].created, "its id is free"
    assert not node.alarms
    assert node.rooms.metrics.jobs_removed.value() == 2


@in_room()
async def test_a_job_is_archived_with_all_that_is_kept_of_it(room: Room) -> None:
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    await done(room, node, "done", user_id="ada", schedule_id="nightly")
    await failed(room, node, "failed", unique=Unique("k"), idempotency_key="once")
    before: dict[str, JobDescription] = {
        name: await describe(node, name) for name in ("done", "failed")
    }
    await pass_time(OVER_S)

    assert await retention(node, bucket).run_once() == 2

    assert in_tables(room) == []
    for name, described in before.items():
        details = await details_of(room, bucket, name)
        assert details is not None
        expected = details_message(described, room.now_us)
        expected.info.archived = True
        assert details == expected
    infos = {info.job_id: info for info in await listed(room, bucket)}
    for described in before.values():
        expected_info = pb.JobInfo(**info_fields(described.info, room.now_us), archived=True)
        assert infos[expected_info.job_id] == expected_info
    assert await details_of(room, bucket, "never") is None
    other = await archive_in(room, bucket).find_job(b"another-space-id", 1, id_of("done"))
    assert other is None
    assert node.rooms.metrics.archived.value("jobs") == 2


@in_room(seeds=(0,))
async def test_archived_jobs_are_listed_by_what_lists_go_by(room: Room) -> None:
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    started_us = room.now_us
    await done(room, node, "a", user_id="ada")
    await done(room, node, "b", user_id="bob", schedule_id="nightly")
    await failed(room, node, "c", user_id="ada")
    await done(room, node, "d", queue="other")
    await pass_time(50)
    later_us = room.now_us
    await done(room, node, "e")
    await pass_time(OVER_S)
    await retention(node, bucket).run_once()

    assert ids(await listed(room, bucket)) == ids_of("a", "b", "c", "d", "e")
    assert ids(await listed(room, bucket, user_id="ada")) == ids_of("a", "c")
    assert ids(await listed(room, bucket, schedule_id="nightly")) == ids_of("b")
    assert ids(await listed(room, bucket, statuses=(5,))) == ids_of("c")
    assert ids(await listed(room, bucket, queue="other")) == ids_of("d")
    assert ids(await listed(room, bucket, task_name="send", from_us=later_us)) == ids_of("e")
    assert ids(await listed(room, bucket, to_us=later_us)) == ids_of("a", "b", "c", "d")
    assert ids(await listed(room, bucket, failure_type=FAILURE.type)) == ids_of("c")
    assert await listed(room, bucket, task_name="other") == []
    assert await listed(room, bucket, from_us=started_us + 10**15) == []


@in_room()
async def test_a_crash_between_put_and_removal_leaves_both_and_the_next_owner_one(
    room: Room,
) -> None:
    old, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    await done(room, old, "a", "b")
    await pass_time(60)
    await done(room, old, "c")
    await pass_time(KEPT_S + 45)
    hold = old.holds.hold("remove_jobs")
    dying = asyncio.ensure_future(retention(old, bucket).run_once())
    await hold.reached()
    assert ids(await listed(room, bucket)) == ids_of("a", "b", "c")
    new = await room.node(1)
    hold.release()
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    assert in_tables(room) == ["a", "b", "c"]
    await done(room, new, "d")
    await pass_time(OVER_S)

    await retention(new, bucket).run_once()

    assert in_tables(room) == []
    assert ids(await listed(room, bucket, limit=1)) == ids_of("a", "b", "c", "d")
    assert not new.alarms


@in_room(seeds=(0,))
async def test_a_removal_that_fails_is_repeated(room: Room) -> None:
    """Invariant 25: unknown or refused, the jobs go once."""
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    faults: list[tuple[StoreError, Moment]] = [
        (OutcomeUnknown("?"), Moment.BEFORE),
        (OutcomeUnknown("?"), Moment.AFTER),
        (Conflict("?"), Moment.BEFORE),
        (StoreUnavailable("?"), Moment.BEFORE),
    ]
    for number, (error, moment) in enumerate(faults):
        await done(room, node, f"o{number}")
        jump(room, DAY_S, node)
        node.faults.fail_next("remove_jobs", error, moment)
        assert await retention(node, bucket).run_once() == 1
        assert in_tables(room) == []
    assert ids(await listed(room, bucket)) == ids_of("o0", "o1", "o2", "o3")
    assert not node.alarms
    await done(room, node, "next")


@in_room(seeds=(0,))
async def test_a_job_that_is_redriven_while_it_is_archived_stays(room: Room) -> None:
    """What is in both places is put once more when it has ended again, and what went along is put once."""
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    await failed(room, node, "failed")
    await done(room, node, "done")
    await pass_time(OVER_S)
    bucket.hold = Hold()
    passing = asyncio.ensure_future(retention(node, bucket).run_once())
    await bucket.hold.reached()
    await redrive(node, "failed")
    bucket.hold.release()
    await passing
    assert in_tables(room) == ["failed"]
    assert await status(node, "failed") is JobStatus.PENDING
    await complete(node, *await poll(node, room.worker()))
    jump(room, DAY_S, node)
    await retention(node, bucket).run_once()
    assert in_tables(room) == []
    details = await details_of(room, bucket, "failed")
    assert details is not None
    assert details.info.status == pb.JOB_STATUS_COMPLETED
    assert len(details.failures) == 1
    assert ids(await listed(room, bucket)).count(id_of("done").hex()) == 1
    assert not node.alarms


@in_room(seeds=(0,))
async def test_a_job_that_was_redriven_and_has_left_memory_stays(room: Room) -> None:
    """The guard of the removal says so: its neighbours go in the next pass, and nobody is alarmed."""
    node = await room.node(1)
    keep_for(room, KEPT_S, archive=False)
    await failed(room, node, "failed")
    await done(room, node, "done")
    await pass_time(OVER_S)
    other = await room.node()
    other.rooms.database_clock.sample(room.now_us)
    page = await node.store.load_closed_jobs(1, bytes(16), 100)
    await redrive(node, "failed")
    jobs = node.shard().jobs
    jobs.memory.jobs.pop(id_of("failed"))
    for one in page.jobs:
        jobs.removing.add(LeavingJob(one.job_id, one.closed_us, one.row_bytes))

    assert await jobs.removing.wait_idle() is False

    assert in_tables(room) == ["done", "failed"]
    assert await retention(node, Bucket()).run_once() == 1
    assert in_tables(room) == ["failed"]
    assert not node.alarms


@in_room(seeds=(0,))
async def test_jobs_of_megabytes_are_read_a_few_at_a_time(room: Room) -> None:
    """Deleted or archived: what a pass holds of them at once is bounded, and their keys are known all the same."""
    node, bucket = await room.node(1), Bucket()
    large = shake_128(b"").digest(archiving.READ_BYTES_MAX * 2 // 5)  # not to be compressed
    read: list[int] = []
    load = node.rooms.store.load_jobs

    async def load_jobs(shard_id: int, job_ids: list[bytes]) -> list[JobRunRow]:
        rows = await load(shard_id, job_ids)
        read.append(sum(len(row.spec) + len(row.state) + len(row.result) for row in rows))
        return rows

    for kept in (False, True):
        keep_for(room, KEPT_S, archive=kept)
        names = [f"{kept}-{number}" for number in range(5)]
        keys = [Unique(names[0]), Unique(names[1], UniqueScope.PERIOD, 60_000_000), *[None] * 3]
        for name, unique in zip(names, keys, strict=True):
            await create(node, new_job(name, input=large, unique=unique))
            await complete(node, *await poll(node, room.worker()))
        jump(room, DAY_S / 4, node)

        with patch.object(node.rooms.store, "load_jobs", load_jobs):
            assert await retention(node, bucket).run_once() == 4

        assert len(read) > 2
        assert max(read) <= archiving.READ_BYTES_MAX
        (left,) = [row.job_id for row in room.tables.job_runs.all()]
        assert left == id_of(names[1])
        assert [row.key for row in room.tables.job_keys.all()] == [names[1]]
        jump(room, DAY_S, node)
        assert await retention(node, bucket).run_once() == 1
        read.clear()
    assert ids(await listed(room, bucket)) == ids_of(*names)


@in_room(seeds=(0,))
async def test_the_unique_key_of_a_job_goes_with_it_but_not_before_its_period(room: Room) -> None:
    node = await room.node(1)
    keep_for(room, KEPT_S, archive=False)
    await done(room, node, "active", unique=Unique("active"))
    await done(room, node, "keyed", unique=Unique("active"), concurrency=Concurrency("c"))
    period_ms = 3 * KEPT_S * 1_000
    await done(room, node, "period", unique=Unique("period", UniqueScope.PERIOD, period_ms))
    await pass_time(OVER_S)
    assert await retention(node, Bucket()).run_once() == 2
    assert in_tables(room) == ["period"]
    again = await create(
        node, new_job("again", unique=Unique("period", UniqueScope.PERIOD, period_ms))
    )
    assert (again.jobs[0].job_id, again.jobs[0].created) == (id_of("period"), False)
    jump(room, 3 * KEPT_S, node)
    assert await retention(node, Bucket()).run_once() == 1
    assert in_tables(room) == []
    assert [row for row in room.tables.job_keys.all() if row.job_id != bytes(16)] == []
    again = await create(
        node, new_job("again", unique=Unique("period", UniqueScope.PERIOD, period_ms))
    )
    assert again.jobs[0].created


@in_room(seeds=(0,))
async def test_a_batch_goes_when_it_was_over_long_enough(room: Room) -> None:
    node = await room.node(1)
    keep_for(room, KEPT_S, archive=False)
    for name in ("over", "open"):
        await create(
            node,
            new_job(name, batch_id=name, retry=ONCE),
            batch=job.Callback(name, None, sealed=True),
        )
    tasks = await poll(node, room.worker())
    await fail(node, *[task for task in tasks if task.job.batch_id == "over"])
    rest = [task for task in tasks if task.job.batch_id == "open"]
    await pass_time(KEPT_S - 5)
    await retention(node, Bucket()).run_once()
    assert len(room.tables.job_batches.all()) == 2
    await redrive(node, "over")
    jump(room, 10, node)

    await retention(node, Bucket()).run_once()

    assert [row.batch_id for row in room.tables.job_batches.all()] == ["open"]
    await complete(node, *await poll(node, room.worker()), *rest)
    assert await status(node, "over") is JobStatus.COMPLETED
    rows = {row.batch_id: row for row in room.tables.job_batches.all()}
    assert (list(rows), rows["open"].open) == (["open"], 0), "the other's jobs count for nobody"
    assert not node.alarms


@in_room(seeds=(0,))
async def test_slots_go_when_they_have_acted_long_enough_ago(room: Room) -> None:
    node = await room.node(1)
    keep_for(room, KEPT_S, archive=False)
    now_us = room.now_us
    outcomes = (SlotOutcome.FIRED, SlotOutcome.FIRING, SlotOutcome.BUFFERED, SlotOutcome.SKIPPED)
    for number, outcome in enumerate(outcomes):
        acted_us = now_us + (10**12 if outcome is SlotOutcome.SKIPPED else 0)
        room.tables.schedule_slots.put(
            ScheduleSlotRow(
                *(1, NAMESPACE, "nightly", now_us + number, SlotOrigin.SPEC, outcome),
                *(acted_us, "", "", 1),
            )
        )
    await pass_time(KEPT_S + 1)

    await retention(node, Bucket()).run_once()

    left = sorted([row.outcome for row in room.tables.schedule_slots.all()])
    assert left == [SlotOutcome.FIRING, SlotOutcome.SKIPPED, SlotOutcome.BUFFERED]


@in_room(seeds=(0,))
async def test_many_go_in_several_statements_and_parcels(room: Room) -> None:
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    names = [f"j{number}" for number in range(90)]
    await done(room, node, *names)
    await pass_time(OVER_S)
    with patch.object(archiving, "PORTION_MAX", 40), patch.object(removing, "ROWS_MAX", 15):
        assert await retention(node, bucket).run_once() == 90

    assert in_tables(room) == []
    assert ids(await listed(room, bucket, limit=7)) == ids_of(*names)
    assert len(bucket.objects("jobs")) == 3
    assert node.holds.calls.count("remove_jobs") == 3 + 3 + 1


@in_room(seeds=(0,))
async def test_jobs_go_on_while_the_archive_hangs(room: Room) -> None:
    node, bucket = await room.node(1), Bucket()
    keep_for(room, KEPT_S)
    await done(room, node, "old")
    await pass_time(OVER_S)
    bucket.hold = Hold()
    passing = asyncio.ensure_future(retention(node, bucket).run_once())
    await bucket.hold.reached()

    await within(done(room, node, "new"), 2)
    assert row_of(room, "new").status == JobStatus.COMPLETED
    assert in_tables(room) == ["new", "old"]
    bucket.hold.release()
    await passing
    await turns(20)
    assert in_tables(room) == ["new"]


@in_room(seeds=(0,))
async def test_a_shard_that_closes_lets_the_pass_go_on(room: Room) -> None:
    node = await room.node(1)
    keep_for(room, KEPT_S, archive=False)
    await done(room, node, "old")
    await pass_time(OVER_S)
    hold = node.holds.hold("remove_jobs")
    passing = asyncio.ensure_future(retention(node, Bucket()).run_once())
    await hold.reached()
    node.faults.fail_next("remove_jobs", StoreUnavailable("?"))
    node.shard().close()
    hold.release()

    await within(passing, 5)
    assert in_tables(room) == ["old"]


@in_room(seeds=(0,))
async def test_a_shard_that_closes_while_it_is_looked_through_lets_the_pass_go_on(
    room: Room,
) -> None:
    node = await room.node(1)
    keep_for(room, KEPT_S, archive=False)
    await done(room, node, "old")
    await pass_time(OVER_S)
    hold = node.holds.hold("load_closed_jobs")
    passing = asyncio.ensure_future(retention(node, Bucket()).run_once())
    await hold.reached()
    node.shard().close()
    hold.release()

    await within(passing, 5)
    assert in_tables(room) == ["old"]
