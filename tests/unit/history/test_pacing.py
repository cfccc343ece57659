"""B57: starts that replace the open run of one id, as fast as somebody likes. Invariants 9, 10 and 11."""

from __future__ import annotations

from typing import Any

from tests.unit.history.room import Node, Room, in_room, pass_time

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.intents import IdConflictPolicy
from perdure_engine.core.status import Status
from perdure_engine.history.pacing import BURST, PER_S


def replace(node: Node, workflow_id: str = "w") -> Any:
    return node.start(workflow_id, id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING)


async def outcome(future: Any) -> Code | None:
    try:
        await future
    except Rejected as refusal:
        said = (refusal.field, refusal.retry_after_ms > 0)
        return refusal.code if said == ("id_conflict_policy", True) else None
    return None


@in_room(seeds=(0,))
async def test_b57_a_flood_of_replacements_is_refused_and_one_run_stays_open(room: Room) -> None:
    node = await room.node(1)
    first = await replace(node)  # replaces nothing

    flood = [replace(node) for _ in range(BURST + 50)]
    ended = [await outcome(one) for one in flood]

    assert ended.count(None) == BURST  # each of them waits its turn: the order is not told
    assert ended.count(Code.RESOURCE_EXHAUSTED) == 50
    assert first.started
    newest = await node.describe("w")
    begun = {one.result().run_id for one, code in zip(flood, ended, strict=True) if code is None}
    assert len(begun) == BURST, "invariant 11: each success began a run of its own"
    assert newest.info.run_id in begun
    assert newest.info.status is Status.RUNNING

    # others are not concerned, and after a while this one may be replaced again
    assert await outcome(replace(node, "x")) is None
    await pass_time(3.5 / PER_S)
    again = [await outcome(replace(node)) for _ in range(5)]
    assert again[:3] == [None, None, None]
    assert again[4] is Code.RESOURCE_EXHAUSTED


@in_room(seeds=(0,))
async def test_a_repeat_of_the_open_runs_own_start_replaces_nothing(room: Room) -> None:
    """Invariant 10: a start that is sent again is answered, however often."""
    node = await room.node(1)
    intent = room.start_intent("w", id_conflict_policy=IdConflictPolicy.TERMINATE_EXISTING)
    first = await node.shard().submit(intent)

    for _ in range(BURST + 10):
        again = await node.shard().submit(intent)
        assert (again.run_id, again.started) == (first.run_id, first.started)
