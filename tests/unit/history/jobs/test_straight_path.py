"""Jobs in a shard: made, offered, handed out, done, and answered, in lists throughout."""

from tests.unit.history.jobs.work import (
    JobStatus,
    complete,
    create_named,
    describe,
    id_of,
    names,
    poll,
    row_of,
    status,
    wait,
)
from tests.unit.history.room import Room, in_room, nothing_said, turns


@in_room()
async def test_invariant_57_a_job_is_made_handed_out_and_done(room: Room) -> None:
    node = await room.node(1)
    created = await create_named(node, "a", "b")
    assert [(one.job_id, one.created, one.status) for one in created.jobs] == [
        (id_of("a"), True, JobStatus.PENDING),
        (id_of("b"), True, JobStatus.PENDING),
    ]
    assert row_of(room, "a").status == JobStatus.PENDING
    tasks = await poll(node, room.worker())
    assert names(tasks) == ["a", "b"]
    assert await status(node, "a") is JobStatus.IN_PROGRESS
    waiting = wait(node, "a", "b")
    await turns()
    nothing_said(waiting)
    answered = await complete(node, *tasks)
    assert answered.refused == []
    ended = await waiting
    assert [(one.job_id, one.status, one.result) for one in ended.jobs] == [
        (id_of("a"), JobStatus.COMPLETED, b"ok"),
        (id_of("b"), JobStatus.COMPLETED, b"ok"),
    ]
    row = row_of(room, "a")
    assert (row.status, row.task_id, row.version, row.result) == (JobStatus.COMPLETED, 0, 2, b"ok")
    assert row.closed_us == room.now_us
    assert (await describe(node, "a")).result == b"ok"


@in_room()
async def test_no_answer_and_no_offer_before_the_commit(room: Room) -> None:
    """Invariants 5, 28: a creation, its poll, a description and a wait hear nothing of what is not saved."""
    node = await room.node(1)
    hold = node.holds.hold("commit")
    made = create_named(node, "a")
    await hold.reached()
    described, waited = describe(node, "a"), wait(node, "a")
    polled = node.polling(room.worker(), timeout_s=5, queue="mail")
    await turns(20)
    nothing_said(made, described, waited, polled)
    hold.release()
    assert (await made).jobs[0].created
    assert (await described).info.status is JobStatus.PENDING
    [task] = (await polled).job_tasks
    again = node.holds.hold("commit")
    done = complete(node, task)
    await again.reached()
    await turns(20)
    nothing_said(done, waited)
    again.release()
    assert (await done).refused == []
    assert (await waited).jobs[0].status is JobStatus.COMPLETED
