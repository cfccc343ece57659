"""What the code of a workflow uses.

A workflow is a class with one async method: ordinary asyncio code, in which every activity, timer
and signal is an event of its history, and which is run again from that history when its worker is
gone. So it must do the same each time; clocks, randomness, files and networks are for activities,
and `now`, `random`, `uuid4` and `sleep` stand in for them here.
"""

from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.machines.activity import ActivityCancellationType
from perdure.errors import NondeterminismError, ReadOnlyContextError
from perdure.workflow import unsafe
from perdure.workflow._activities import (
    ActivityOptions,
    execute_activity,
    execute_activity_method,
    start_activity,
    start_activity_method,
)
from perdure.workflow._context import (
    Info,
    LoggerAdapter,
    all_handlers_finished,
    cancellation_reason,
    in_workflow,
    info,
    instance,
    logger,
    memo,
    memo_value,
    now,
    payload_converter,
    random,
    set_signal_handler,
    time,
    time_ns,
    upsert_search_attributes,
    uuid4,
)
from perdure.workflow._decorators import defn, init, query, run, signal
from perdure.workflow._waiting import as_completed, sleep, wait, wait_condition

__all__ = [
    "ActivityCancellationType",
    "ActivityHandle",
    "ActivityOptions",
    "Info",
    "LoggerAdapter",
    "NondeterminismError",
    "ReadOnlyContextError",
    "all_handlers_finished",
    "as_completed",
    "cancellation_reason",
    "defn",
    "execute_activity",
    "execute_activity_method",
    "in_workflow",
    "info",
    "init",
    "instance",
    "logger",
    "memo",
    "memo_value",
    "now",
    "payload_converter",
    "query",
    "random",
    "run",
    "set_signal_handler",
    "signal",
    "sleep",
    "start_activity",
    "start_activity_method",
    "time",
    "time_ns",
    "unsafe",
    "upsert_search_attributes",
    "uuid4",
    "wait",
    "wait_condition",
]
