"""Numbers derived from ids, for ever: they are keys at rest, and every process computes them alone (adr/0006)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure_engine.core.ids import (
    SEQUENCE_BITS,
    SEQUENCE_MAX,
    job_id_of,
    queue_number,
    shard_of,
    shard_of_job,
    uuid_text,
)
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


# ---- ids of jobs


@pytest.mark.parametrize(
    ("shard_id", "namespace_id", "key", "request_id", "index", "text"),
    [
        (3, A, "", B, 0, "00000003-e9bc-8134-902c-d96df4090000"),
        (3, A, "", B, 9_999, "00000003-e9bc-8134-902c-d96df409270f"),
        (65_536, B, "", A, 1, "00010000-e0ef-8417-ac7c-ba16c6300001"),
        (3, A, "order-1", B, 7, "00000003-46ed-8db5-a3d2-ad0fed02eba4"),
        (3, B, "zażółć ✓", A, 0, "00000003-f976-8a85-9ec6-3fa2d438b1da"),
    ],
)
def test_golden_ids_of_jobs(
    shard_id: int, namespace_id: bytes, key: str, request_id: bytes, index: int, text: str
) -> None:
    assert uuid_text(job_id_of(shard_id, namespace_id, key, request_id, index)) == text


def test_the_jobs_of_a_call_follow_each_other_and_those_of_a_key_have_one_id() -> None:
    """Invariant 57: whoever repeats a call, or a key, names the same jobs."""
    of_call = [job_id_of(3, A, "", B, index) for index in range(1_000)]

    assert of_call == sorted(set(of_call))
    assert {shard_of_job(job_id) for job_id in of_call} == {3}
    assert {uuid_text(job_id)[14] + uuid_text(job_id)[19] for job_id in of_call} <= {
        "88",
        "89",
        "8a",
        "8b",
    }
    assert (
        len({job_id_of(3, A, "k", request, index) for request in (A, B) for index in (1, 2)}) == 1
    )
    others = {job_id_of(3, A, "", A, 0), job_id_of(3, B, "", B, 0), job_id_of(4, A, "", B, 0)}
    assert len(others | set(of_call)) == 1_003
