"""What a shard reads of its jobs, keys, batches and schedules."""

from __future__ import annotations

import pytest
from tests.conformance.jobs import (
    COMPLETED,
    IN_PROGRESS,
    RETRY,
    SUSPENDED,
    batch_row,
    job_row,
    key_row,
    schedule_row,
    slot_row,
)
from tests.conformance.owner import NAMESPACE, QUEUE, START_US, Owner, new_id

from perdure_engine.ports.rows import JobRunRow
from perdure_engine.ports.store import Store


async def test_jobs_are_loaded_by_id(store: Store, owner: Owner) -> None:
    mine = [job_row(1) for _ in range(3)]
    elsewhere = job_row(2)
    await owner.commit(owner.batch(job_runs=[*mine, elsewhere]))

    found = await store.load_jobs(1, [mine[2].job_id, new_id(), elsewhere.job_id, mine[0].job_id])

    assert sorted(found) == [mine[0], mine[2]]
    assert isinstance(found[0], JobRunRow)
    assert await store.load_jobs(1, []) == []


@pytest.fixture
async def ready(owner: Owner) -> list[JobRunRow]:
    """Ready jobs of three queues in the order of (queue_no, task_id), among others that are not."""
    rows = [
        job_row(1, queue_no=queue_no, task_id=task_id)
        for queue_no in (5, QUEUE, QUEUE + 1)
        for task_id in (3, 8, 1 << 40)
    ]
    others = [
        job_row(1, task_id=0),
        job_row(1, task_id=-4, concurrency_key="key"),
        job_row(1, task_id=0, status=IN_PROGRESS),
        job_row(1, status=COMPLETED),
        job_row(2, task_id=4),
    ]
    await owner.commit(owner.batch(job_runs=[*reversed(rows), *others]))
    return rows


async def test_ready_jobs_of_a_queue(store: Store, ready: list[JobRunRow]) -> None:
    of_queue = ready[3:6]

    assert await store.load_ready_jobs(1, QUEUE, 0, 9) == of_queue
    assert await store.load_ready_jobs(1, QUEUE, 0, 2) == of_queue[:2]
    assert await store.load_ready_jobs(1, QUEUE, 3, 9) == of_queue[1:]
    assert await store.load_ready_jobs(1, QUEUE, 1 << 40, 9) == []


async def test_ready_jobs_of_a_queue_are_counted(store: Store, ready: list[JobRunRow]) -> None:
    """Between two task ids, without them."""
    last = 1 << 62

    assert await store.count_ready_jobs(1, QUEUE, 0, last) == 3
    assert await store.count_ready_jobs(1, QUEUE, -last, last) == 3, "not those that wait for a key"
    assert await store.count_ready_jobs(1, QUEUE, 3, last) == 2
    assert await store.count_ready_jobs(1, QUEUE, 0, 1 << 40) == 2
    assert await store.count_ready_jobs(1, QUEUE, 3, 1 << 40) == 1
    assert await store.count_ready_jobs(1, QUEUE, 8, 9) == 0
    assert await store.count_ready_jobs(1, QUEUE, 9, 3) == 0
    assert await store.count_ready_jobs(2, QUEUE + 9, 0, last) == 0


async def test_ready_jobs_of_a_shard_in_pages(store: Store, ready: list[JobRunRow]) -> None:
    found: list[JobRunRow] = []
    after = (-1, 0)
    while page := await store.load_ready_jobs_of_shard(1, after, 2):
        assert len(page) <= 2
        found += page
        after = (page[-1].queue_no, page[-1].task_id)

    assert found == ready


async def test_started_jobs_by_id(store: Store, owner: Owner) -> None:
    rows = [job_row(1, status=IN_PROGRESS) for _ in range(3)]
    others = [job_row(1), job_row(1, status=RETRY), job_row(2, status=IN_PROGRESS)]
    await owner.commit(owner.batch(job_runs=[*others, *reversed(rows)]))

    assert await store.load_started_jobs(1, bytes(16), 9) == rows
    assert await store.load_started_jobs(1, rows[0].job_id, 1) == rows[1:2]


async def test_jobs_of_a_concurrency_key_that_hold_a_place_come_first(
    store: Store, owner: Owner
) -> None:
    """Then those that wait for one, the longest wait first; no others, however many there are."""

    def keyed(created: int, **columns: object) -> JobRunRow:
        return job_row(1, concurrency_key="tenant", created_us=START_US + created, **columns)

    holding = [
        keyed(3, task_id=9, status=RETRY),
        keyed(4, status=IN_PROGRESS),
        keyed(5, task_id=3),
        keyed(7, task_id=2),
    ]
    waiting = [
        keyed(9, task_id=-4),
        keyed(2, task_id=-5, status=RETRY),
        keyed(3, task_id=-6),
        keyed(1, task_id=-(1 << 40)),
    ]
    others = [
        keyed(0),
        keyed(1, status=RETRY),
        keyed(0, status=SUSPENDED),
        keyed(0, status=COMPLETED),
        job_row(1, task_id=9),
        job_row(1, concurrency_key="other", task_id=-7),
        job_row(1, concurrency_key="tenant", namespace_id=new_id(), task_id=-8),
        job_row(2, concurrency_key="tenant", task_id=-9),
    ]
    await owner.commit(owner.batch(job_runs=[*others, *reversed(waiting), *reversed(holding)]))

    found = await store.load_keyed_jobs(1, NAMESPACE, "tenant", 100)

    assert found == [*holding, *waiting]
    assert await store.load_keyed_jobs(1, NAMESPACE, "tenant", 7) == found[:7]
    assert await store.load_keyed_jobs(1, NAMESPACE, "tenant", 2) == found[:2]
    assert await store.load_keyed_jobs(1, NAMESPACE, "nobody", 9) == []
    assert await store.load_keyed_jobs(1, NAMESPACE, "", 9) == [], "not those without a key"


async def test_job_keys_many_in_one_read(store: Store, owner: Owner) -> None:
    rows = [
        key_row("a", new_id()),
        key_row("a", new_id())._replace(kind=2),
        key_row("b", new_id(), shard_id=2)._replace(until_us=START_US),
        key_row("a", new_id())._replace(namespace_id=new_id()),
    ]
    await owner.commit(owner.batch(job_keys=rows))

    wanted = [(row.shard_id, row.namespace_id, row.kind, row.key) for row in rows]
    found = await store.load_job_keys([*wanted, (2, NAMESPACE, 1, "a")])

    assert sorted(found, key=repr) == sorted(rows, key=repr)
    assert await store.load_job_keys([]) == []


async def test_a_batch_of_jobs(store: Store, owner: Owner) -> None:
    row = batch_row("nightly")
    others = [batch_row("nightly", 2), batch_row("nightly", namespace_id=new_id())]
    await owner.commit(owner.batch(job_batches=[row, *others]))

    assert await store.load_job_batch(1, NAMESPACE, "nightly") == row
    assert await store.load_job_batch(1, NAMESPACE, "none") is None


async def test_schedules_of_a_shard_in_pages(store: Store, owner: Owner) -> None:
    """Also those that are gone: whoever loads them has them swept."""
    rows = [schedule_row(name, gone=name == "b") for name in ("a", "b", "c", "ż")]
    rows.append(schedule_row("a", namespace_id=bytes(15) + b"\x02"))
    await owner.commit(owner.batch(schedules=[*reversed(rows), schedule_row("d", 2)]))

    found = []
    after: tuple[bytes, str] | None = None
    while page := await store.load_schedules(1, after, 2):
        assert len(page) <= 2
        found += page
        after = (page[-1].namespace_id, page[-1].schedule_id)

    assert found == rows
    assert await store.load_schedule(1, NAMESPACE, "b") == rows[1]
    assert await store.load_schedule(2, NAMESPACE, "b") is None


async def test_schedules_are_listed_by_id_over_all_shards(store: Store, owner: Owner) -> None:
    names = ("daily", "daily-2", "daily%", "dai_y", "nightly", "żółw", "Daily")
    rows = [
        schedule_row(name, number % 4 + 1, user_id="anna" if number % 2 else "")
        for number, name in enumerate(names)
    ]
    gone = schedule_row("daily-3", gone=True)
    other = schedule_row("daily", 3, namespace_id=new_id())
    await owner.commit(owner.batch(schedules=[*rows, gone, other]))
    in_order = sorted(names)

    async def listed(
        prefix: str = "", user: str = "", after: str = "", limit: int = 99
    ) -> list[str]:
        found = await store.list_schedules(NAMESPACE, prefix, user, after, limit)
        return [row.schedule_id for row in found]

    assert await listed() == in_order
    assert await listed(limit=3) == in_order[:3]
    assert await listed(after=in_order[2]) == in_order[3:]
    assert await listed(prefix="daily") == ["daily", "daily%", "daily-2"]
    assert await listed(prefix="dai_") == ["dai_y"], "a wildcard is a letter"
    assert await listed(prefix="daily", after="daily%") == ["daily-2"]
    assert await listed(prefix="żó") == ["żółw"]
    assert await listed(user="anna") == sorted(names[1::2])
    assert await listed(user="anna", prefix="d") == sorted(n for n in names[1::2] if n[0] == "d")


async def test_slots_newest_first(store: Store, owner: Owner) -> None:
    rows = [
        slot_row("daily", START_US + nominal, origin=origin, outcome=outcome)
        for nominal, origin, outcome in ((9, 2, 8), (9, 1, 2), (5, 3, 6), (5, 1, 3), (0, 1, 2))
    ]
    others = [slot_row("other", START_US), slot_row("daily", START_US, 2)]
    await owner.commit(owner.batch(schedule_slots=[*others, *reversed(rows)]))

    async def listed(
        outcomes: tuple[int, ...] = (),
        from_us: int = 0,
        to_us: int = 0,
        past: tuple[int, int] | None = None,
        limit: int = 99,
    ) -> list[int]:
        found = await store.list_slots(1, NAMESPACE, "daily", outcomes, from_us, to_us, past, limit)
        return [rows.index(row) for row in found]

    assert await listed() == [0, 1, 2, 3, 4]
    assert await listed(limit=2) == [0, 1]
    assert await listed(past=(START_US + 9, 1)) == [2, 3, 4]
    assert await listed(past=(START_US + 5, 3), limit=1) == [3]
    assert await listed(outcomes=(2,)) == [1, 4]
    assert await listed(outcomes=(3, 8)) == [0, 3]
    assert await listed(from_us=START_US + 5, to_us=START_US + 9) == [2, 3]
