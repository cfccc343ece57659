"""What the decorators leave behind: names, handlers and types of activities and workflows.

Decorated things stay what they were; their definition hangs on them as an attribute. Type hints are
resolved when they are first needed, because a hint may name a class that is defined further down.
"""

from perdure._definitions.activities import (
    NO_VERSIONS,
    VERSIONED_NAMES,
    ActivityDefinition,
    activity_definition,
    is_activity,
)
from perdure._definitions.entities import (
    EntityDefinition,
    EntityMethod,
    define_entity,
    entity_definition,
    entity_handler_of,
    entity_key_of,
    entity_reader_of,
    entity_workflow_id,
    fresh_key,
    mark_entity_handler,
    mark_entity_reader,
)
from perdure._definitions.entity_input import Done, Head, Waiting, head_of, head_to_payload
from perdure._definitions.entity_state import EntityState, fresh_object, object_of, state_of
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
    DynamicWorkflowConfig,
    WorkflowDefinition,
    define_workflow,
    is_workflow,
    mark_dynamic_config,
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
    "Done",
    "DynamicWorkflowConfig",
    "EntityDefinition",
    "EntityMethod",
    "EntityState",
    "HandlerDefinition",
    "HandlerTable",
    "HandlerUnfinishedPolicy",
    "Head",
    "Signature",
    "UpdateDefinition",
    "Waiting",
    "WorkflowDefinition",
    "WorkflowRegistry",
    "activity_definition",
    "define_entity",
    "define_update",
    "define_workflow",
    "entity_definition",
    "entity_handler_of",
    "entity_key_of",
    "entity_reader_of",
    "entity_workflow_id",
    "find_handler",
    "fresh_key",
    "fresh_object",
    "handler_definition",
    "head_of",
    "head_to_payload",
    "is_activity",
    "is_workflow",
    "mark_dynamic_config",
    "mark_entity_handler",
    "mark_entity_reader",
    "mark_init",
    "mark_query",
    "mark_run",
    "mark_signal",
    "mark_update",
    "object_of",
    "query_definition",
    "signal_definition",
    "startable_workflow",
    "state_of",
    "update_definition",
    "update_handler",
    "workflow_definition",
]
