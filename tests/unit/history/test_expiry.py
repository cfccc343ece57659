"""What was kept long enough goes: rows of the audit log from the front, batch operations that are over."""

from __future__ import annotations

import pytest
from tests.simulation.audit_chains import log_of
from tests.unit.history.room import NAMESPACE, Node, Room, in_room, pass_time
from tests.unit.history.test_batches import JOB, batches, begin
from tests.unit.history.test_removing import keep_for

from perdure_engine.core.audit import Head, append, begins_at, entry_of
from perdure_engine.core.limits import AUDIT_KEPT_US
from perdure_engine.history.expiry import Expiry
from perdure_engine.ports.audit import Ledger
from perdure_engine.ports.store import StoreUnavailable


class OneWriter:
    """Implements ports.audit.Ledger where nobody else writes."""

    def __init__(self, node: Node) -> None:
        self._store = node.store

    async def write(self, entry, save):  # type: ignore[no-untyped-def]  # as the protocol
        heads = await self._store.load_audit_heads([0])
        row, _ = append(heads[0] if heads else Head(0), entry)
        return await save(row)


def expiry(node: Node) -> Expiry:
    ledger: Ledger = OneWriter(node)
    return Expiry(node.rooms, node.store, ledger, node.history.shards)


def age(room: Room, chain: int, count: int) -> None:
    """The first rows of the chain become 400 days old. Their hashes are not looked at here."""
    for row in room.tables.audit.in_order(chain)[:count]:
        room.tables.audit.put(row._replace(time_us=room.now_us - AUDIT_KEPT_US - 1_000_000))


@in_room()
async def test_rows_over_their_time_go_and_the_log_says_so_first(room: Room) -> None:
    node = await room.node(1)
    for name in ("a", "b", "c"):
        await node.start(name)
        await node.terminate(name)
    await expiry(node).run_once()
    assert len(room.tables.audit.in_order(1)) == 3, "never early"
    age(room, 1, 2)
    second = room.tables.audit.in_order(1)[1]
    await expiry(node).run_once()
    assert log_of(room.tables) == [("workflow.terminate", "c")]
    begin_at = room.tables.audit_begins[1]
    assert (begin_at.seq, begin_at.hash) == (2, second.hash)
    (said,) = room.tables.audit.in_order(0)
    entry = entry_of(said)
    assert (entry.action, entry.subject, entry.after) == ("audit.expire", "1", begins_at(begin_at))


@in_room()
async def test_a_sweep_that_breaks_off_is_done_again(room: Room) -> None:
    """Said and not done is harmless; done and not said never happens."""
    node = await room.node(1)
    for name in ("a", "b"):
        await node.start(name)
        await node.terminate(name)
    age(room, 1, 1)
    node.faults.fail_next("drop_audit", StoreUnavailable("?"))
    with pytest.raises(StoreUnavailable):
        await expiry(node).run_once()
    assert len(room.tables.audit.in_order(1)) == 2
    await expiry(node).run_once()
    assert log_of(room.tables) == [("workflow.terminate", "b")]
    assert len(room.tables.audit.in_order(0)) == 2


@in_room()
async def test_a_job_goes_when_its_namespace_keeps_it_no_longer(room: Room) -> None:
    node = await room.node(1, 2, 3, 4)
    keep_for(room, 200)
    await node.start("order")
    await begin(room)
    await pass_time(300)
    await expiry(node).run_once()
    assert await room.store.load_batch(NAMESPACE, JOB) is not None, "it is worked on"
    job = batches(node)
    await job.run_once()
    await pass_time(150)
    await expiry(node).run_once()
    assert await room.store.load_batch(NAMESPACE, JOB) is not None
    await pass_time(60)
    await expiry(node).run_once()
    assert await room.store.load_batch(NAMESPACE, JOB) is None
    assert not room.tables.batch_parts.all()
    await job.stop()
