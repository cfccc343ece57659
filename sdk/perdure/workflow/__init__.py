"""What the code of a workflow uses.

A workflow is a class with one async method: ordinary asyncio code, in which every activity, timer
and signal is an event of its history, and which is run again from that history when its worker is
gone. So it must do the same each time; clocks, randomness, files and networks are for activities,
and `now`, `random`, `uuid4` and `sleep` stand in for them here.
"""

from perdure._definitions import DynamicWorkflowConfig, HandlerUnfinishedPolicy
from perdure._replay.activity_handle import ActivityHandle
from perdure._replay.child_handle import ChildWorkflowHandle
from perdure._replay.external_messages import (
    ParentClosePolicy,
)
from perdure._replay.interrupts import ContinueAsNewError
from perdure._replay.machines.activity import ActivityCancellationType
from perdure._replay.machines.child import ChildWorkflowCancellationType
from perdure._replay.signals import UnfinishedSignalHandlersWarning
from perdure._replay.updates import UnfinishedUpdateHandlersWarning, UpdateInfo
from perdure.errors import NondeterminismError, ReadOnlyContextError
from perdure.workflow import unsafe
from perdure.workflow._activities import (
    ActivityOptions,
    execute_activity,
    execute_activity_class,
    execute_activity_method,
    start_activity,
    start_activity_class,
    start_activity_method,
)
from perdure.workflow._chain import (
    continue_as_new,
    get_last_completion_result,
    get_last_failure,
    has_last_completion_result,
)
from perdure.workflow._children import (
    ChildWorkflowOptions,
    execute_child_workflow,
    start_child_workflow,
)
from perdure.workflow._context import (
    Info,
    LoggerAdapter,
    ParentInfo,
    RootInfo,
    all_handlers_finished,
    cancellation_reason,
    extern_functions,
    in_workflow,
    info,
    instance,
    logger,
    memo,
    memo_value,
    new_random,
    now,
    payload_converter,
    random,
    time,
    time_ns,
    upsert_memo,
    upsert_search_attributes,
    uuid4,
    uuid7,
)
from perdure.workflow._decorators import (
    UpdateMethodMultiParam,
    defn,
    dynamic_config,
    init,
    query,
    run,
    signal,
    update,
)
from perdure.workflow._entities import entity, entity_handler, entity_key, entity_reader
from perdure.workflow._external import (
    ExternalWorkflowHandle,
    get_external_workflow_handle,
    get_external_workflow_handle_for,
)
from perdure.workflow._fan_out import (
    FanOutError,
    FanOutResults,
    FanOutRule,
    map,
    parallel,
)
from perdure.workflow._handlers import (
    current_update_info,
    get_current_details,
    get_dynamic_query_handler,
    get_dynamic_signal_handler,
    get_dynamic_update_handler,
    get_query_handler,
    get_signal_handler,
    get_update_handler,
    set_current_details,
    set_dynamic_query_handler,
    set_dynamic_signal_handler,
    set_dynamic_update_handler,
    set_query_handler,
    set_signal_handler,
    set_update_handler,
)
from perdure.workflow._local_activities import (
    LocalActivityOptions,
    execute_local_activity,
    execute_local_activity_class,
    execute_local_activity_method,
    start_local_activity,
    start_local_activity_class,
    start_local_activity_method,
)
from perdure.workflow._saga import Saga, saga
from perdure.workflow._versions import deprecate_patch, patched
from perdure.workflow._waiting import as_completed, sleep, wait, wait_condition

# Temporal's names for them.
ActivityConfig = ActivityOptions
LocalActivityConfig = LocalActivityOptions

__all__ = [
    "ActivityCancellationType",
    "ActivityConfig",
    "ActivityHandle",
    "ActivityOptions",
    "ChildWorkflowCancellationType",
    "ChildWorkflowHandle",
    "ChildWorkflowOptions",
    "ContinueAsNewError",
    "DynamicWorkflowConfig",
    "ExternalWorkflowHandle",
    "FanOutError",
    "FanOutResults",
    "FanOutRule",
    "HandlerUnfinishedPolicy",
    "Info",
    "LocalActivityConfig",
    "LocalActivityOptions",
    "LoggerAdapter",
    "NondeterminismError",
    "ParentClosePolicy",
    "ParentInfo",
    "ReadOnlyContextError",
    "RootInfo",
    "Saga",
    "UnfinishedSignalHandlersWarning",
    "UnfinishedUpdateHandlersWarning",
    "UpdateInfo",
    "UpdateMethodMultiParam",
    "all_handlers_finished",
    "as_completed",
    "cancellation_reason",
    "continue_as_new",
    "current_update_info",
    "defn",
    "deprecate_patch",
    "dynamic_config",
    "entity",
    "entity_handler",
    "entity_key",
    "entity_reader",
    "execute_activity",
    "execute_activity_class",
    "execute_activity_method",
    "execute_child_workflow",
    "execute_local_activity",
    "execute_local_activity_class",
    "execute_local_activity_method",
    "extern_functions",
    "get_current_details",
    "get_dynamic_query_handler",
    "get_dynamic_signal_handler",
    "get_dynamic_update_handler",
    "get_external_workflow_handle",
    "get_external_workflow_handle_for",
    "get_last_completion_result",
    "get_last_failure",
    "get_query_handler",
    "get_signal_handler",
    "get_update_handler",
    "has_last_completion_result",
    "in_workflow",
    "info",
    "init",
    "instance",
    "logger",
    "map",
    "memo",
    "memo_value",
    "new_random",
    "now",
    "parallel",
    "patched",
    "payload_converter",
    "query",
    "random",
    "run",
    "saga",
    "set_current_details",
    "set_dynamic_query_handler",
    "set_dynamic_signal_handler",
    "set_dynamic_update_handler",
    "set_query_handler",
    "set_signal_handler",
    "set_update_handler",
    "signal",
    "sleep",
    "start_activity",
    "start_activity_class",
    "start_activity_method",
    "start_child_workflow",
    "start_local_activity",
    "start_local_activity_class",
    "start_local_activity_method",
    "time",
    "time_ns",
    "unsafe",
    "update",
    "upsert_memo",
    "upsert_search_attributes",
    "uuid4",
    "uuid7",
    "wait",
    "wait_condition",
]
