"""Two phases (A9, A10): a window of timers is read, memory gives the precision; at its end nothing is late or lost."""

from __future__ import annotations

from typing import Any

from tests.unit.history.jobs.work import complete, create, names, new_job, poll
from tests.unit.history.room import Room, in_room, pass_time

S = 1_000_000
MANY = 10_000
WAVES = 10


@in_room(seeds=(0,))
async def test_a9_ten_thousand_jobs_around_the_windows_end_start_within_two_seconds(
    room: Room,
) -> None:
    """None before its time (invariant 21), each once; and about as many rows are read as there are jobs."""
    node = await room.node(1)
    read = 0
    load = node.store.load_timers

    async def counted(*args: Any, **options: Any) -> Any:
        nonlocal read
        page = await load(*args, **options)
        read += len(page)
        return page

    node.store.load_timers = counted  # type: ignore[method-assign]
    await pass_time(59)  # the next window is read at 60 s: waves come before, meanwhile and after
    end_us = node.shard().timers.window_end_us
    due: dict[str, int] = {}
    for wave in range(WAVES):
        jobs = []
        for number in range(MANY // WAVES):
            name = f"{wave}-{number}"
            due[name] = end_us + (number - MANY // WAVES // 2) * 97 + wave  # µs
            jobs.append(new_job(name, due_us=due[name]))
        await create(node, *jobs)
        await pass_time(0.25)
    assert min(due.values()) < end_us < max(due.values())

    late: dict[str, int] = {}
    while len(late) < MANY:
        tasks = await poll(node, room.worker(), 1_000, timeout_s=120)
        assert tasks, f"{MANY - len(late)} never came"
        for name in names(tasks):
            assert name not in late
            late[name] = room.now_us - due[name]
        await complete(node, *tasks)
    assert min(late.values()) >= 0
    assert max(late.values()) <= 2 * S
    assert read <= MANY * 1.1
