"""The audit log at rest: its rows come with what they tell of, take each place once, and go from the front only."""

from __future__ import annotations

import pytest
from tests.conformance.owner import NAMESPACE, Owner, Run, head_row, new_id

from perdure_engine.core.audit import Action, AuditRow, Entry, Head, append, check, entry_of
from perdure_engine.ports.audit import UNIQUE_VIOLATION, AuditFilter, AuditKey
from perdure_engine.ports.store import (
    BatchRefused,
    FenceLost,
    GuardFailed,
    NamespaceRow,
    Removal,
    Store,
)

SHARD = 2
START_US = 1_800_000_000_000_000
OTHER = bytes(15) + b"\x02"


def rows_of(count: int, head: Head, **changes: object) -> tuple[list[AuditRow], Head]:
    rows = []
    for number in range(count):
        fields: dict[str, object] = {
            "time_us": START_US + 10 * number + head.chain,
            "action": Action.TERMINATE,
            "namespace_id": NAMESPACE,
            "workflow_id": f"order-{number % 2}",
            "run_id": new_id(),
            "identity": "op",
            "reason": "because",
        }
        row, head = append(head, Entry(**(fields | changes)))  # type: ignore[arg-type]  # a dict of all
        rows.append(row)
    return rows, head


async def walked(store: Store, chain: int) -> Head:
    begins = {head.chain: head for head in await store.load_audit_begins()}
    head = begins.get(chain, Head(chain))
    for row in await store.load_audit(chain, head.seq, 100):
        head = check(head, row)
    return head


async def test_rows_are_saved_with_the_batch_and_come_back_as_they_were(
    store: Store, owner: Owner
) -> None:
    (run,) = runs = [Run(SHARD)]
    await owner.start(runs)
    rows, head = rows_of(3, Head(SHARD))
    batch = owner.batch(executions=[head_row(run, 1, 4, -1)], audit=rows)
    await owner.commit(batch)
    assert await store.load_audit(SHARD, 0, 100) == rows
    assert await store.load_audit(SHARD, 1, 1) == rows[1:2]
    assert await walked(store, SHARD) == head
    assert await store.load_audit_heads([1, SHARD, 3]) == [head]


async def test_a_place_in_a_chain_is_taken_once(store: Store, owner: Owner) -> None:
    """Invariant 25: nothing of the batch is saved either."""
    rows, head = rows_of(2, Head(SHARD))
    await owner.commit(owner.batch(audit=rows))
    other, _ = rows_of(1, Head(SHARD), reason="another story")
    (run,) = [Run(SHARD)]
    batch = owner.batch(executions=[head_row(run, 1, 3, 1)], audit=other)
    with pytest.raises(BatchRefused) as caught:
        await store.commit(batch)
    assert caught.value.sqlstate == UNIQUE_VIOLATION
    assert await walked(store, SHARD) == head
    assert await store.load_audit_heads([SHARD]) == [head]


async def test_invariant_7_without_the_fence_no_row_is_written(store: Store, owner: Owner) -> None:
    rows, _ = rows_of(1, Head(SHARD))
    batch = owner.batch(audit=rows)
    batch.fences[0].commit_seq += 1
    with pytest.raises(FenceLost):
        await store.commit(batch)
    strange, _ = rows_of(1, Head(3))
    batch = owner.batch([SHARD])
    batch.audit = strange
    with pytest.raises(GuardFailed):
        await store.commit(batch)
    assert await store.load_audit_heads([SHARD, 3]) == []


async def test_a_removal_brings_its_rows(store: Store, owner: Owner) -> None:
    runs = [Run(SHARD)]
    await owner.start(runs)
    rows, head = rows_of(1, Head(SHARD), action=Action.DELETE)

    def removal() -> Removal:
        keys = [(NAMESPACE, runs[0].workflow_id)]
        return Removal(new_id(), owner.fence(SHARD), [runs[0].run_id], keys, rows)

    with pytest.raises(GuardFailed):  # it is open
        await store.remove_runs(removal())
    assert await store.load_audit_heads([SHARD]) == []
    await owner.close(runs)
    await store.remove_runs(removal())
    owner.fences[SHARD].commit_seq += 1
    assert await walked(store, SHARD) == head
    with pytest.raises(BatchRefused):
        await store.remove_runs(removal())


async def test_a_namespace_changes_with_its_row_or_not_at_all(store: Store) -> None:
    row = NamespaceRow(OTHER, "other", "", 3_600_000, 1)
    (created, updated, never), _ = rows_of(3, Head(0), action=Action.CREATE_NAMESPACE)
    assert await store.create_namespace(row, created)
    assert not await store.create_namespace(row, updated)
    assert await store.load_audit(0, 0, 9) == [created]

    with pytest.raises(BatchRefused) as caught:
        await store.update_namespace(row, created)
    assert caught.value.sqlstate == UNIQUE_VIOLATION
    assert [one.conflict_token for one in await store.list_namespaces() if one.name == "other"] == [
        1
    ]
    assert await store.update_namespace(row, updated)
    assert not await store.update_namespace(row, never)
    unknown = NamespaceRow(new_id(), "unknown", "", 3_600_000, 1)
    assert not await store.update_namespace(unknown, never)
    assert await store.load_audit(0, 0, 9) == [created, updated]


async def test_lists_by_time_action_and_workflow_in_pages(store: Store, owner: Owner) -> None:
    of_two, _ = rows_of(6, Head(2))
    of_three, _ = rows_of(4, Head(3), namespace_id=OTHER, action=Action.CANCEL)
    await owner.commit(owner.batch(audit=[*of_two, *of_three]))
    newest = sorted([*of_two, *of_three], key=lambda row: (row.time_us, row.shard_id), reverse=True)

    async def found(where: AuditFilter) -> list[AuditRow]:
        rows: list[AuditRow] = []
        before: AuditKey | None = None
        while page := await store.list_audit(where, before, 3):
            rows += page
            before = (page[-1].time_us, page[-1].shard_id, page[-1].seq)
        return rows

    assert await found(AuditFilter()) == newest
    assert await found(AuditFilter(OTHER)) == of_three[::-1]
    assert await found(AuditFilter(action=Action.TERMINATE)) == of_two[::-1]
    assert await found(AuditFilter(NAMESPACE, "order-1")) == of_two[1::2][::-1]
    assert await found(AuditFilter(NAMESPACE, "order-1", action=Action.CANCEL)) == []
    since, until = of_two[1].time_us, of_two[4].time_us
    between = AuditFilter(NAMESPACE, time_min_us=since, time_max_us=until)
    assert await found(between) == of_two[1:4][::-1]


async def test_the_oldest_rows_go_and_the_rest_still_holds(store: Store, owner: Owner) -> None:
    rows, head = rows_of(6, Head(SHARD))
    await owner.commit(owner.batch(audit=rows))
    cut = rows[3].time_us
    assert await store.load_audit_expired(SHARD, rows[0].time_us, 100) is None
    first = await store.load_audit_expired(SHARD, cut, 2)
    assert first == Head(SHARD, 2, rows[1].hash, rows[1].time_us)
    begin = await store.load_audit_expired(SHARD, cut, 100)
    assert begin == Head(SHARD, 3, rows[2].hash, rows[2].time_us)
    await store.drop_audit(begin)
    await store.drop_audit(first)  # another node's, late: it turns nothing back
    assert await store.load_audit_begins() == [begin]
    assert await store.load_audit(SHARD, 0, 100) == rows[3:]
    assert await walked(store, SHARD) == head


async def test_a_chain_never_loses_its_last_row(store: Store, owner: Owner) -> None:
    rows, head = rows_of(3, Head(SHARD))
    await owner.commit(owner.batch(audit=rows))
    begin = await store.load_audit_expired(SHARD, START_US * 2, 100)
    assert begin is not None
    assert begin.seq == 2
    await store.drop_audit(begin)
    assert await store.load_audit_expired(SHARD, START_US * 2, 100) is None
    assert await store.load_audit_heads([SHARD]) == [head]


async def test_an_entry_of_its_own(store: Store) -> None:
    (row,), _ = rows_of(1, Head(0), action=Action.EXPIRE_AUDIT, namespace_id=b"")
    await store.append_audit(row)
    with pytest.raises(BatchRefused):
        await store.append_audit(row)
    (found,) = await store.load_audit(0, 0, 9)
    assert (found.namespace_id, entry_of(found).namespace_id) == (bytes(16), b"")
