"""Batch operations at the door: what is refused, what is the same job, and what is told of one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.frontend.fakes import NAMESPACE_ID, OTHER_NAMESPACE_ID, Room

from perdure_engine.core.audit import entry_of
from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import Reapply, ResetType
from perdure_engine.frontend.handlers.describe_batch import BatchState, describe_batch
from perdure_engine.frontend.handlers.list_batches import list_batches
from perdure_engine.frontend.handlers.start_batch import StartBatch, start_batch
from perdure_engine.frontend.handlers.stop_batch import stop_batch
from perdure_engine.ports.batches import BatchOperation, PartState

RESET = {"operation": BatchOperation.RESET, "reset_type": ResetType.LAST_WORKFLOW_TASK}


def asked(**changes: Any) -> StartBatch:
    fields: dict[str, Any] = {
        "namespace_id": NAMESPACE_ID,
        "job_id": "job-1",
        "query": "WorkflowType = 'Order'",
        "operation": BatchOperation.TERMINATE,
        "reason": "stuck since the outage",
        "identity": "op@host",
        "signal_name": "",
        "signal_input": b"",
        "rps": 0,
        "dry_run": False,
    }
    return StartBatch(**(fields | changes))


def actions(room: Room) -> list[str]:
    return [row.action for row in room.operations.tables.audit.in_order(0)]


async def test_a_job_is_saved_with_its_entry_and_somebody_is_told() -> None:
    room = Room()
    room.store.runs = [None, None]  # type: ignore[list-item]  # only counted
    assert await start_batch(room.frontend, asked()) == 2
    found = await describe_batch(room.frontend, NAMESPACE_ID, "job-1")
    assert (found.state, found.row.job.total, found.row.job.rps) == (BatchState.RUNNING, 2, 50)
    (row,) = room.operations.tables.audit.in_order(0)
    entry = entry_of(row)
    assert (entry.action, entry.subject, entry.identity) == ("batch.start", "job-1", "op@host")
    assert entry.reason == "stuck since the outage"
    assert entry.after == "TERMINATE 2 runs: WorkflowType = 'Order'"
    assert room.woken == 1


async def test_where_a_reset_goes_to_is_saved_and_stands_in_the_log() -> None:
    room = Room()
    room.store.runs = [None]  # type: ignore[list-item]  # only counted
    by_build = {**RESET, "reset_type": ResetType.BUILD_ID, "build_id": "b1"}
    await start_batch(room.frontend, asked(**by_build, reapply_exclude=(Reapply.UPDATE,)))
    job = (await describe_batch(room.frontend, NAMESPACE_ID, "job-1")).row.job
    assert (job.reset_type, job.build_id) == (ResetType.BUILD_ID, "b1")
    assert job.reapply_exclude == (Reapply.UPDATE,)
    (row,) = room.operations.tables.audit.in_order(0)
    assert entry_of(row).after == "RESET to BUILD_ID 'b1' 1 runs: WorkflowType = 'Order'"
    with pytest.raises(Rejected) as caught:
        await start_batch(room.frontend, asked(**RESET))
    assert caught.value.code is Code.ALREADY_EXISTS


async def test_a_job_of_an_engine_that_knew_no_resets_is_the_same_job() -> None:
    """The hash of what was asked is saved with it, and compared with that of a repeat."""
    room = Room()
    await start_batch(room.frontend, asked())
    job = (await describe_batch(room.frontend, NAMESPACE_ID, "job-1")).row.job
    assert job.body_hash.hex() == "e57269eddc63d8a2"


async def test_a_dry_run_only_counts() -> None:
    room = Room()
    room.store.runs = [None]  # type: ignore[list-item]  # only counted
    assert await start_batch(room.frontend, asked(dry_run=True, job_id="")) == 1
    assert room.operations.tables.batch_operations == {}
    assert (actions(room), room.woken) == ([], 0)


async def test_the_same_again_is_the_same_job_and_another_is_refused() -> None:
    room = Room()
    await start_batch(room.frontend, asked())
    room.store.runs = [None] * 5  # type: ignore[list-item]  # only counted
    assert await start_batch(room.frontend, asked()) == 0, "as it was counted when it began"
    with pytest.raises(Rejected) as caught:
        await start_batch(room.frontend, asked(operation=BatchOperation.CANCEL))
    assert (caught.value.code, caught.value.field) == (Code.ALREADY_EXISTS, "job_id")
    assert actions(room) == ["batch.start"]
    await start_batch(room.frontend, asked(namespace_id=OTHER_NAMESPACE_ID, rps=3))
    assert actions(room) == ["batch.start"] * 2


async def test_many_who_ask_for_the_same_at_once_begin_one_job() -> None:
    room = Room()
    await asyncio.gather(*(start_batch(room.frontend, asked()) for _ in range(5)))
    assert actions(room) == ["batch.start"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"job_id": ""}, "job_id"),
        ({"job_id": "j" * 501}, "job_id"),
        ({"query": ""}, "query"),
        ({"query": "  "}, "query"),
        ({"query": "Nonsense ="}, "query"),
        ({"query": "WorkflowType = 'Order' ORDER BY StartTime ASC"}, "query"),
        ({"query": "GROUP BY ExecutionStatus"}, "query"),
        ({"operation": 0}, "operation"),
        ({"operation": 8}, "operation"),
        ({"operation": BatchOperation.RESET}, "reset_type"),
        ({"operation": BatchOperation.RESET, "reset_type": ResetType.BUILD_ID}, "build_id"),
        ({**RESET, "build_id": "b1"}, "build_id"),
        ({**RESET, "reset_type": ResetType.BUILD_ID, "build_id": "a\nb"}, "build_id"),
        ({"reset_type": ResetType.LAST_WORKFLOW_TASK}, "reset_type"),
        ({"build_id": "b1"}, "reset_type"),
        ({"reapply_exclude": (Reapply.SIGNAL,)}, "reset_type"),
        ({**RESET, "signal_name": "wake"}, "signal_name"),
        ({"reason": "r" * 5_000}, "reason"),
        ({"identity": "a\nb"}, "identity"),
        ({"signal_name": "wake"}, "signal_name"),
        ({"operation": BatchOperation.SIGNAL}, "signal_name"),
        ({"operation": BatchOperation.SIGNAL, "signal_name": "__own"}, "signal_name"),
        (
            {
                "operation": BatchOperation.SIGNAL,
                "signal_name": "s",
                "signal_input": bytes(2 * 1024 * 1024 + 1),
            },
            "signal_input",
        ),
        ({"rps": -1}, "rps"),
        ({"rps": 10_001}, "rps"),
    ],
)
async def test_b59_bad_input_is_refused_and_nothing_is_begun(
    changes: dict[str, Any], field: str
) -> None:
    """Nothing means all runs: they must be named."""
    room = Room()
    for dry_run in (False, True):
        if dry_run and changes.get("job_id") == "":
            continue  # a dry run needs none
        with pytest.raises(Rejected) as caught:
            await start_batch(room.frontend, asked(**changes, dry_run=dry_run))
        assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, field)
    assert room.operations.tables.batch_operations == {}
    assert actions(room) == []


async def close_parts(room: Room, **changes: Any) -> None:
    for part in await room.operations.load_batch_parts(NAMESPACE_ID, "job-1"):
        closed = part._replace(state=PartState.CLOSED, saved_us=9_000_000, **changes)
        assert await room.operations.save_batch_part(closed)


async def test_it_is_completed_when_all_its_parts_are() -> None:
    room = Room()
    await start_batch(room.frontend, asked())
    (first, *_) = await room.operations.load_batch_parts(NAMESPACE_ID, "job-1")
    await room.operations.save_batch_part(first._replace(state=PartState.CLOSED, done=3))
    found = await describe_batch(room.frontend, NAMESPACE_ID, "job-1")
    assert (found.state, found.done, found.closed_us) == (BatchState.RUNNING, 3, 0)
    await close_parts(room, done=1, failed=2, last_failure="no")
    found = await describe_batch(room.frontend, NAMESPACE_ID, "job-1")
    assert (found.state, found.closed_us) == (BatchState.COMPLETED, 9_000_000)
    assert (found.done, found.failed, found.last_failure) == (4, 8, "no")


async def test_stopping_is_an_action_once() -> None:
    room = Room()
    await start_batch(room.frontend, asked())
    for _ in range(2):
        await stop_batch(room.frontend, NAMESPACE_ID, "job-1", "enough", "boss")
    found = await describe_batch(room.frontend, NAMESPACE_ID, "job-1")
    assert found.state is BatchState.STOPPED
    assert actions(room) == ["batch.start", "batch.stop"]
    entry = entry_of(room.operations.tables.audit.in_order(0)[-1])
    assert (entry.identity, entry.reason, entry.subject) == ("boss", "enough", "job-1")


async def test_what_is_over_cannot_be_stopped_and_what_is_not_there_not_found() -> None:
    room = Room()
    await start_batch(room.frontend, asked())
    await close_parts(room)
    with pytest.raises(Rejected) as caught:
        await stop_batch(room.frontend, NAMESPACE_ID, "job-1", "", "")
    assert (caught.value.code, caught.value.reason) == (Code.FAILED_PRECONDITION, "BATCH_CLOSED")
    for namespace_id, job_id in ((NAMESPACE_ID, "job-2"), (OTHER_NAMESPACE_ID, "job-1")):
        with pytest.raises(Rejected) as caught:
            await stop_batch(room.frontend, namespace_id, job_id, "", "")
        assert caught.value.code is Code.NOT_FOUND


async def test_jobs_are_listed_newest_first_in_pages() -> None:
    room = Room()
    for number in range(5):
        await start_batch(room.frontend, asked(job_id=f"job-{number}"))
    first, token = await list_batches(room.frontend, NAMESPACE_ID, 3, b"")
    second, end = await list_batches(room.frontend, NAMESPACE_ID, 3, token)
    names = [one.row.job_id for one in [*first, *second]]
    assert names == [f"job-{number}" for number in (4, 3, 2, 1, 0)]
    assert end == b""
