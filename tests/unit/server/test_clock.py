"""The real clock and the real ids keep what their ports promise."""

from __future__ import annotations

import uuid

from perdure_engine.server.clock import SystemClock, SystemIds, new_incarnation


def test_ids_are_uuids_of_version_7_and_all_different() -> None:
    ids = SystemIds()
    made = [ids.new_id() for _ in range(10_000)]

    assert len(set(made)) == len(made)
    assert {len(made_id) for made_id in made} == {16}
    assert {uuid.UUID(bytes=made_id).version for made_id in made} == {7}
    assert {uuid.UUID(bytes=made_id).variant for made_id in made} == {uuid.RFC_4122}


def test_an_id_begins_with_its_time() -> None:
    ids = SystemIds()
    earlier = new_incarnation() // 1_000
    made_ms = int.from_bytes(ids.new_id()[:6], "big")
    later = new_incarnation() // 1_000

    assert earlier <= made_ms <= later


def test_jitter_is_in_its_range_and_the_clock_never_goes_back() -> None:
    ids, clock = SystemIds(), SystemClock()
    seen = [clock.monotonic() for _ in range(1_000)]

    assert all(0 <= ids.jitter() < 1 for _ in range(1_000))
    assert seen == sorted(seen)
