"""The removal of what is over its time of jobs and schedules, under the shard's fence, in one autocommit statement.

As the removal of runs (store.sql.removal). Its guard raises (22012) when a job run is open, a batch of jobs has not
ended, or a slot has not acted yet.
"""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.ports.store import JobRemoval
from perdure_engine.store.sql import job_batches, job_keys, job_runs, schedule_slots, shard_fence
from perdure_engine.store.sql.parameters import Instants, Int2s, Texts, Uuids

REMOVE: Final = shard_fence.guarded(
    [job_runs.REMOVE, job_keys.REMOVE, job_batches.REMOVE, schedule_slots.REMOVE],
    [
        job_runs.STILL_OPEN + " = 0",
        job_batches.STILL_OPEN + " = 0",
        schedule_slots.STILL_TO_ACT + " = 0",
    ],
)

STATEMENTS: Final[dict[str, LiteralString]] = {"job_removal": REMOVE}


def parameters(removal: JobRemoval) -> list[object]:
    return [
        *shard_fence.advance_parameters([removal.fence], removal.batch_id),
        Uuids(removal.job_ids),
        Uuids([namespace_id for namespace_id, _, _, _ in removal.keys]),
        Int2s([kind for _, kind, _, _ in removal.keys]),
        Texts([key for _, _, key, _ in removal.keys]),
        Uuids([job_id for _, _, _, job_id in removal.keys]),
        Uuids([namespace_id for namespace_id, _ in removal.batches]),
        Texts([batch_id for _, batch_id in removal.batches]),
        Uuids([namespace_id for namespace_id, _, _, _ in removal.slots]),
        Texts([schedule_id for _, schedule_id, _, _ in removal.slots]),
        Instants([nominal_us for _, _, nominal_us, _ in removal.slots]),
        Int2s([origin for _, _, _, origin in removal.slots]),
    ]
