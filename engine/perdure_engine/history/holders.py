"""Who has what in hand: hand-outs by worker, of all shards of a process.

A worker's heartbeat, its goodbye and its broken connection ask for them. A book of each shard for that would be one
more dictionary in cold memory for each hand-out, where shards are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure_engine.core.tasks import TaskKind

if TYPE_CHECKING:
    from perdure_engine.history.judging import Held


class Holders:
    def __init__(self) -> None:
        self._of_worker: dict[bytes, dict[Held, None]] = {}

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

    def of(self, worker_id: bytes) -> dict[tuple[int, bool], list[Held]]:
        """What the worker has, oldest first, by shard and whether it is jobs."""
        found: dict[tuple[int, bool], list[Held]] = {}
        for held in self._of_worker.get(worker_id, ()):
            key = (held.token.shard_id, held.kind is TaskKind.JOB)
            if key in found:
                found[key].append(held)
            else:
                found[key] = [held]
        return found
