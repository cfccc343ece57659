"""The sweep: dead rows of one shard deleted under its fence, in one autocommit statement.

Sent by the writer in the shard's turn: a table cannot be upserted and deleted from in one
statement, and two sweeps of one range abort each other. Its guard raises (22012) when a row that is
not gone was in a range, or a buffered event that its run has not consumed.

It is planned anew each time (not prepared): planned once on a young table, the deletes would go on
reading all of it when it has grown.
"""

from __future__ import annotations

from typing import Final, LiteralString

from perdure_engine.ports.rows import ROW_GONE
from perdure_engine.ports.store import Sweep
from perdure_engine.store.sql import (
    executions,
    inbox,
    schedules,
    shard_fence,
    shards,
    tasks,
    timers,
)
from perdure_engine.store.sql.parameters import (
    Instants,
    Int4,
    Int4s,
    Int8s,
    Texts,
    Uuids,
)

assert ROW_GONE == 9, "the text below says 9"

_DELETES: Final = (tasks.SWEEP, timers.SWEEP, inbox.SWEEP, shards.MARK)
_DEAD: Final[tuple[LiteralString, ...]] = (
    "(select count(*) from d_tasks where d_tasks.state <> 9) = 0",
    "(select count(*) from d_timers where d_timers.state <> 9) = 0",
    executions.NOT_CONSUMED + " = 0",
)

SWEEP: Final = shard_fence.guarded(_DELETES, _DEAD)

# Schedules end seldom: the sweep of what ends with every task does without them.
SWEEP_WITH_SCHEDULES: Final = shard_fence.guarded(
    [*_DELETES, schedules.SWEEP], [*_DEAD, schedules.NOT_GONE + " = 0"]
)

STATEMENTS: Final[dict[str, LiteralString]] = {
    "sweep": SWEEP,
    "sweep.with_schedules": SWEEP_WITH_SCHEDULES,
}

_INT8_MIN: Final = -(2**63)
_INT8_MAX: Final = 2**63 - 1


def statement(sweep: Sweep, task_keys: list[tuple[int, int]]) -> tuple[LiteralString, list[object]]:
    """`task_keys`: those of the sweep, and of the rows in its ranges."""
    timer_ranges = [(wake, wake + 1, timer_id, timer_id) for wake, timer_id in sweep.timer_keys]
    if sweep.timer_range is not None:
        timer_ranges.append((*sweep.timer_range, _INT8_MIN, _INT8_MAX))
    values = [
        *shard_fence.advance_parameters([sweep.fence], sweep.batch_id),
        Int4s(list(dict.fromkeys(queue_no for queue_no, _ in task_keys))),
        Int8s([task_id for _, task_id in task_keys]),
        Instants([first_wake for first_wake, _, _, _ in timer_ranges]),
        Instants([end_wake for _, end_wake, _, _ in timer_ranges]),
        Int8s([first_id for _, _, first_id, _ in timer_ranges]),
        Int8s([last_id for _, _, _, last_id in timer_ranges]),
        Uuids([run_id for run_id, _ in sweep.inbox_keys]),
        Int8s([seq for _, seq in sweep.inbox_keys]),
        Instants([] if sweep.timer_range is None else [sweep.timer_range[1]]),
    ]
    if not sweep.schedules:
        return SWEEP, values
    return SWEEP_WITH_SCHEDULES, [
        *values,
        Uuids([namespace_id for namespace_id, _ in sweep.schedules]),
        Texts([schedule_id for _, schedule_id in sweep.schedules]),
    ]


def range_parameters(sweep: Sweep) -> list[object]:
    return [
        Int4(sweep.fence.shard_id),
        Int4s([queue_no for queue_no, _, _ in sweep.task_ranges]),
        Int8s([first_id for _, first_id, _ in sweep.task_ranges]),
        Int8s([end_id for _, _, end_id in sweep.task_ranges]),
    ]
