"""Places of concurrency keys, where what is in memory is not all that there is."""

from __future__ import annotations

from tests.unit.core.jobs.bench import JobBench, new_job

from perdure_engine.core.jobs.intents import RescheduleJob
from perdure_engine.core.jobs.model import Concurrency

THREE = Concurrency("k", limit=3)


def test_jobs_of_later_bring_their_keys_settings_along() -> None:
    """Found by the machine: nobody has a place when they come due, so that no row says what the limit is."""
    bench = JobBench()
    due_us = bench.now_us + 1_000_000
    bench.create(*[new_job(name, concurrency=THREE, due_us=due_us) for name in "abcd"])
    bench.forget()
    bench.pass_time(2)
    assert [bench.run(name).task_id > 0 for name in "abcd"] == [True, True, True, False]


def test_an_older_jobs_settings_do_not_come_back() -> None:
    bench = JobBench()
    due_us = bench.now_us + 5_000_000
    bench.create(new_job("old", concurrency=Concurrency("k", limit=1), due_us=due_us))
    bench.pass_time(1)
    bench.create(*[new_job(name, concurrency=THREE) for name in "ab"])
    bench.pass_time(5)
    assert bench.run("old").task_id > 0


def test_a_key_that_is_short_of_those_who_wait_is_read_again() -> None:
    """It must never have fewer of them in memory than places that one intent may free."""
    bench = JobBench()
    bench.create(*[new_job(name, concurrency=THREE) for name in "abcdef"])
    [room] = bench.memory.rooms.values()
    assert (len(room.places), len(room.waiting), room.is_short) == (3, 3, False)
    room.more = True
    assert room.is_short
    room.waiting.pop(next(iter(room.waiting)))
    room.more = False
    assert not room.is_short


def test_who_waits_for_the_rate_keeps_its_timer_when_asked_to_start_now() -> None:
    """Found by the machine."""
    bench = JobBench()
    bench.create(*[new_job(name, concurrency=Concurrency("k", 9, rate_per_s=0.5)) for name in "ab"])
    bench.operate(RescheduleJob, "b", due_us=0)
    bench.pass_time(2)
    assert bench.run("b").task_id > 0
