"""What the decorators leave behind: names, handlers and types of activities and workflows.

Decorated things stay what they were; their definition hangs on them as an attribute. Type hints are
resolved when they are first needed, because a hint may name a class that is defined further down.
"""

from perdure._definitions.activities import (
    NO_VERSIONS,
    VERSIONED_NAMES,
    ActivityDefinition,
    activity_definition,
)
from perdure._definitions.handlers import (
    HandlerDefinition,
    HandlerTable,
    HandlerUnfinishedPolicy,
    find_handler,
    handler_definition,
    mark_query,
    mark_signal,
    query_definition,
    signal_definition,
)
from perdure._definitions.registries import ActivityRegistry, WorkflowRegistry
from perdure._definitions.signature import Signature
from perdure._definitions.updates import (
    UpdateDefinition,
    define_update,
    mark_update,
    update_definition,
    update_handler,
)
from perdure._definitions.workflows import (
    WorkflowDefinition,
    define_workflow,
    is_workflow,
    mark_init,
    mark_run,
    startable_workflow,
    workflow_definition,
)

__all__ = [
    "NO_VERSIONS",
    "VERSIONED_NAMES",
    "ActivityDefinition",
    "ActivityRegistry",
    "HandlerDefinition",
    "HandlerTable",
    "HandlerUnfinishedPolicy",
    "Signature",
    "UpdateDefinition",
    "WorkflowDefinition",
    "WorkflowRegistry",
    "activity_definition",
    "define_update",
    "define_workflow",
    "find_handler",
    "handler_definition",
    "is_workflow",
    "mark_init",
    "mark_query",
    "mark_run",
    "mark_signal",
    "mark_update",
    "query_definition",
    "signal_definition",
    "startable_workflow",
    "update_definition",
    "update_handler",
    "workflow_definition",
]
