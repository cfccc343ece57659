"""Namespaces, nodes, who serves which shard, token keys."""

from __future__ import annotations

import pytest
from tests.conformance.owner import Owner, new_id
from tests.conformance.test_audit import rows_of

from perdure_engine.core.audit import Action, Head
from perdure_engine.core.deployments import Build, Deployment
from perdure_engine.ports.audit import UNIQUE_VIOLATION
from perdure_engine.ports.jobs import QueueLimitRow
from perdure_engine.ports.store import (
    NO_NODE,
    BatchRefused,
    DeploymentRow,
    FenceLost,
    NamespaceRow,
    ShardRow,
    Store,
)


async def test_a_new_database_has_the_namespace_default(store: Store) -> None:
    (row,) = await store.list_namespaces()

    assert (row.name, row.conflict_token, row.archive) == ("default", 1, True)
    assert row.retention_ms > 0


async def test_a_namespace_is_made_once(store: Store) -> None:
    row = NamespaceRow(new_id(), "orders", "what is sold", 1_000, 1, archive=False)

    assert await store.create_namespace(row)
    assert not await store.create_namespace(NamespaceRow(new_id(), "orders", "", 1_000, 1))
    with pytest.raises(BatchRefused):
        await store.create_namespace(NamespaceRow(row.namespace_id, "other", "", 1_000, 1))

    assert [found.name for found in await store.list_namespaces()] == ["default", "orders"]
    assert row in await store.list_namespaces()


async def test_a_namespace_changes_by_its_conflict_token(store: Store) -> None:
    (row,) = await store.list_namespaces()
    token = row.conflict_token
    changed = NamespaceRow(row.namespace_id, row.name, "changed", 5_000, token, archive=False)

    assert await store.update_namespace(changed)
    assert not await store.update_namespace(changed)

    (now,) = await store.list_namespaces()
    assert (now.description, now.retention_ms, now.conflict_token) == ("changed", 5_000, 2)
    assert not now.archive


async def test_a_namespace_that_is_not_there_is_not_made_by_an_update(store: Store) -> None:
    assert not await store.update_namespace(NamespaceRow(new_id(), "ghost", "", 1, 1))

    assert [row.name for row in await store.list_namespaces()] == ["default"]


def changed(by: str) -> Deployment:
    return Deployment("shop", builds=(Build("1", 5, ("orders", "cards")),), changed_by=by)


async def test_a_deployment_changes_by_its_conflict_token(store: Store) -> None:
    """Two operators, or two nodes, cannot undo each other unseen."""
    namespace_id = new_id()
    first = DeploymentRow(namespace_id, "shop", 0, changed("first"))

    assert await store.put_deployment(first)
    assert not await store.put_deployment(first), "it is there already"
    assert await store.put_deployment(DeploymentRow(namespace_id, "shop", 1, changed("second")))
    assert not await store.put_deployment(DeploymentRow(namespace_id, "shop", 1, changed("lost")))
    assert not await store.put_deployment(DeploymentRow(namespace_id, "ghost", 1, changed("")))
    assert await store.put_deployment(DeploymentRow(new_id(), "shop", 0, changed("of another")))

    mine = [row for row in await store.list_deployments() if row.namespace_id == namespace_id]
    assert mine == [DeploymentRow(namespace_id, "shop", 2, changed("second"))]


async def test_a_change_of_a_deployment_and_its_row_in_the_log_are_saved_together(
    store: Store,
) -> None:
    """Or not at all: no action without a row, no row without its action."""
    namespace_id = new_id()
    first, second, third = rows_of(3, Head(0), action=Action.SET_CURRENT_VERSION)[0]

    def change(token: int) -> DeploymentRow:
        return DeploymentRow(namespace_id, "shop", token, changed(str(token)))

    assert await store.put_deployment(change(0), first)
    assert not await store.put_deployment(change(0), second), "it is there already"
    assert not await store.put_deployment(change(7), second), "another came first"
    assert not await store.put_deployment(DeploymentRow(new_id(), "ghost", 1, changed("")), second)
    with pytest.raises(BatchRefused) as caught:
        await store.put_deployment(change(1), first)
    assert caught.value.sqlstate == UNIQUE_VIOLATION
    assert await store.load_audit(0, 0, 9) == [first]
    assert await store.put_deployment(change(1), second)
    assert await store.put_deployment(change(2))
    assert await store.load_audit(0, 0, 9) == [first, second]
    assert await store.put_deployment(DeploymentRow(new_id(), "shop", 0, changed("")), third)

    mine = [row for row in await store.list_deployments() if row.namespace_id == namespace_id]
    assert mine == [DeploymentRow(namespace_id, "shop", 3, changed("2"))]


async def test_a_queue_limit_changes_by_its_conflict_token(store: Store) -> None:
    """And its row in the audit log is saved with it, or neither is."""
    namespace_id = new_id()
    first, second, third = rows_of(3, Head(0), action=Action.SET_CURRENT_VERSION)[0]

    def limit(rate_per_s: float, token: int, queue: str = "mail") -> QueueLimitRow:
        return QueueLimitRow(namespace_id, queue, rate_per_s, token)

    assert await store.put_queue_limit(limit(2.5, 0), first)
    assert not await store.put_queue_limit(limit(9, 0), second), "it is there already"
    assert not await store.put_queue_limit(limit(9, 7), second), "another came first"
    assert not await store.put_queue_limit(limit(9, 1, "ghost"), second)
    with pytest.raises(BatchRefused) as caught:
        await store.put_queue_limit(limit(9, 1), first)
    assert caught.value.sqlstate == UNIQUE_VIOLATION
    assert await store.put_queue_limit(limit(0.1, 1), second)
    assert await store.put_queue_limit(limit(1e6, 0, "reports"))
    assert await store.load_audit(0, 0, 9) == [first, second]
    assert await store.put_queue_limit(limit(0, 2), third)

    mine = [row for row in await store.list_queue_limits() if row.namespace_id == namespace_id]
    assert sorted(mine, key=lambda row: row.queue) == [limit(0, 3), limit(1e6, 1, "reports")]


async def test_invariant_26_a_lease_is_judged_by_the_databases_clock(store: Store) -> None:
    """In the statement that reads it; what the row says of its end is for people."""
    living, dead = sorted([new_id(), new_id()])
    now_us = await store.renew_node(living, "a:1", "eu", "history", 1, 60_000)
    await store.renew_node(dead, "b:1", "eu", "history,matching", 1, 0)

    first, second = await store.list_nodes()

    assert (first.node_id, first.address, first.alive) == (living, "a:1", True)
    assert (second.node_id, second.roles, second.alive) == (dead, "history,matching", False)
    assert first.lease_end_us >= now_us + 60_000 * 1_000


async def test_a_lease_is_renewed_by_the_latest_incarnation_only(store: Store) -> None:
    node_id = new_id()
    await store.renew_node(node_id, "a:1", "eu", "", 1, 60_000)
    await store.renew_node(node_id, "a:2", "eu", "", 2, 60_000)

    with pytest.raises(FenceLost):
        await store.renew_node(node_id, "a:1", "eu", "", 1, 60_000)

    (node,) = await store.list_nodes()
    assert (node.address, node.incarnation) == ("a:2", 2)


async def test_a_released_node_is_not_alive(store: Store) -> None:
    node_id = new_id()
    await store.renew_node(node_id, "a:1", "eu", "", 1, 60_000)

    await store.release_node(node_id)
    await store.release_node(node_id)

    assert [node for node in await store.list_nodes() if node.alive] == []


async def test_a_shard_has_a_row_whether_it_was_served_or_not(store: Store) -> None:
    node_id = new_id()
    await store.put_shard(2, node_id, "a:1")
    await store.put_shard(3, node_id, "a:1")
    await store.put_shard(3, NO_NODE, "")

    assert await store.list_shards() == [
        ShardRow(1, NO_NODE, "", 0),
        ShardRow(2, node_id, "a:1", 0),
        ShardRow(3, NO_NODE, "", 0),
        ShardRow(4, NO_NODE, "", 0),
    ]


async def test_a_token_key_is_made_once(store: Store) -> None:
    assert await store.put_token_key(2, b"two")
    assert await store.put_token_key(1, b"one")
    assert not await store.put_token_key(1, b"another")

    keys = await store.list_token_keys()

    assert [(key.key_id, key.secret) for key in keys] == [(1, b"one"), (2, b"two")]
    assert all(key.created_us > 0 for key in keys)


async def test_a_store_says_what_it_is(store: Store, owner: Owner) -> None:
    assert await store.describe()
