"""Whose CPU it was: engine, database, worker, client, or somebody else's on the same machine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from perdure.bench import proc


class Component(StrEnum):
    ENGINE = "engine"
    DATABASE = "database"
    WORKER = "worker"
    CLIENT = "client"


Pids = Mapping[Component, Iterable[int]]


@dataclass(frozen=True)
class Usage:
    """What was used between two moments."""

    seconds: float
    cpu_s: Mapping[Component, float]
    """Without a component that is not on this machine or not ours to see."""
    foreign_cores: float
    """Processors that were busy with something else, on average."""

    @property
    def total_s(self) -> float:
        return sum(self.cpu_s.values())


@dataclass(frozen=True)
class _Reading:
    at_s: float
    used_ns: Counter[Component]
    machine_ns: int


class Meter:
    """Reads the CPU of all components. `pids` tells which processes they are at that moment.

    The client is the process that measures. A component must be named by `pids` always or never.
    """

    def __init__(self, pids: Callable[[], Pids]) -> None:
        self._pids = pids
        self._gone_ns: Counter[Component] = Counter()
        self._began: _Reading | None = None

    def begin(self) -> None:
        self._began = self._read()

    def end(self) -> Usage:
        """Since `begin`. Can be asked again."""
        began, now = self._began, self._read()
        assert began is not None, "end without begin"
        seconds = now.at_s - began.at_s
        used = {
            component: (now.used_ns[component] - began.used_ns[component]) / 1e9
            for component in now.used_ns
        }
        machine_s = (now.machine_ns - began.machine_ns) / 1e9
        foreign_s = max(0.0, machine_s - sum(used.values()))
        return Usage(seconds, used, foreign_s / seconds)

    def before_kill(self, component: Component) -> None:
        """Keeps what the component's processes have used: after a kill nobody can say any more."""
        self._gone_ns[component] += sum(map(proc.cpu_ns, self._pids().get(component, ())))

    def _read(self) -> _Reading:
        used = Counter({Component.CLIENT: time.process_time_ns()})
        for component, pids in self._pids().items():
            used[component] = sum(map(proc.cpu_ns, pids)) + self._gone_ns[component]
        return _Reading(time.perf_counter(), used, proc.machine_ns())
