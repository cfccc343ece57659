"""Tokens: only ours open, each only where it belongs. Rows B16, B17, B20 of reliability §4."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.frontend.fakes import (
    NAMESPACE_ID,
    OTHER_NAMESPACE_ID,
    RUN_ID,
    FakeIds,
    FakeStore,
    task_token,
)

from perdure_engine.core.errors import Code, Rejected
from perdure_engine.core.tokens import QueryToken
from perdure_engine.frontend.seal import Sealer, load_sealer
from perdure_engine.ports.store import TokenKeyRow

SEALER = Sealer([TokenKeyRow(1, b"k" * 32, 0)])
QUERY = QueryToken(2, RUN_ID, 9)


class Page(msgspec.Struct, frozen=True, array_like=True):
    at: int


def refused(opened: object) -> None:
    assert callable(opened)
    with pytest.raises(Rejected) as caught:
        opened()
    assert caught.value.code == Code.INVALID_ARGUMENT
    assert caught.value.field == "token"


def test_what_was_sealed_opens() -> None:
    token = task_token()

    assert SEALER.open_task("token", SEALER.seal_task(token), NAMESPACE_ID) == token
    assert SEALER.open_query("token", SEALER.seal_query(QUERY, NAMESPACE_ID), NAMESPACE_ID) == QUERY
    assert SEALER.open_page("token", SEALER.seal_page(Page(3), b"s"), b"s", Page) == Page(3)


def test_what_a_node_sealed_is_for_that_shard_and_those_bytes() -> None:
    """Invariant 67: nobody else's word reaches a run."""
    seal = SEALER.seal_of_node(3, b"intent")

    assert SEALER.is_of_node(seal, 3, b"intent")
    assert not SEALER.is_of_node(seal, 4, b"intent")
    assert not SEALER.is_of_node(seal, 3, b"another intent")
    assert not SEALER.is_of_node(b"", 3, b"intent")
    assert not SEALER.is_of_node(SEALER.seal_task(task_token()), 3, b"intent")
    other = Sealer([TokenKeyRow(1, b"x" * 32, 0)])
    assert not other.is_of_node(seal, 3, b"intent")


@given(st.binary(max_size=200))
def test_b16_random_bytes_do_not_open(raw: bytes) -> None:
    refused(lambda: SEALER.open_task("token", raw, NAMESPACE_ID))
    refused(lambda: SEALER.open_query("token", raw, NAMESPACE_ID))
    refused(lambda: SEALER.open_page("token", raw, b"s", Page))


def test_b17_a_token_with_one_changed_bit_does_not_open() -> None:
    sealed = SEALER.seal_task(task_token())
    for position in range(len(sealed) * 8):
        edited = bytearray(sealed)
        edited[position // 8] ^= 1 << position % 8
        refused(lambda raw=bytes(edited): SEALER.open_task("token", raw, NAMESPACE_ID))
    refused(lambda: SEALER.open_task("token", sealed + b"\0", NAMESPACE_ID))
    refused(lambda: SEALER.open_task("token", sealed[:-1], NAMESPACE_ID))


def test_b17_a_token_made_with_another_secret_does_not_open() -> None:
    forger = Sealer([TokenKeyRow(1, b"x" * 32, 0)])

    refused(lambda: SEALER.open_task("token", forger.seal_task(task_token()), NAMESPACE_ID))


def test_a_token_opens_in_its_own_namespace_only() -> None:
    task = SEALER.seal_task(task_token())
    query = SEALER.seal_query(QUERY, NAMESPACE_ID)

    refused(lambda: SEALER.open_task("token", task, OTHER_NAMESPACE_ID))
    refused(lambda: SEALER.open_query("token", query, OTHER_NAMESPACE_ID))


def test_a_token_opens_for_its_own_purpose_only() -> None:
    query = SEALER.seal_query(QUERY, NAMESPACE_ID)
    page = SEALER.seal_page(QUERY, NAMESPACE_ID)

    refused(lambda: SEALER.open_page("token", query, NAMESPACE_ID, QueryToken))
    refused(lambda: SEALER.open_query("token", page, NAMESPACE_ID))


def test_b20_a_page_token_opens_for_its_own_query_only() -> None:
    page = SEALER.seal_page(Page(3), b"query-1")

    refused(lambda: SEALER.open_page("token", page, b"query-2", Page))
    refused(lambda: SEALER.open_page("token", page, b"query-1\0", Page))


def test_tokens_of_an_older_key_open_and_new_ones_take_the_newest() -> None:
    both = Sealer([TokenKeyRow(1, b"k" * 32, 0), TokenKeyRow(2, b"l" * 32, 0)])
    token = task_token()

    assert both.open_task("token", SEALER.seal_task(token), NAMESPACE_ID) == token
    refused(lambda: SEALER.open_task("token", both.seal_task(token), NAMESPACE_ID))


async def test_the_first_start_makes_a_key_and_the_next_one_uses_it() -> None:
    store, ids = FakeStore(), FakeIds()

    first = await load_sealer(store, ids)
    second = await load_sealer(store, ids)

    assert len(store.keys) == 1
    assert len(store.keys[0].secret) == 32
    sealed = first.seal_task(task_token())
    assert second.open_task("token", sealed, NAMESPACE_ID) == task_token()


async def test_of_two_nodes_that_start_together_both_have_the_same_key() -> None:
    class Raced(FakeStore):
        async def put_token_key(self, key_id: int, secret: bytes) -> bool:
            await super().put_token_key(key_id, b"faster" * 6)
            return await super().put_token_key(key_id, secret)

    store = Raced()
    sealer = await load_sealer(store, FakeIds())

    assert [key.secret for key in store.keys] == [b"faster" * 6]
    sealed = Sealer(store.keys).seal_task(task_token())
    assert sealer.open_task("token", sealed, NAMESPACE_ID) == task_token()
