"""The writer's part of the store: commit, sweep, removals, bump."""

from __future__ import annotations

from perdure_engine.ports.store import (
    Batch,
    Conflict,
    Fence,
    FenceState,
    GuardFailed,
    JobRemoval,
    OutcomeUnknown,
    Removal,
    Sweep,
)
from perdure_engine.store.sql import job_removal as job_removals
from perdure_engine.store.sql import removal as removals
from perdure_engine.store.sql import shard_fence, statement, tasks
from perdure_engine.store.sql import sweep as sweeps
from perdure_engine.store.sql.access import TRIES_MAX, Access
from perdure_engine.store.sql.parameters import Int4s


class SqlCommits:
    """`CommitStore` on SQL. Statements of different shards may be in flight at once."""

    _access: Access

    async def commit(self, batch: Batch) -> int:
        form = statement.form_of(batch)
        rows = await self._access.write(form.text, form.parameters(batch))
        return int(rows[0][0])

    async def sweep(self, sweep: Sweep) -> int:
        task_keys = sweep.task_keys
        if sweep.task_ranges:
            values = sweeps.range_parameters(sweep)
            task_keys = task_keys + await self._access.read(tasks.READ_RANGES, values)
        text, values = sweeps.statement(sweep, task_keys)
        rows = await self._access.write(text, values, prepare=False)
        return int(rows[0][0])

    async def remove_runs(self, removal: Removal) -> int:
        values = removals.parameters(removal)
        rows = await self._access.write(removals.REMOVE, values, prepare=False)
        return int(rows[0][0])

    async def remove_jobs(self, removal: JobRemoval) -> int:
        values = job_removals.parameters(removal)
        rows = await self._access.write(job_removals.REMOVE, values, prepare=False)
        return int(rows[0][0])

    async def bump_fences(self, fences: list[Fence], new_owner_id: bytes) -> list[FenceState]:
        """On PostgreSQL a bump waits for the statement in flight and then conflicts with it,
        once.
        """
        for _ in range(TRIES_MAX):
            if not fences:
                return []
            values = shard_fence.bump_parameters(fences, new_owner_id)
            try:
                rows = await self._access.write(shard_fence.BUMP, values)
            except Conflict:
                continue
            except GuardFailed:  # a fence row is missing, and a shard without one is lost
                there = await self._shards_there(fences)
                fences = [fence for fence in fences if fence.shard_id in there]
                continue
            return [FenceState(*row[:5]) for row in rows]
        raise OutcomeUnknown(f"a bump met {TRIES_MAX} conflicts in a row")

    async def read_fences(self, shard_ids: list[int]) -> list[FenceState]:
        rows = await self._access.read(shard_fence.READ, [Int4s(shard_ids)])
        return [FenceState(*row) for row in rows]

    async def _shards_there(self, fences: list[Fence]) -> set[int]:
        states = await self.read_fences([fence.shard_id for fence in fences])
        return {state.shard_id for state in states}
