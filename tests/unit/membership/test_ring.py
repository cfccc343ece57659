"""The ring: all nodes compute the same, and a change moves no more than it must."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.membership.fakes import row

from perdure_engine.membership.ring import owner
from perdure_engine.ports.store import NodeRow

SHARDS = range(1, 65)
REGIONS = ("", "eu", "us")
# Two versions of the engine in one cluster must agree, so this never changes.
GOLDEN = ["one", "two", "one", "one", "two", "three", "one", "one", "three", "one"]

regions = st.sampled_from(REGIONS)


def rows(found: dict[str, str]) -> list[NodeRow]:
    return [row(name, region=region) for name, region in found.items()]


nodes = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4), regions, min_size=1, max_size=8
).map(rows)


def owners(of: list[NodeRow], region: str) -> dict[int, bytes]:
    found = {}
    for shard_id in SHARDS:
        node = owner(shard_id, region, of)
        assert node is not None
        found[shard_id] = node.node_id
    return found


@given(nodes.flatmap(lambda of: st.tuples(st.just(of), st.permutations(of))), regions)
def test_the_order_of_the_list_does_not_matter(
    of: tuple[list[NodeRow], list[NodeRow]], region: str
) -> None:
    assert owners(of[0], region) == owners(of[1], region)


@given(nodes, regions, st.integers(0, 7))
def test_a_lost_node_moves_its_own_shards_only(of: list[NodeRow], region: str, which: int) -> None:
    lost = of[which % len(of)]
    left = [node for node in of if node is not lost]
    if left:
        before, after = owners(of, region), owners(left, region)
        moved = {shard_id for shard_id in SHARDS if before[shard_id] != after[shard_id]}
        assert moved == {shard_id for shard_id in SHARDS if before[shard_id] == lost.node_id}


@given(nodes, regions)
def test_a_shard_stays_in_its_region_while_a_node_is_there(of: list[NodeRow], region: str) -> None:
    near = {node.node_id for node in of if node.region == region}
    if region and near:
        assert set(owners(of, region).values()) <= near


def test_without_nodes_there_is_no_owner() -> None:
    assert owner(1, "eu", []) is None


def test_shards_are_spread_evenly_and_the_answer_is_for_ever() -> None:
    spread = [owner(n, "", [row("one"), row("two"), row("three")]) for n in range(1, 513)]
    names = [node.node_id.decode() for node in spread if node is not None]

    assert len(names) == 512
    assert all(140 <= names.count(name) <= 200 for name in ("one", "two", "three"))
    assert names[: len(GOLDEN)] == GOLDEN
