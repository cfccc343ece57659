"""Numbers derived from ids, for ever: they are keys at rest, and every process computes them alone (adr/0006)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_engine.core.ids import SEQUENCE_BITS, SEQUENCE_MAX, queue_number, shard_of, uuid_text
from perdure_engine.core.tasks import WORKER_KINDS, TaskKind

A = bytes(range(16))
B = bytes(range(16, 32))


@pytest.mark.parametrize(
    ("namespace_id", "workflow_id", "of_4", "of_512"),
    [
        (A, "order-1", 2, 266),
        (A, "order-2", 3, 351),
        (A, "a", 2, 46),
        (A, "zażółć ✓", 3, 475),
        (A, "x" * 1000, 4, 320),
        (B, "order-1", 4, 476),
        (B, "order-2", 2, 58),
        (B, "a", 4, 200),
        (B, "zażółć ✓", 4, 300),
        (B, "x" * 1000, 3, 87),
    ],
)
def test_golden_shard_numbers(
    namespace_id: bytes, workflow_id: str, of_4: int, of_512: int
) -> None:
    assert (shard_of(namespace_id, workflow_id, 4), shard_of(namespace_id, workflow_id, 512)) == (
        of_4,
        of_512,
    )


@pytest.mark.parametrize(
    ("namespace_id", "kind", "queue", "number"),
    [
        (A, TaskKind.WORKFLOW, "default", 1116779566),
        (A, TaskKind.WORKFLOW, "orders", 1268901538),
        (A, TaskKind.WORKFLOW, "kolejka-ż", 2092910344),
        (A, TaskKind.ACTIVITY, "default", 1118499937),
        (A, TaskKind.ACTIVITY, "orders", 1866660135),
        (A, TaskKind.ACTIVITY, "kolejka-ż", 1005410539),
        (B, TaskKind.WORKFLOW, "default", 1389315239),
        (B, TaskKind.WORKFLOW, "orders", 600478904),
        (B, TaskKind.WORKFLOW, "kolejka-ż", 636744583),
        (B, TaskKind.ACTIVITY, "default", 1593147899),
        (B, TaskKind.ACTIVITY, "orders", 247285660),
        (B, TaskKind.ACTIVITY, "kolejka-ż", 573783142),
    ],
)
def test_golden_queue_numbers(namespace_id: bytes, kind: TaskKind, queue: str, number: int) -> None:
    assert queue_number(namespace_id, kind, queue) == number


@given(st.binary(min_size=16, max_size=16), st.text(max_size=50), st.integers(1, 4096))
def test_shards_are_numbered_from_one(namespace_id: bytes, workflow_id: str, shards: int) -> None:
    assert 1 <= shard_of(namespace_id, workflow_id, shards) <= shards


@given(st.binary(min_size=16, max_size=16), st.sampled_from(TaskKind), st.text(max_size=50))
def test_a_queue_number_fits_a_positive_int4(
    namespace_id: bytes, kind: TaskKind, queue: str
) -> None:
    assert 0 <= queue_number(namespace_id, kind, queue) < 1 << 31


def test_every_shard_gets_its_part() -> None:
    counts = [0] * 8
    for number in range(4_000):
        counts[shard_of(A, f"order-{number}", 8) - 1] += 1

    assert min(counts) > 400
    assert max(counts) < 600


def test_namespaces_and_kinds_do_not_share_queues() -> None:
    numbers = {
        queue_number(namespace_id, kind, "orders")
        for namespace_id in (A, B)
        for kind in WORKER_KINDS
    }

    assert len(numbers) == 4


def test_a_sequence_number_has_room_for_the_range() -> None:
    """`range_id << 24 | n` stays inside a signed int8 for every range id below 2^39."""
    assert SEQUENCE_MAX == (1 << SEQUENCE_BITS) - 1
    assert ((1 << 39) - 1) << SEQUENCE_BITS | SEQUENCE_MAX < 1 << 63


def test_the_text_of_an_id() -> None:
    assert uuid_text(A) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
