"""The ring: all nodes compute the same, and a change moves no more than it must."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.membership.fakes import row

from perdure_engine.membership.ring import owner
from perdure_engine.ports.store import NodeRow

SHARDS = range(1, 65)
REGIONS = ("", "eu", "us")

names = st.sets(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=8)
nodes = names.flatmap(
    lambda found: st.tuples(
        *(
            st.sampled_from(REGIONS).map(lambda r, n=name: row(n, region=r))
            for name in sorted(found)
        )
    ).map(list)
)
regions = st.sampled_from(REGIONS)


def owners(of: list[NodeRow], region: str) -> dict[int, bytes | None]:
    found = {shard_id: owner(shard_id, region, of) for shard_id in SHARDS}
    return {shard_id: node and node.node_id for shard_id, node in found.items()}


@given(nodes, regions, st.randoms())
def test_the_order_of_the_list_does_not_matter(
    of: list[NodeRow], region: str, shuffler: st.random.Random
) -> None:
    shuffled = list(of)
    shuffler.shuffle(shuffled)
    assert owners(of, region) == owners(shuffled, region)


@given(nodes, regions, st.integers(0, 7))
def test_a_lost_node_moves_its_own_shards_only(of: list[NodeRow], region: str, which: int) -> None:
    lost = of[which % len(of)]
    left = [node for node in of if node is not lost]
    # The region's last node is an exception by intent: then the shards leave the region.
    if region and lost.region == region and not any(node.region == region for node in left):
        return
    before, after = owners(of, region), owners(left, region)
    assert {s for s in SHARDS if before[s] != after[s]} == {
        s for s in SHARDS if before[s] == lost.node_id
    }


@given(nodes, regions)
def test_a_shard_stays_in_its_region_while_a_node_is_there(of: list[NodeRow], region: str) -> None:
    near = {node.node_id for node in of if node.region == region}
    if region and near:
        assert set(owners(of, region).values()) <= near


def test_without_nodes_there_is_no_owner() -> None:
    assert owner(1, "eu", []) is None


def test_shards_are_spread_evenly_and_the_answer_is_for_ever() -> None:
    of = [row("one"), row("two"), row("three")]
    spread = [owner(shard_id, "", of) for shard_id in range(1, 513)]
    counts = {node.node_id: spread.count(node) for node in of}
    assert all(140 <= count <= 200 for count in counts.values()), counts
    # Golden: two versions of the engine in one cluster must agree.
    assert [node.node_id.decode() for node in spread[:8] if node] == GOLDEN


GOLDEN: list[str] = []
