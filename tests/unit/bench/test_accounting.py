"""Whose CPU it was, with processes that come and go."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from perdure.bench import proc
from perdure.bench.accounting import Component, Meter, Pids

SECOND_NS = 1_000_000_000


@dataclass
class World:
    """All clocks and counters, in ns."""

    now_ns: int = 0
    client_ns: int = 0
    machine_ns: int = 0
    used_ns: dict[int, int] = field(default_factory=dict[int, int])
    pids: Pids = field(default_factory=dict[Component, list[int]])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    readings: dict[str, Callable[[], float]] = {
        "perf_counter": lambda: world.now_ns / SECOND_NS,
        "process_time_ns": lambda: world.client_ns,
    }
    for name, reading in readings.items():
        monkeypatch.setattr(time, name, reading)
    monkeypatch.setattr(proc, "machine_ns", lambda: world.machine_ns)
    monkeypatch.setattr(proc, "cpu_ns", lambda pid: world.used_ns.get(pid, 0))
    return world


def test_each_component_has_its_own(world: World) -> None:
    world.pids = {Component.ENGINE: [1], Component.DATABASE: [2, 3], Component.WORKER: [4]}
    world.used_ns = {1: 5 * SECOND_NS, 2: SECOND_NS, 3: SECOND_NS, 4: 0}
    meter = Meter(lambda: world.pids)

    meter.begin()
    world.now_ns = 10 * SECOND_NS
    world.client_ns = SECOND_NS
    world.machine_ns = 15 * SECOND_NS
    world.used_ns = {1: 8 * SECOND_NS, 2: 2 * SECOND_NS, 3: 3 * SECOND_NS, 4: 2 * SECOND_NS}
    usage = meter.end()

    assert usage.seconds == 10.0
    assert usage.cpu_s == {
        Component.CLIENT: 1.0,
        Component.ENGINE: 3.0,
        Component.DATABASE: 3.0,
        Component.WORKER: 2.0,
    }
    assert usage.total_s == 9.0
    assert usage.foreign_cores == pytest.approx(0.6)


def test_what_a_killed_process_had_used_still_counts(world: World) -> None:
    world.pids = {Component.WORKER: [1]}
    world.used_ns = {1: 2 * SECOND_NS}
    meter = Meter(lambda: world.pids)

    meter.begin()
    world.used_ns = {1: 5 * SECOND_NS}
    meter.before_kill(Component.WORKER)
    world.pids = {Component.WORKER: [2]}
    world.used_ns = {2: 4 * SECOND_NS}
    world.now_ns = SECOND_NS
    usage = meter.end()

    assert usage.cpu_s[Component.WORKER] == 3.0 + 4.0


def test_ticks_that_are_late_are_not_foreign(world: World) -> None:
    meter = Meter(lambda: world.pids)

    meter.begin()
    world.now_ns = SECOND_NS
    world.client_ns = SECOND_NS

    assert meter.end().foreign_cores == 0.0


def test_a_component_that_is_not_ours_is_left_out(world: World) -> None:
    world.pids = {Component.WORKER: []}
    meter = Meter(lambda: world.pids)

    meter.begin()
    world.now_ns = SECOND_NS

    assert meter.end().cpu_s.keys() == {Component.CLIENT, Component.WORKER}
