"""Decisions about deployments: what becomes current, what may go, who gets which run (B16, T10)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure_engine.core import limits
from perdure_engine.core.deployments import (
    WHOLE,
    Build,
    Deployment,
    Route,
    VersionStatus,
    register,
    retirable_us,
    retire,
    route_of,
    set_current,
    set_ramping,
    share_of,
    status_of,
    unretire,
)
from perdure_engine.core.errors import Code, Rejected

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
NOW = 100 * DAY_US
RUNS = [number.to_bytes(16, "big") for number in range(2_000)]


def deployment(*builds: str, queues: tuple[str, ...] = ("q",)) -> Deployment:
    found = Deployment("shop")
    for number, build in enumerate(builds):
        for queue in queues:
            found = register(found, build, queue, number)
    return found


def retired(found: Deployment, build_id: str, **changes: Any) -> Deployment:
    facts: dict[str, Any] = {"pinned_runs": 0, "last_close_us": 0, "grace_us": DAY_US}
    return retire(found, build_id, NOW, **(facts | changes))


def test_a_new_run_goes_to_the_current_version() -> None:
    found = set_current(deployment("1", "2"), "2", NOW, "ops")

    assert route_of(found, "q") == Route("shop.2", "", 0)
    assert (found.changed_by, found.changed_us) == ("ops", NOW)
    assert route_of(found, "other") == Route("", "", 0), "it does not poll that queue"


def test_until_one_is_current_all_goes_to_workers_without_a_version() -> None:
    assert route_of(deployment("1"), "q").pick(RUNS[0]) == ""


def test_a_ramp_takes_its_share_and_a_run_stays_on_its_side() -> None:
    found = set_current(deployment("1", "2"), "1", NOW, "")
    quarter = route_of(set_ramping(found, "2", WHOLE // 4, NOW, ""), "q")
    half = route_of(set_ramping(found, "2", WHOLE // 2, NOW, ""), "q")

    on_quarter = {run for run in RUNS if quarter.pick(run) == "shop.2"}
    on_half = {run for run in RUNS if half.pick(run) == "shop.2"}

    assert 400 < len(on_quarter) < 600
    assert on_quarter < on_half, "who is on the new version stays there as the ramp goes up"
    assert {quarter.pick(run) for run in RUNS} == {"shop.1", "shop.2"}


def test_the_share_of_a_run_is_for_ever() -> None:
    """Every node, of every version of the engine, must send a run to the same side."""
    assert [share_of(run) for run in RUNS[:4]] == [4012, 607, 2268, 1931]


def test_a_ramp_of_nothing_and_of_everything() -> None:
    found = set_current(deployment("1", "2"), "1", NOW, "")
    none = route_of(set_ramping(found, "2", 0, NOW, ""), "q")
    every = route_of(set_ramping(found, "2", WHOLE, NOW, ""), "q")

    assert {none.pick(run) for run in RUNS} == {"shop.1"}
    assert {every.pick(run) for run in RUNS} == {"shop.2"}


def test_a_version_that_becomes_current_ramps_no_more() -> None:
    found = set_ramping(set_current(deployment("1", "2"), "1", NOW, ""), "2", 100, NOW, "")

    found = set_current(found, "2", NOW + 1, "")

    assert (found.current, found.ramping, found.ramp_share) == ("2", "", 0)
    assert found.require("1").stopped_us == NOW + 1
    assert found.require("2").stopped_us == 0


def test_a_version_that_comes_back_has_not_stopped() -> None:
    found = deployment("1", "2")
    for build in ("1", "2", "1"):
        found = set_current(found, build, NOW, "")

    assert [build.stopped_us for build in found.builds] == [0, NOW]


@pytest.mark.parametrize(
    ("routing", "pinned", "status"),
    [
        (Deployment("shop"), 0, VersionStatus.INACTIVE),
        (Deployment("shop", current="1"), 3, VersionStatus.CURRENT),
        (Deployment("shop", ramping="1"), 0, VersionStatus.RAMPING),
        (Deployment("shop"), 1, VersionStatus.DRAINING),
    ],
)
def test_what_a_version_is(routing: Deployment, pinned: int, status: VersionStatus) -> None:
    assert status_of(routing, Build("1", 0), pinned) is status


def test_a_version_that_had_runs_and_has_none_is_drained() -> None:
    assert status_of(Deployment("shop"), Build("1", 0, stopped_us=5), 0) is VersionStatus.DRAINED
    assert status_of(Deployment("shop"), Build("1", 0, retired_us=5), 9) is VersionStatus.RETIRED


# ---- retire (B16)


@pytest.mark.parametrize("how", ["current", "ramping"])
def test_b16_a_version_that_gets_runs_is_not_retired(how: str) -> None:
    found = set_current(deployment("1", "2"), "1", NOW - 9 * DAY_US, "")
    found = set_ramping(found, "2", 1, NOW - 9 * DAY_US, "")

    with pytest.raises(Rejected, match=how) as caught:
        retired(found, "1" if how == "current" else "2")

    assert caught.value.code is Code.FAILED_PRECONDITION


def test_b16_a_version_with_open_runs_is_not_retired() -> None:
    with pytest.raises(Rejected, match="2 open runs are pinned") as caught:
        retired(deployment("1"), "1", pinned_runs=2)

    assert caught.value.reason == "VERSION_IN_USE"
    assert caught.value.metadata == {"open_runs": "2"}


@pytest.mark.parametrize("what", ["its last run closed", "it got new ones last"])
def test_b16_it_is_retired_a_day_after_its_last_run_and_not_before(what: str) -> None:
    """Whichever was later: a run that closed long ago says nothing of one that may yet begin."""
    ended = NOW - DAY_US
    stopped, closed = (1, ended) if what == "its last run closed" else (ended, 1)
    found = set_current(set_current(deployment("1"), "1", 0, ""), "", stopped, "")

    with pytest.raises(Rejected, match="may be retired in 1 s"):
        retire(found, "1", NOW - 1, pinned_runs=0, last_close_us=closed, grace_us=DAY_US)
    after = retired(found, "1", last_close_us=closed)

    assert retirable_us(found.require("1"), closed, DAY_US) == NOW
    assert after.require("1").retired_us == NOW
    assert retired(after, "1", pinned_runs=5) == after, "twice is fine"
    assert unretire(after, "1") == found


def test_b16_a_version_that_never_ran_anything_goes_at_once() -> None:
    assert retired(deployment("1"), "1").require("1").retired_us == NOW


def test_a_retired_version_gets_nothing_and_registers_nothing() -> None:
    found = retired(deployment("1"), "1")

    for decide in (
        lambda: register(found, "1", "q2", NOW),
        lambda: set_current(found, "1", NOW, ""),
        lambda: set_ramping(found, "1", 1, NOW, ""),
    ):
        with pytest.raises(Rejected) as caught:
            decide()
        assert caught.value.reason == "VERSION_RETIRED"


# ---- bad input


def test_a_version_that_lacks_a_queue_of_the_current_one_is_refused_unless_asked_for() -> None:
    found = register(deployment("1", "2"), "1", "mail", NOW)
    found = set_current(found, "1", NOW, "")

    with pytest.raises(Rejected, match="polls mail") as caught:
        set_current(found, "2", NOW, "")
    assert caught.value.reason == "TASK_QUEUES_MISSING"
    with pytest.raises(Rejected):
        set_ramping(found, "2", 1, NOW, "")

    forced = set_current(found, "2", NOW, "", ignore_missing_queues=True)
    assert route_of(forced, "mail") == Route("", "", 0)


def test_a_version_that_nobody_has_seen_is_refused_unless_asked_for() -> None:
    with pytest.raises(Rejected) as caught:
        set_current(deployment("1"), "2", NOW, "")
    assert (caught.value.code, caught.value.reason) == (Code.NOT_FOUND, "VERSION_NOT_FOUND")

    found = set_current(deployment("1"), "2", NOW, "", allow_no_pollers=True)

    assert found.require("2") == Build("2", NOW)
    assert route_of(register(found, "2", "q", NOW), "q").current == "shop.2"


@pytest.mark.parametrize(
    ("build", "share", "field"),
    [("2", -1, "percentage"), ("2", WHOLE + 1, "percentage"), ("", 1, "build_id")],
)
def test_a_share_that_is_none(build: str, share: int, field: str) -> None:
    with pytest.raises(Rejected) as caught:
        set_ramping(deployment("1", "2"), build, share, NOW, "")

    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, field)


def test_the_current_version_does_not_ramp() -> None:
    found = set_current(deployment("1"), "1", NOW, "")

    with pytest.raises(Rejected, match="is the current one already"):
        set_ramping(found, "1", 1, NOW, "")


def test_versions_are_bounded_and_retired_ones_make_room() -> None:
    found = deployment(*[str(number) for number in range(limits.VERSIONS_OF_DEPLOYMENT_MAX)])

    with pytest.raises(Rejected) as caught:
        register(found, "more", "q", NOW)
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    assert register(found, "5", "q2", NOW).serves("5", "q2"), "one that is known has its room"

    found = register(retired(found, "7"), "more", "q", NOW)

    assert found.build("7") is None
    assert len(found.builds) == limits.VERSIONS_OF_DEPLOYMENT_MAX


def test_queues_of_a_version_are_bounded() -> None:
    names = tuple(f"q{number}" for number in range(limits.QUEUES_OF_VERSION_MAX))

    with pytest.raises(Rejected, match="task queues of a version"):
        register(deployment("1", queues=names), "1", "more", NOW)
