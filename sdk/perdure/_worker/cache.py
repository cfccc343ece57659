"""Runs that stay in memory between their tasks, the least recently used given up first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from perdure._replay.messages import LocalActivityOutcome, Payloads, Task, TaskFailure, TaskSuccess


class Instance(Protocol):
    """The code of one run with all that it waits for; `perdure._replay` has the real one."""

    def fits(self, task: Task) -> bool:
        """Do the task's events join what is in memory?"""
        ...

    def activate(self, task: Task) -> TaskSuccess | TaskFailure: ...

    def resolve_local(self, outcome: LocalActivityOutcome) -> TaskSuccess | TaskFailure | None:
        """None: no workflow task is open."""
        ...

    def yield_task(self) -> TaskSuccess: ...

    def task_ahead(self, activity_id: str, result: Payloads, now_us: int) -> Task | None:
        """The workflow task that the activity's result will lead to, if nothing else happens."""
        ...

    @property
    def asked_history_size(self) -> bool:
        """Has its code, in the present workflow task?"""
        ...

    def evict(self) -> None:
        """Ends it without a trace. To be called once."""
        ...


class CachedRun:
    """A run in memory, in the cache or about to be put there."""

    __slots__ = ("instance", "is_ahead", "is_evicted", "on_evict", "run_id")

    def __init__(self, run_id: str, instance: Instance) -> None:
        self.run_id = run_id
        self.instance = instance
        self.is_evicted = False
        self.is_ahead = False  # of what the engine has said
        self.on_evict: Callable[[CachedRun], None] | None = None

    def evict(self) -> None:
        """Evicting twice is fine: by the cache's limit, say, and by the engine's refusal."""
        if not self.is_evicted:
            self.is_evicted = True
            if self.on_evict is not None:
                self.on_evict(self)
            self.instance.evict()


class RunCache:
    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._runs: OrderedDict[str, CachedRun] = OrderedDict()

    @property
    def keeps_runs(self) -> bool:
        return self._size_max > 0

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, run_id: str) -> CachedRun | None:
        return self._runs.get(run_id)

    def put(self, run: CachedRun) -> None:
        """As the most recently used one; another instance of that run is evicted."""
        before = self._runs.pop(run.run_id, None)
        if before is not None and before is not run:
            before.evict()
        self._runs[run.run_id] = run
        while len(self._runs) > self._size_max:
            _, oldest = self._runs.popitem(last=False)
            oldest.evict()

    def put_or_evict(self, run: CachedRun, *, keeps: bool) -> None:
        """After a workflow task. `keeps`: there may be another."""
        if keeps and self.keeps_runs:
            self.put(run)
        else:
            self.evict(run)

    def take_out(self, run: CachedRun) -> None:
        """Its workflow task goes on for longer: until it is put back it must not be evicted."""
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]

    def evict(self, run: CachedRun) -> None:
        """Whether it is still in the cache or not."""
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]
        run.evict()

    def clear(self) -> None:
        for run in list(self._runs.values()):
            self.evict(run)
