"""Who has what in hand, or is thought to have died with it: hand-outs by worker, of all shards of a process.

A worker's heartbeat, its goodbye and its broken connection ask for them. A book of each shard for that would be one
more dictionary in cold memory for each hand-out, where shards are many.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perdure_engine.core.tasks import TaskKind

if TYPE_CHECKING:
    from perdure_engine.history.judging import Held


DEAD_KEPT_MAX = 1_000  # workers: one that returns does so within minutes

ByBook = dict[tuple[int, bool], list["Held"]]
"""By shard, and whether it is jobs."""


class Holders:
    def __init__(self) -> None:
        self._of_worker: dict[bytes, dict[Held, None]] = {}
        self._dead: dict[bytes, list[Held]] = {}

    def add(self, held: Held) -> None:
        worker_id = held.handout.worker_id
        has = self._of_worker.get(worker_id)
        if has is None:
            has = self._of_worker[worker_id] = {}
        has[held] = None

    def remove(self, held: Held) -> None:
        """Harmless when it is not there."""
        worker_id = held.handout.worker_id
        has = self._of_worker.get(worker_id)
        if has is not None:
            has.pop(held, None)
            if not has:
                del self._of_worker[worker_id]

    def of(self, worker_id: bytes) -> ByBook:
        """What the worker has, oldest first."""
        return _by_book(self._of_worker.get(worker_id, ()))

    def died(self, held: Held) -> None:
        dead = self._dead
        dead.setdefault(held.handout.worker_id, []).append(held)
        if len(dead) > DEAD_KEPT_MAX:
            del dead[next(iter(dead))]

    def came_back(self, worker_id: bytes) -> ByBook:
        """What the worker was thought to have died with; told once."""
        return _by_book(self._dead.pop(worker_id, ())) if self._dead else {}


def _by_book(hand_outs: Iterable[Held]) -> ByBook:
    found: ByBook = {}
    for held in hand_outs:
        key = (held.token.shard_id, held.kind is TaskKind.JOB)
        if key in found:
            found[key].append(held)
        else:
            found[key] = [held]
    return found
